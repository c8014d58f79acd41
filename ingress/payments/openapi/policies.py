"""Policies, reviews and assessments in the OpenAPI document; the schemas of policies are those of their structs."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from ingress import limits as ingress_limits
from ingress.http.openapi import commands, elements, shared
from ingress.http.openapi.shared import STRING, TEXT_OR_NULL, TIME
from ingress.identity.roles import by_operators
from schemas.operators import maintenance
from schemas.payments import limits as payments_limits
from schemas.payments.operations import OPERATIONS
from schemas.payments.policies import (
    bank_rules,
    fee_policy,
    kinds,
    processor_fees,
    reference_rates,
    risk_policy,
    routing,
)

Json = dict[str, Any]

_DOCUMENTS: Final[dict[str, Any]] = {
    "risk": risk_policy.RiskDocument,
    "routing": routing.RoutingPolicy,
    "fees": fee_policy.FeePolicy,
    "maintenance": maintenance.Maintenance,
    "bank_rules": bank_rules.BankRules,
    "processor_fees": processor_fees.ProcessorFees,
    "reference_rates": reference_rates.ReferenceRates,
}
_READ: Final = (*elements.COMMON, "not_found", "malformed_request", "invalid_command")
_WRITTEN: Final = (*_READ, "too_large", "unsupported_media_type", "version_conflict")
_REVIEW: Final = OPERATIONS["review_payment_intent"]
_NUMBER: Final[Json] = {"type": "integer"}
_DOC: Final = (
    "Makes the next version and retires the one before; no version ever changes. expected_version is the active one"
    " (0 when there is none), and the identity of the call: the same person who says the same again hears the same"
    " version again, with Idempotency-Replayed."
    " Of fees, routing, reference rates, what processors take and bank rules the first person's document waits (202)"
    " until another person says the same."
)


def paths() -> Json:
    """Every route of ``policy_routes`` and ``risk_routes``."""
    found: Json = {}
    for kind in _DOCUMENTS:
        found |= _paths_of(kind)
    intent = elements.object_id("intent_id")
    found["/v1/payment_intents/{intent_id}/review"] = {"post": _review(intent)}
    listed = {"200": elements.answer("Oldest first", elements.JSON, "RiskAssessments")}
    found["/v1/payment_intents/{intent_id}/risk"] = {
        "get": _call("list_risk_assessments", "Why the risk rules decided as they did", [intent], listed, _READ)
    }
    return found


def _paths_of(kind: str) -> Json:
    shown, name = f"{kind.title()}PolicyVersion", f"{kind} policy"
    page = [
        elements.limit(payments_limits.POLICIES_PAGE_LIMIT_DEFAULT, ingress_limits.POLICIES_PAGE_LIMIT_MAX),
        elements.CURSOR,
    ]
    version = {"name": "version", "in": "path", "required": True, "schema": {"type": "string", "maxLength": 20}}
    one = {"200": elements.answer("The version", elements.JSON, shown)}
    many = {"200": elements.answer("Newest first", elements.JSON, f"{shown}Page")}
    made = {"201": elements.answer("Published", elements.JSON, shown, elements.MADE_HEADERS)}
    proposals: Json = {}
    if kind in kinds.OF_TWO_PERSONS:
        waits = "Proposed: a second person publishes it"
        made["202"] = elements.answer(waits, elements.JSON, "PolicyProposed", elements.REPLAYED_HEADERS)
        waiting = {"200": elements.answer("Oldest first", elements.JSON, f"{kind.title()}PolicyProposals")}
        listed = _call(f"list_{kind}_policy_proposals", f"What waits of the {name}", [], waiting, _READ)
        proposals[f"/v1/{kind}/policies/proposals"] = {"get": listed}
    publish = _call(f"publish_{kind}_policy", f"Publish a {name}", [], made, _WRITTEN, f"{kind}_policy.publish")
    body = {"required": True, "content": {elements.JSON: {"schema": shared.ref(f"{kind.title()}Publication")}}}
    return proposals | {
        f"/v1/{kind}/policies": {
            "get": _call(f"list_{kind}_policies", f"Every version of the {name}", page, many, _READ),
            "post": publish | {"description": _DOC, "requestBody": body},
        },
        f"/v1/{kind}/policies/{{version}}": {
            "get": _call(f"get_{kind}_policy", f"One version of the {name}", [version], one, _READ)
        },
    }


def _review(intent: Json) -> Json:
    payload = shared.ref("ReviewPayload")
    envelope = shared.a_schema(
        {
            "request_id": {**shared.REQUEST_ID, "type": ["string", "null"]},
            "idempotency_key": {**shared.IDEMPOTENCY_KEY, "type": ["string", "null"]},
            "expected_version": {
                "type": ["integer", "null"],
                "minimum": 0,
                "maximum": ingress_limits.EXPECTED_VERSION_MAX,
            },
            "payload": payload,
        },
        ["payload"],
        closed=True,
    )
    responses = {
        "200": elements.answer("Decided", elements.JSON, "Committed", elements.COMMITTED_HEADERS),
        "202": elements.answer("Accepted, not decided yet", elements.JSON, "Accepted", elements.ACCEPTED_HEADERS),
    }
    made = _call(
        _REVIEW.name,
        _REVIEW.summary,
        [intent, *elements.COMMAND_HEADERS],
        responses,
        (),
        "risk.review",
    )
    content = {elements.JSON: {"schema": {"anyOf": [envelope, payload]}}}
    made["responses"] = responses | elements.refusals_of(_REVIEW)
    return made | {"requestBody": {"required": True, "content": content}}


def _call(
    operation_id: str,
    summary: str,
    parameters: list[Json],
    responses: Json,
    codes: tuple[str, ...],
    action: str = "policy.read",
) -> Json:
    return {
        "operationId": operation_id,
        "summary": summary,
        **by_operators(action),
        "parameters": parameters,
        "responses": responses | elements.refusals(codes),
    }


def components() -> dict[str, Json]:
    """The schemas of policies as they are read, of their versions, and of assessments."""
    documents, structs = msgspec.json.schema_components(
        list(_DOCUMENTS.values()), ref_template="#/components/schemas/{name}"
    )
    # the end of a text, in the regular expressions of JSON
    found: dict[str, Json] = json.loads(json.dumps(structs).replace(r"\\Z", "$"))
    when = found["RiskRule"]["properties"]["when"]["items"]
    when["oneOf"] = when.pop("anyOf")  # each names its type: of more than one at once generators make no union
    expected = {"type": "integer", "minimum": 0, "maximum": payments_limits.POLICY_VERSION_MAX - 1, "example": 41}
    for kind, document in zip(_DOCUMENTS, documents, strict=True):
        body = found[document["$ref"].rpartition("/")[2]]
        given = {name: value for name, value in body["properties"].items() if name != "version"}
        properties = {"expected_version": expected, **given}
        found[f"{kind.title()}Publication"] = shared.a_schema(
            properties, ["expected_version", *body.get("required", [])], closed=True
        )
        shown = {
            "object": {"const": f"{kind}_policy"},
            "version": _NUMBER,
            "state": {"enum": ["active", "retired"]},
            "author": STRING,
            "created_at": TIME,
            "policy": document,
        }
        waiting = {
            "object": {"const": f"{kind}_policy_proposal"},
            "expected_version": _NUMBER,
            "author": STRING,
            "proposed_at": TIME,
            "policy": document,
        }
        data = {"type": "array", "items": shared.a_schema(waiting)}
        found[f"{kind.title()}PolicyProposals"] = shared.a_schema({"data": data})
        found[f"{kind.title()}PolicyVersion"] = shared.a_schema(shown)
        version = shared.ref(f"{kind.title()}PolicyVersion")
        found[f"{kind.title()}PolicyVersionPage"] = shared.page_of(version)
    proposed = {"object": STRING, "state": {"const": "proposed"}, "author": STRING}
    return found | {"PolicyProposed": shared.a_schema(proposed)} | _of_risk()


def _of_risk() -> dict[str, Json]:
    reason = {"rule": STRING, "score": _NUMBER, "detail": STRING, "shadow": {"type": "boolean"}}
    assessment = {
        "object": {"const": "risk_assessment"},
        "attempt": _NUMBER,
        "decided_by": TEXT_OR_NULL,
        "outcome": {"enum": ["allow", "review", "block"]},
        "score": _NUMBER,
        "policy_version": _NUMBER,
        "reasons": {"type": "array", "items": shared.a_schema(reason)},
        "created_at": TIME,
    }
    data = {"type": "array", "items": shared.ref("RiskAssessment")}
    return {
        "RiskAssessment": shared.a_schema(assessment),
        "RiskAssessments": shared.a_schema({"data": data}),
        "ReviewPayload": commands.payload(_REVIEW, without=("reviewer",)),
    }
