"""What a user may do with all that is its own: have a copy of it, and have it erased."""

from __future__ import annotations

from typing import Final

from schemas import senders
from schemas.fields.validation import Field, ValueType
from schemas.fields.value_types import COUNT, ID
from schemas.operation import Named, Operation
from schemas.senders import of_worker
from schemas.social import limits
from schemas.social.value_types import USER

ERASER: Final = "social_eraser"
WRITE: Final = "posts:write"


def callers_own(named: Named) -> str:
    """The aggregate of the user who calls."""
    return named.scope


def _jws(value: object) -> str | None:
    is_one = isinstance(value, str) and len(value) <= limits.CERTIFICATE_LENGTH_MAX and value.count(".") == 2  # noqa: PLR2004
    return None if is_one else "must be a compact JWS"


JWS: Final = ValueType(_jws, "string", {"type": "string", "maxLength": limits.CERTIFICATE_LENGTH_MAX})
OPERATIONS: Final = (
    Operation(
        name="request_export",
        service="social",
        method="POST",
        path="/v1/me/exports",
        record="RequestExport",
        payload={},
        summary="Have a copy of all that is one's own",
        result="CommittedExport",
        scope=WRITE,
        outside=senders.USER,
        refusals=("forbidden", "gone"),
        creates="ex",
        aggregate=callers_own,
    ),
    Operation(
        name="erase_user",
        service="social",
        method="POST",
        path="/v1/me/erasure",
        record="EraseUser",
        payload={"confirm": Field(USER, "the caller's own id")},
        summary="Erase oneself for ever",
        result="CommittedErasure",
        scope=WRITE,
        outside=senders.USER,
        refusals=("forbidden", "gone"),
        aggregate=callers_own,
    ),
    Operation(
        name="certify_erasure",
        service="social",
        method="POST",
        path="/v1/me/erasure/{id}",
        record="CertifyErasure",
        payload={
            "erasure_id": Field(ID, "the erasure"),
            "jws": Field(JWS, "the signed certificate"),
            "reachable": Field(COUNT, "what the crawler still found: 0"),
        },
        summary="Nothing of a user can be reached: the proof of it",
        refusals=("state_conflict",),
        senders=(of_worker(ERASER),),
    ),
)
