"""Money by hand in the OpenAPI document: what two persons do with a merchant's account."""

from __future__ import annotations

from typing import Final

from ingress.http.openapi import elements, shared
from ingress.http.openapi.shared import STRING, TEXT_OR_NULL, TIME_OR_NULL
from ingress.payments.openapi.proposals import DECIDED, Json, call, decided
from schemas.payments import money_by_hand

_STATES: Final = ["proposed", "approved", "rejected", "done", "refused"]
#: what the routes of proposing answer with
PROPOSED: Final = {
    "201": elements.answer("Proposed for a second person", elements.JSON, "MoneyProposal", elements.MADE_HEADERS)
}


def paths() -> Json:
    """Every route of ``money_routes``."""
    found = {"200": elements.answer("The proposal", elements.JSON, "MoneyProposal")}
    later = {"202": elements.answer("Approved, not carried out yet", elements.JSON, "MoneyProposal")}
    listed = {"200": elements.answer("Newest first", elements.JSON, "MoneyProposals")}
    state = elements.query("state", {"enum": _STATES}, "Only those of this state")
    return {
        "/v1/money_proposals": {"get": call("list_money_proposals", "Money moved by hand", [state], listed)},
        **decided(
            "/v1/money_proposals/{proposal_id}",
            "money_proposal",
            [elements.object_id("proposal_id")],
            found,
            ("money.approve", "money.reject"),
            shows="One proposal",
            approved=found | later,
        ),
    }


def components() -> dict[str, Json]:
    """The schemas of these."""
    proposal = {
        "id": STRING,
        "object": {"const": "money_proposal"},
        "operation": {"enum": sorted(money_by_hand.BY_HAND)},
        "object_id": STRING,
        "payload": {"type": "object"},
        "author": STRING,
        "state": {"enum": _STATES},
        **DECIDED,
        "event_id": TEXT_OR_NULL,
        "refusal": TEXT_OR_NULL,
        "settled_at": TIME_OR_NULL,
    }
    return {
        "MoneyProposal": shared.a_schema(proposal),
        "MoneyProposals": shared.list_of(shared.ref("MoneyProposal")),
    }
