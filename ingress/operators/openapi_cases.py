"""Cases, and named positions to recover from, in the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from ingress.http.openapi import elements
from ingress.http.openapi.reads import OF_ONE, a_list, read
from ingress.http.openapi.shared import STRING, TEXT_OR_NULL, TIME, TIME_OR_NULL, WORD, a_schema, page_of, ref
from ingress.identity.roles import by_operators
from ingress.operators import cases

Json = dict[str, Any]

_ONLY_OF_STATE: Final = elements.query("state", {"enum": list(cases.STATES)}, "Only those in this state")
_ONLY_OF_KIND: Final = elements.query("kind", WORD, "Only those of this kind")


def paths() -> Json:
    """The GET of each."""
    return {
        "/v1/cases": _cases(),
        "/v1/cases/{case_id}": _case(),
        "/v1/recovery_checkpoints": _checkpoints(),
    }


def components() -> Json:
    """What these show."""
    return {
        "Case": _a_case(),
        "CasePage": page_of(ref("Case")),
        "Checkpoint": _checkpoint(),
        "CheckpointPage": page_of(ref("Checkpoint")),
    }


def for_operators(a_read: Json) -> Json:
    """The same for those who may look into cases."""
    return {"get": a_read["get"] | by_operators("case.read")}


def _cases() -> Json:
    filters = (_ONLY_OF_STATE, _ONLY_OF_KIND)
    return for_operators(a_list("cases", "What waits for a person, newest first", "CasePage", *filters))


def _case() -> Json:
    responses = {"200": elements.answer("The case", elements.JSON, "Case")}
    return for_operators(read("get_case", "One case", [elements.object_id("case_id")], responses, OF_ONE))


def _checkpoints() -> Json:
    summary = "Named positions to recover from, newest first"
    return for_operators(a_list("recovery_checkpoints", summary, "CheckpointPage"))


def _a_case() -> Json:
    return a_schema(
        {
            "id": STRING,
            "object": {"const": "case"},
            "kind": STRING,
            "reference": STRING,
            "processor": TEXT_OR_NULL,
            "state": {"enum": ["open", "proposed", "resolved"]},
            "evidence": {"type": "object"},
            "opened_at": TIME,
            "resolved_at": TIME_OR_NULL,
            "resolved_by": TEXT_OR_NULL,
            "note": TEXT_OR_NULL,
        }
    )


def _checkpoint() -> Json:
    return a_schema(
        {
            "name": STRING,
            "scenario": STRING,
            "operation_id": STRING,
            "aggregate_key": TEXT_OR_NULL,
            "last_durable_version": {"type": ["integer", "null"]},
            "projection_checkpoint": {"type": "array", "items": {}},
            "retry_policy": {"type": "object"},
            "reconciliation_status": {"enum": ["pending", "clean", "gaps"]},
            "owner": STRING,
            "created_at": TIME,
        }
    )
