"""The repairs of the OpenAPI document: proposals, decisions, and what they look like."""

from __future__ import annotations

from typing import Final

from ingress.http.openapi import elements, shared
from ingress.http.openapi.shared import STRING, TEXT_OR_NULL, TIME_OR_NULL
from ingress.payments.openapi.proposals import DECIDED, KEY, NOTE, Json, call, decided
from schemas import limits
from schemas.payments import limits as payments_limits
from schemas.payments import repair

_NUMBER: Final[Json] = {"type": "integer"}
_SIDE: Final[Json] = {"enum": [*repair.SIDES, None]}


def paths() -> Json:
    """Every route of ``repair_routes``."""
    case, found = elements.object_id("case_id"), elements.object_id("repair_id")
    proposed = {"201": elements.answer("Proposed, with its preview", elements.JSON, "Repair", elements.MADE_HEADERS)}
    rejected = {"200": elements.answer("Decided", elements.JSON, "Repair")}
    posted = {
        "200": elements.answer("Posted, or refused by its owner", elements.JSON, "Repair"),
        "202": elements.answer("Approved, not posted yet: approve again or wait", elements.JSON, "Repair"),
    }
    read = {"200": elements.answer("The repair", elements.JSON, "Repair")}
    listed = {"200": elements.answer("Newest first", elements.JSON, "Repairs")}
    return {
        "/v1/cases/{case_id}/proposals": {
            "get": call("list_repairs", "The proposals of a case", [case], listed),
            "post": call(
                "propose_repair",
                "Propose a ledger transaction",
                [case, KEY],
                proposed,
                "RepairProposal",
                action="repair.propose",
            ),
        },
        **decided(
            "/v1/repairs/{repair_id}",
            "repair",
            [found],
            read,
            ("repair.approve", "repair.reject"),
            shows="One repair",
            approved=posted,
            rejected=rejected,
        ),
        "/v1/repairs/{repair_id}/reverse": {
            "post": call(
                "reverse_repair",
                "Propose the mirror image",
                [found, KEY],
                proposed,
                "RepairReversal",
                action="repair.reverse",
            )
        },
    }


def components() -> dict[str, Json]:
    """The schemas of repairs."""
    amount = {"type": "integer", "minimum": 0, "maximum": limits.AMOUNT_MINOR_MAX}
    entry = {"account_id": STRING, "debit": amount, "credit": amount, "currency": STRING}
    entries = {"type": "array", "items": shared.a_schema(entry, closed=True)}
    given = entries | {"minItems": 2, "maxItems": payments_limits.JOURNAL_ENTRIES_MAX}
    account = shared.a_schema(
        {"account_id": STRING, "currency": STRING, "before": _NUMBER, "change": _NUMBER, "after": _NUMBER}
    )
    a_repair = {
        "id": STRING,
        "object": {"const": "repair"},
        "case_id": STRING,
        "template": STRING,
        "entries": entries,
        "note": STRING,
        "author": STRING,
        "reverses": TEXT_OR_NULL,
        "reversed_by": TEXT_OR_NULL,
        "state": {"enum": ["proposed", "approved", "rejected", "posted", "refused"]},
        "preview": {"type": "array", "items": account},
        **DECIDED,
        "txn_id": TEXT_OR_NULL,
        "refusal": TEXT_OR_NULL,
        "posted_at": TIME_OR_NULL,
        "reference": STRING,
    }
    payload = {
        "template": {"enum": [*repair.TEMPLATES, None]},
        "entries": {"anyOf": [given, {"type": "null"}]},
        "amount": {"anyOf": [shared.AMOUNT, {"type": "null"}]},
        "currency": TEXT_OR_NULL,
        "account": TEXT_OR_NULL,
        "processor": TEXT_OR_NULL,
        "side": _SIDE,
        "reference": TEXT_OR_NULL,
        "note": NOTE,
    }
    return {
        "Repair": shared.a_schema(a_repair),
        "Repairs": shared.list_of(shared.ref("Repair")),
        "RepairProposal": shared.a_schema(payload, ["note"], closed=True),
        "RepairDecision": shared.a_schema({"note": {"anyOf": [NOTE, {"type": "null"}]}}, [], closed=True),
        "RepairReversal": shared.a_schema({"note": NOTE}, closed=True),
    }
