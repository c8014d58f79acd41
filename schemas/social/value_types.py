"""The values of social posts: texts of several lines, ids of users, lists of media."""

from __future__ import annotations

import re
from typing import Final

from schemas import limits
from schemas.fields import card_number, legible_text
from schemas.fields.validation import ValueType
from schemas.fields.value_types import choice, said_text
from schemas.social import limits as social_limits

#: what a user's name may be: what tokens say
USER_ID: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{limits.SCOPE_LENGTH_MAX}}}")
_ID: Final = re.compile(rf"[a-z0-9_]{{1,{limits.AGGREGATE_KEY_LENGTH_MAX}}}")
_NOT_A_TEXT: Final = f"must be a string of at most {social_limits.POST_TEXT_LENGTH_MAX} characters"


def _user(value: object) -> str | None:
    return None if isinstance(value, str) and USER_ID.fullmatch(value) else "must be the id of a user"


def _text(value: object) -> str | None:
    """Why a post's text is refused. Line ends, tabs and marks of direction are its own."""
    if not isinstance(value, str) or len(value) > social_limits.POST_TEXT_LENGTH_MAX:
        return _NOT_A_TEXT
    if reason := legible_text.prose_fault(value):
        return reason
    return card_number.REFUSED if card_number.holds_card_number(value) else None


def _media(value: object) -> str | None:
    if not isinstance(value, list) or len(value) > social_limits.POST_MEDIA_MAX:
        return f"must be a list of at most {social_limits.POST_MEDIA_MAX} media"
    if not all(isinstance(one, str) and _ID.fullmatch(one) for one in value):
        return "must be ids as we gave them"
    return None if len(set(value)) == len(value) else "must name each medium once"


OBJECT_ID: Final = ValueType(
    lambda value: None if _user(value) is None else "must be the id of a post, a medium or a user",
    "string",
    {"type": "string", "pattern": f"^{USER_ID.pattern}$"},
)
USER: Final = ValueType(_user, "string", {"type": "string", "pattern": f"^{USER_ID.pattern}$"})
POST_TEXT: Final = ValueType(_text, "string", {"type": "string", "maxLength": social_limits.POST_TEXT_LENGTH_MAX})
MEDIA_IDS: Final = ValueType(
    _media,
    {"type": "array", "items": "string"},
    {
        "type": "array",
        "maxItems": social_limits.POST_MEDIA_MAX,
        "uniqueItems": True,
        "items": {"type": "string", "pattern": f"^{_ID.pattern}$"},
    },
)
VISIBILITY: Final = choice("public", "followers", "private")
DISPLAY_NAME: Final = said_text(social_limits.DISPLAY_NAME_LENGTH_MAX)
