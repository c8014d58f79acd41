"""Uploads of media, and what becomes of them. Each command lies in the partition of the medium's owner.

So a post, its media, and what a scan finds cannot cross: one owner decides them all in one order.
"""

from __future__ import annotations

import re
from typing import Any, Final

from schemas import senders
from schemas.errors import InvalidCommand
from schemas.fields.validation import Field, ValueType
from schemas.fields.value_types import ID, SIGNALS, choice, whole
from schemas.operation import Named, Operation
from schemas.senders import of_worker
from schemas.social import limits

SCANNER: Final = "social_scanner"
WRITE: Final = "posts:write"
MIMES: Final = ("image/jpeg", "image/png", "image/webp", "image/gif", "video/mp4")
_UPLOADS: Final = "/v1/media/uploads"
SHA256_HEX: Final = re.compile(r"[0-9a-f]{64}")
_PART_FIELDS: Final = {"bytes", "sha256"}
_NOT_PARTS: Final = f"must be a list of 1 to {limits.MEDIA_PARTS_MAX} parts, each with its bytes and sha256"


def _sha256(value: object) -> str | None:
    return None if isinstance(value, str) and SHA256_HEX.fullmatch(value) else "must be a SHA-256 in lower-case hex"


def content_of(typed: str) -> str:
    """The SHA-256 of a whole content, as a person typed it. Raises InvalidCommand."""
    found = typed.strip().lower()
    if not SHA256_HEX.fullmatch(found):
        raise InvalidCommand([{"field": "sha256", "reason": "must be the SHA-256 of a content, in hex"}])
    return found


def _parts(value: object) -> str | None:
    if not isinstance(value, list) or not 1 <= len(value) <= limits.MEDIA_PARTS_MAX:
        return _NOT_PARTS
    for n, part in enumerate(value):
        if not isinstance(part, dict) or part.keys() != _PART_FIELDS or _sha256(part["sha256"]):
            return _NOT_PARTS
        smallest = 1 if n == len(value) - 1 else limits.MEDIA_PART_BYTES_MIN
        if type(part["bytes"]) is not int or not smallest <= part["bytes"] <= limits.MEDIA_BYTES_MAX:
            return f"must have {limits.MEDIA_PART_BYTES_MIN} bytes or more in each part but the last"
    return None


def _are_the_whole(payload: dict[str, Any]) -> list[dict[str, str]]:
    """The parts together are as long as the whole."""
    parts = payload["parts"]
    if parts is None or sum(part["bytes"] for part in parts) == payload["bytes"]:
        return []
    return [{"field": "payload.parts", "reason": "must have as many bytes together as the whole"}]


def _manifest(value: object) -> str | None:
    is_short = isinstance(value, str) and len(value) <= limits.MEDIA_MANIFEST_LENGTH_MAX
    return None if is_short else "must be the JSON of a manifest"


def callers_own(named: Named) -> str:
    """The aggregate of the user who calls."""
    return named.scope


SHA256: Final = ValueType(_sha256, "string", {"type": "string", "pattern": f"^{SHA256_HEX.pattern}$"})
_PART_AVRO: Final = {
    "type": "record",
    "name": "UploadPart",
    "fields": [{"name": "bytes", "type": "long"}, {"name": "sha256", "type": "string"}],
}
PARTS: Final = ValueType(
    _parts,
    {"type": "array", "items": _PART_AVRO},
    {
        "type": "array",
        "minItems": 1,
        "maxItems": limits.MEDIA_PARTS_MAX,
        "items": {
            "type": "object",
            "additionalProperties": False,
            "required": ["bytes", "sha256"],
            "properties": {
                "bytes": {"type": "integer", "minimum": 1, "maximum": limits.MEDIA_BYTES_MAX},
                "sha256": {"type": "string", "pattern": f"^{SHA256_HEX.pattern}$"},
            },
        },
    },
)
MANIFEST: Final = ValueType(_manifest, "string", {"type": "string", "maxLength": limits.MEDIA_MANIFEST_LENGTH_MAX})
_OF_SCANNER: Final = (of_worker(SCANNER),)

OPERATIONS: Final = (
    Operation(
        name="initiate_upload",
        service="social",
        method="POST",
        path=_UPLOADS,
        record="InitiateUpload",
        payload={
            "mime": Field(choice(*MIMES), "what the bytes are"),
            "bytes": Field(whole(1, limits.MEDIA_BYTES_MAX), "of the whole"),
            "sha256": Field(SHA256, "of the whole, in hex"),
            "parts": Field(PARTS, "in order; without it, the whole is one part", default=None, nullable=True),
            "expires_in_s": Field(
                whole(1, limits.MEDIA_URL_TTL_MAX_S),
                "for how long the URLs of parts are good",
                default=limits.MEDIA_URL_TTL_MAX_S,
            ),
        },
        summary="Begin an upload: a URL for each of its parts",
        result="CommittedMedia",
        scope=WRITE,
        outside=senders.USER,
        refusals=("forbidden", "gone", "quota_exceeded"),
        creates="md",
        aggregate=callers_own,
        together=_are_the_whole,
        body_bytes_max=limits.MEDIA_UPLOAD_BODY_BYTES_MAX,
    ),
    Operation(
        name="complete_upload",
        service="social",
        method="POST",
        path=f"{_UPLOADS}/{{id}}/complete",
        record="CompleteUpload",
        payload={"media_id": Field(ID, "the medium, from the path")},
        summary="End an upload: its bytes are checked, and scanned",
        result="CommittedMedia",
        scope=WRITE,
        outside=senders.USER,
        refusals=("forbidden", "gone", "checksum_mismatch"),
        id_name="media_id",
        path_field="media_id",
        aggregate=callers_own,
        signals=Field(SIGNALS, "whether the bytes are those that were declared", default=None, nullable=True),
    ),
    Operation(
        name="delete_upload",
        service="social",
        method="DELETE",
        path=f"{_UPLOADS}/{{id}}",
        record="DeleteUpload",
        payload={"media_id": Field(ID, "the medium, from the path")},
        summary="Delete a medium that is in no post, or an upload that is not complete",
        result="CommittedMedia",
        scope=WRITE,
        outside=senders.USER,
        refusals=("forbidden", "gone"),
        id_name="media_id",
        path_field="media_id",
        aggregate=callers_own,
    ),
    Operation(
        name="record_scan",
        service="social",
        method="POST",
        path=f"{_UPLOADS}/{{id}}/scan",
        record="RecordScan",
        payload={
            "media_id": Field(ID, "the medium"),
            "outcome": Field(choice("ready", "infected", "rejected"), "what was found"),
            "manifest": Field(MANIFEST, "its renditions, as JSON", default=None, nullable=True),
        },
        summary="What a scan found, and the renditions that were made",
        refusals=("state_conflict",),
        senders=_OF_SCANNER,
    ),
    Operation(
        name="expire_upload",
        service="social",
        method="POST",
        path=f"{_UPLOADS}/{{id}}/expire",
        record="ExpireUpload",
        payload={"media_id": Field(ID, "the medium")},
        summary="End what no post took within a day",
        refusals=("state_conflict",),
        senders=_OF_SCANNER,
    ),
)
