"""What callers were told is committed, as a load generator wrote it down: each must exist.

The file has one JSON object a line: merchant, idempotency_key, aggregate_key, event_id, version.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import msgspec

from reconciliation import limits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reconciliation.contract.snapshot import Snapshot


class Acknowledgement(msgspec.Struct):
    """One answer that said committed."""

    merchant: str
    idempotency_key: str
    aggregate_key: str
    event_id: str
    version: int | None  # of the aggregate; None when the answer did not say it


_decoder: Final = msgspec.json.Decoder(Acknowledgement)


def acknowledged_violations(view: Snapshot, sql: str, file: Path, size_bytes: int) -> Iterator[dict[str, Any]]:
    """The acknowledgements without a stored result, event and aggregate. Raises ValueError on a bad line.

    ``size_bytes`` is the file's size before the snapshot was taken: what a live load generator adds later may be about
    commits that the snapshot does not see.
    """
    with file.open("rb") as lines:
        records = (_decode(number, line) for number, line in enumerate(_lines_of(lines, size_bytes), 1))
        while chunk := list(islice(records, limits.CHECK_ACKNOWLEDGED_CHUNK)):
            yield from view.rows(
                sql,
                merchants=[a.merchant for a in chunk],
                keys=[a.idempotency_key for a in chunk],
                aggregate_keys=[a.aggregate_key for a in chunk],
                event_ids=[a.event_id for a in chunk],
                versions=[a.version for a in chunk],
            )


def _lines_of(lines: BinaryIO, size_bytes: int) -> Iterator[bytes]:
    for line in lines:
        size_bytes -= len(line)
        if size_bytes < 0:  # the last line was being written
            return
        yield line


def _decode(number: int, line: bytes) -> Acknowledgement:
    try:
        return _decoder.decode(line)
    except msgspec.MsgspecError as error:
        raise ValueError(f"line {number} of the acknowledgements is not one: {error}") from error
