"""The outcomes of the OpenAPI document: attempts past their budget of doubt, and what persons say of them."""

from __future__ import annotations

from typing import Final

from ingress.http.openapi import elements, shared
from ingress.http.openapi.shared import STRING, TEXT_OR_NULL, TIME_OR_NULL
from ingress.payments.openapi.proposals import DECIDED, KEY, NOTE, Json, call, decided
from schemas.payments import attempt_outcome

_CASE: Final = elements.object_id("case_id")
_OUTCOME: Final = elements.object_id("outcome_id")
_OPERATION: Final = elements.object_id("operation_id")


def paths() -> Json:
    """Every route of ``outcome_routes``."""
    asked = {"202": elements.answer("A worker asks the processor next", elements.JSON, "AttemptAsked")}
    says = "Proposed for a second person"
    made = {"201": elements.answer(says, elements.JSON, "AttemptOutcome", elements.MADE_HEADERS)}
    found = {"200": elements.answer("The outcome", elements.JSON, "AttemptOutcome")}
    later = {"202": elements.answer("Approved, not recorded yet", elements.JSON, "AttemptOutcome")}
    listed = {"200": elements.answer("Newest first", elements.JSON, "AttemptOutcomes")}
    return {
        "/v1/processor_attempts/{operation_id}/ask": {
            "post": call(
                "ask_processor",
                "Ask the processor about an attempt",
                [_OPERATION],
                asked,
                "RepairDecision",
                action="attempt.ask",
            )
        },
        "/v1/cases/{case_id}/outcomes": {
            "get": call("list_outcomes", "The outcomes proposed for a case", [_CASE], listed),
            "post": call(
                "propose_outcome",
                "Propose the outcome of an attempt",
                [_CASE, KEY],
                made,
                "AttemptOutcomeProposal",
                action="attempt.propose_outcome",
            ),
        },
        **decided(
            "/v1/cases/{case_id}/outcomes/{outcome_id}",
            "outcome",
            [_CASE, _OUTCOME],
            found,
            ("attempt.approve_outcome", "attempt.reject_outcome"),
            shows="One outcome",
            approved=found | later,
        ),
    }


def components() -> dict[str, Json]:
    """The schemas of outcomes."""
    optional_amount = {"anyOf": [shared.AMOUNT, {"type": "null"}]}
    fact = {
        "status": {"enum": list(attempt_outcome.STATUSES)},
        "amount": optional_amount,
        "currency": TEXT_OR_NULL,
        "provider_ref": TEXT_OR_NULL,
        "error_code": TEXT_OR_NULL,
    }
    outcome = {
        "id": STRING,
        "object": {"const": "attempt_outcome"},
        "case_id": STRING,
        "operation_id": STRING,
        "payment_intent": STRING,
        "attempt": {"type": "integer"},
        "processor": STRING,
        "fact": shared.a_schema(fact),
        "note": STRING,
        "author": STRING,
        "state": {"enum": ["proposed", "approved", "rejected", "recorded", "refused"]},
        **DECIDED,
        "refusal": TEXT_OR_NULL,
        "recorded_at": TIME_OR_NULL,
    }
    return {
        "AttemptAsked": shared.a_schema({"operation_id": STRING, "status": {"const": "asked"}}),
        "AttemptOutcome": shared.a_schema(outcome),
        "AttemptOutcomes": shared.list_of(shared.ref("AttemptOutcome")),
        "AttemptOutcomeProposal": shared.a_schema(fact | {"note": NOTE}, ["status", "note"], closed=True),
    }
