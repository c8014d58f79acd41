"""Maintenance: new work of all merchants switched off by an operator, and on again. Published in versions, as policies.

New work is a call of a merchant that would change something (scope ``payments:write``, ``payouts:write`` or
``payout_destinations:write``) and has no stored result yet. Reads, dry runs, replays, facts and operators go on.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from schemas import errors, limits
from schemas.fields import validation


class Maintenance(msgspec.Struct, frozen=True, kw_only=True):
    """One version. The reason is for operators: no merchant hears it.

    What a newer build says besides is ignored where it is read: an older one refuses too much, never too little.
    """

    on: bool
    reason: str


#: before anything is published
NEVER: Final = Maintenance(on=False, reason="")
_decode: Final = msgspec.json.Decoder(Maintenance).decode
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


def canonical(document: dict[str, Any]) -> str:
    """What is stored of a document. Raises msgspec.ValidationError, or InvalidCommand for a wrong reason or field."""
    found = msgspec.convert(document, Maintenance)
    if unknown := sorted(document.keys() - set(Maintenance.__struct_fields__)):
        raise errors.InvalidCommand([{"field": unknown[0][: limits.TEXT_LENGTH_MAX], "reason": "is not a field"}])
    if fault := validation.said_text(found.reason, limits.TEXT_LENGTH_MAX):
        raise errors.InvalidCommand([{"field": "reason", "reason": fault}])
    return _encode(found).decode()


def read(body: str) -> Maintenance:
    """A published body. Raises msgspec.DecodeError."""
    return _decode(body)
