"""A service of the release after ours: its codec knows one more version of the events of payments.

Run as ``python -m tests.worlds.upgraded_service processor_worker``; ``of_next_release`` makes what only it can read.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from compose.services.__main__ import main
from schemas.avro import codec

#: in no ids.json of ours
NEXT_SCHEMA_ID: Final = 1_000_000


def of_next_release(event: bytes) -> bytes:
    """The same event as an owner of the next release would publish it."""
    return b"\x00" + NEXT_SCHEMA_ID.to_bytes(4, "big") + event[5:]


def _upgrade() -> None:
    newest = codec.schema_named("PaymentSystemCommitted")
    codec.schemas_by_id()[NEXT_SCHEMA_ID] = dataclasses.replace(newest, schema_id=NEXT_SCHEMA_ID)


if __name__ == "__main__":
    _upgrade()
    main()
