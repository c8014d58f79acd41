"""Media, moderation and what is one's own in the OpenAPI document: what is read, and how it looks."""

from __future__ import annotations

from typing import Any, Final

from ingress.http.openapi import elements
from ingress.http.openapi.shared import OBJECT_ID, TIME_OR_NULL, a_schema, ref
from ingress.http.requests.reading import NDJSON
from schemas.social.moderation_operations import APPEAL_STATES, MODERATOR
from schemas.social.service import READ

Json = dict[str, Any]
_TEXT: Final[Json] = {"type": "string"}
_COUNT: Final[Json] = {"type": "integer", "minimum": 0}
_VERSION: Final[Json] = {"type": "integer", "minimum": 1}


def _open(fields: Json) -> Json:
    return a_schema(fields) | {"additionalProperties": True}


def components() -> dict[str, Json]:
    """The shapes that answers have."""
    rendition = {"name": _TEXT, "width": _COUNT, "height": _COUNT, "mime": _TEXT, "bytes": _COUNT, "sha256": _TEXT}
    renditions = {"type": "array", "items": _open(rendition | {"url": _TEXT})}
    manifest = _open({"version": _VERSION, "renditions": renditions}) | {"type": ["object", "null"]}
    media = {"id": OBJECT_ID, "media_id": OBJECT_ID, "object": {"const": "media"}, "mime": _TEXT, "bytes": _COUNT}
    media |= {"sha256": _TEXT, "scan_state": _TEXT, "rendition_manifest": manifest, "version": _VERSION}
    decided = {"id": _TEXT, "object": _TEXT, "version": _VERSION}
    export = {"id": _TEXT, "export_id": _TEXT, "state": {"enum": ["running", "ready"]}}
    erasure = {"id": _TEXT, "erasure_id": _TEXT, "state": {"enum": ["running", "complete"]}, "version": _VERSION}
    report = {"id": _TEXT, "report_id": _TEXT, "object_id": _TEXT, "version": _VERSION}
    arrived = {"enum": ["pending", "verified"]}
    consumer = {"name": _TEXT, "state": arrived, "attempts": {"type": "integer"}, "verified_at": TIME_OR_NULL}
    consumers = {"type": "array", "items": _open(consumer)}
    propagation = {"decision_id": _TEXT, "state": arrived, "consumers": consumers}
    return {
        "Media": _open(media),
        "ModerationRecord": _open(decided),
        "Propagation": _open(propagation),
        "Export": _open(export),
        "ExportLine": {"type": "object"},
        "Erasure": _open(erasure),
        "CommittedMedia": a_schema({"result": ref("Media"), "event": ref("Event")}),
        "CommittedReport": a_schema({"result": _open(report), "event": ref("Event")}),
        "CommittedModeration": a_schema({"result": ref("ModerationRecord"), "event": ref("Event")}),
        "CommittedExport": a_schema({"result": ref("Export"), "event": ref("Event")}),
        "CommittedErasure": a_schema({"result": ref("Erasure"), "event": ref("Event")}),
    }


def paths() -> Json:
    """What is read; everything else is a command."""
    decision, found = elements.object_id("decision_id"), ("not_found",)
    one_decision = "/v1/moderation/decisions/{decision_id}"
    export, one_export = elements.object_id("export_id"), "/v1/me/exports/{export_id}"
    upload = elements.object_id("media_id")
    queue = [elements.limit(), elements.CURSOR]
    reached = "What a decision has reached"
    return {
        "/v1/media/uploads/{media_id}": _read("get_upload", "An upload of one's own", [upload], "Media", found),
        "/v1/moderation/queue": _read(
            "list_moderation_cases",
            "Open cases",
            queue,
            "SocialPage",
            ("malformed_request", "invalid_command"),
            MODERATOR,
        ),
        "/v1/moderation/appeals": _read(
            "list_appeals",
            "One's own appeals, or for moderators all, the last first",
            [elements.query("state", {"enum": list(APPEAL_STATES)}, "Those in this state alone"), *queue],
            "SocialPage",
            ("malformed_request", "invalid_command"),
        ),
        one_decision: _read("get_decision", "One decision", [decision], "ModerationRecord", found),
        f"{one_decision}/propagation": _read("get_propagation", reached, [decision], "Propagation", found, MODERATOR),
        one_export: _read("get_export", "An export of one's own", [export], "Export", found),
        f"{one_export}/content": _read(
            "get_export_content", "All that is one's own", [export], "ExportLine", found, media_type=NDJSON[0]
        ),
        "/v1/me/erasure": _read("get_erasure", "One's own erasure and its certificate", [], "Erasure", found),
    }


def _read(
    name: str,
    summary: str,
    parameters: list[Json],
    schema: str,
    codes: tuple[str, ...],
    scope: str = READ,
    media_type: str = elements.JSON,
) -> Json:
    return {
        "get": {
            "operationId": name,
            "summary": summary,
            "tags": ["social"],
            "security": [{"bearer": [scope]}],
            "parameters": parameters,
            "responses": {"200": elements.answer(summary, media_type, schema)}
            | elements.refusals((*elements.COMMON, "gone", *codes)),
        }
    }
