"""Closing a case that needs no money: the reasons that may be given for it, and what each decision says.

Who has to decide, and what may not be closed yet, stands in the database (migration 0038), where nobody passes it by.
"""

from __future__ import annotations

from typing import Final

from schemas.fields import validation
from schemas.fields import value_types as types
from schemas.fields.validation import Field
from schemas.operators import decision_note

#: what a person may find out about a case; the note says how
REASONS: Final = (
    "explained",  # something that came later, or that the case does not show, accounts for it
    "duplicate",  # another case is about the same thing
    "not_ours",  # no money or object of ours is concerned
    "handled_elsewhere",  # the processor, the bank or the merchant has settled it
    "test",  # a drill, or a test of the processor's
)
CLOSING: Final[validation.Fields] = {
    "reason": Field(types.choice(*REASONS), "why nothing has to be posted"),
    "note": decision_note.REQUIRED["note"],
}
REOPENING: Final[validation.Fields] = {"note": decision_note.REQUIRED["note"]}
