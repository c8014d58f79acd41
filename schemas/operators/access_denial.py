"""What an operator says of somebody who is not to be let in any more: the kinds, and what is wrong with one."""

from __future__ import annotations

import re
from typing import Final

from schemas import errors, limits
from schemas.fields import validation

SUBJECT: Final = "subject"
TOKEN: Final = "token"  # noqa: S105 - a kind, and no token
#: whom a caller acts for, the person, or one token by its ``jti``
KINDS: Final = ("merchant", "tenant", "user", SUBJECT, TOKEN)
#: how long a token that was issued before a denial may be shown: then nothing is left that it would refuse
TOKEN_LIFE_S: Final = limits.TOKEN_TTL_MAX_S + 2 * limits.CLOCK_SKEW_MAX_S
_NAME: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{limits.SCOPE_LENGTH_MAX}}}")


def require(kind: str, name: object, reason: object, *, so_far: object = False) -> None:
    """Raises InvalidCommand with every wrong field. ``so_far``: only tokens that were issued until now."""
    wrong = {
        "kind": None if kind in KINDS else f"must be one of {', '.join(KINDS)}",
        "name": _why_no_name(kind, name),
        "reason": validation.said_text(reason, limits.TEXT_LENGTH_MAX),
        "tokens_so_far": _why_no_moment(kind, so_far),
    }
    found = [{"field": field, "reason": why} for field, why in wrong.items() if why is not None]
    if found:
        raise errors.InvalidCommand(found)


def _why_no_name(kind: str, name: object) -> str | None:
    if kind == SUBJECT:
        return validation.clean_text(name, limits.REPAIR_PERSON_LENGTH_MAX)
    if kind == TOKEN:
        return validation.clean_text(name, limits.AUDIT_TEXT_LENGTH_MAX)
    is_name = isinstance(name, str) and _NAME.fullmatch(name)
    return None if is_name else f"must be 1 to {limits.SCOPE_LENGTH_MAX} of A-Z a-z 0-9 _ -"


def _why_no_moment(kind: str, so_far: object) -> str | None:
    if not isinstance(so_far, bool):
        return "must be true or false"
    return "has no meaning for one token" if so_far and kind == TOKEN else None
