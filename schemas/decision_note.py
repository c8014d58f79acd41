"""The note of a person's decision, whatever it is about: why, in words that are kept with it."""

from __future__ import annotations

from typing import Any, Final

from schemas import limits, validation
from schemas import value_types as types
from schemas.errors import InvalidCommand
from schemas.legible_text import SAYS_SOMETHING
from schemas.validation import Field, ValueType


def _note(value: object) -> str | None:
    if reason := validation.free_text(value, limits.NOTE_LENGTH_MAX):
        return reason
    return None if str(value).strip() else "must say something"


NOTE: Final = ValueType(_note, "string", types.text_schema(limits.NOTE_LENGTH_MAX, pattern=SAYS_SOMETHING))
REQUIRED: Final[validation.Fields] = {"note": Field(NOTE, "why")}
OPTIONAL: Final[validation.Fields] = {"note": Field(NOTE, "why", None, nullable=True)}


def read_decision(table: validation.Fields, payload: dict[str, Any]) -> dict[str, Any]:
    """The payload of a decision. Raises InvalidCommand with all that is wrong."""
    found, wrong = validation.normalize(table, payload)
    if wrong:
        raise InvalidCommand(wrong)
    return found
