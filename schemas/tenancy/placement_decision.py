"""What a person says who has a store of tenants' rows emptied, or used again."""

from __future__ import annotations

from typing import Final

from schemas.fields import validation
from schemas.fields import value_types as types
from schemas.fields.validation import Field
from schemas.operators import decision_note
from schemas.tenancy import limits

ACTIVATE: Final[validation.Fields] = decision_note.REQUIRED
DRAIN: Final[validation.Fields] = ACTIVATE | {
    "soak_s": Field(
        types.whole(0, limits.MOVE_SOAK_S), "for how long a tenant that was moved may go back", None, nullable=True
    )
}
