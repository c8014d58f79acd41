"""The note of a person's decision, whatever it is about: why, in words that are kept with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from schemas import limits
from schemas.errors import InvalidCommand
from schemas.fields import validation
from schemas.fields import value_types as types
from schemas.fields.validation import Field

NOTE: Final = types.said_text(limits.NOTE_LENGTH_MAX)
REQUIRED: Final[validation.Fields] = {"note": Field(NOTE, "why")}
OPTIONAL: Final[validation.Fields] = {"note": Field(NOTE, "why", None, nullable=True)}


def note_of(text: str) -> str:
    """The note of a decision that says nothing else. Raises InvalidCommand."""
    return str(read_decision(REQUIRED, {"note": text})["note"])


def note_in(form: Mapping[str, str]) -> str:
    """The same of a page's form, without the blanks around it. Raises InvalidCommand."""
    return note_of(form.get("note", "").strip())


def read_decision(table: validation.Fields, payload: dict[str, Any]) -> dict[str, Any]:
    """The payload of a decision. Raises InvalidCommand with all that is wrong."""
    found, wrong = validation.normalize(table, payload)
    if wrong:
        raise InvalidCommand(wrong)
    return found
