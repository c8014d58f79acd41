"""The closings of the OpenAPI document: how a case ends without a repair, and how it is opened again."""

from __future__ import annotations

from typing import Final

from ingress.http.openapi import elements, shared
from ingress.http.openapi.shared import STRING, TEXT_OR_NULL, TIME_OR_NULL
from ingress.payments.openapi.proposals import DECIDED, KEY, NOTE, Json, call, decided
from schemas.payments import case_closing

_CASE: Final = elements.object_id("case_id")
_CLOSING: Final = elements.object_id("closing_id")


def paths() -> Json:
    """Every route of ``closing_routes``."""
    says = "Closed, or proposed for a second person"
    made = {"201": elements.answer(says, elements.JSON, "CaseClosing", elements.MADE_HEADERS)}
    found = {"200": elements.answer("The closing", elements.JSON, "CaseClosing")}
    listed = {"200": elements.answer("Newest first", elements.JSON, "CaseClosings")}
    reopened = {"200": elements.answer("The case, open", elements.JSON, "Case", elements.REPLAYED_HEADERS)}
    return {
        "/v1/cases/{case_id}/closings": {
            "get": call("list_closings", "The closings of a case", [_CASE], listed),
            "post": call(
                "close_case",
                "Close a case that needs no money",
                [_CASE, KEY],
                made,
                "CaseClosingRequest",
                action="case.close",
            ),
        },
        **decided(
            "/v1/cases/{case_id}/closings/{closing_id}",
            "closing",
            [_CASE, _CLOSING],
            found,
            ("case.close", "case.reject_closing"),
            shows="One closing",
            approves="Close as another person than the author",
        ),
        "/v1/cases/{case_id}/reopen": {
            "post": call(
                "reopen_case",
                "Open a case that a person closed",
                [_CASE],
                reopened,
                "RepairReversal",
                action="case.reopen",
            )
        },
    }


def components() -> dict[str, Json]:
    """The schemas of closings."""
    reason: Json = {"enum": list(case_closing.REASONS)}
    closing = {
        "id": STRING,
        "object": {"const": "case_closing"},
        "case_id": STRING,
        "reason": reason,
        "note": STRING,
        "author": STRING,
        "four_eyes": {"type": "boolean"},
        "state": {"enum": ["proposed", "rejected", "closed", "reopened"]},
        **DECIDED,
        "reopened_by": TEXT_OR_NULL,
        "reopened_at": TIME_OR_NULL,
        "reopen_note": TEXT_OR_NULL,
    }
    return {
        "CaseClosing": shared.a_schema(closing),
        "CaseClosings": shared.list_of(shared.ref("CaseClosing")),
        "CaseClosingRequest": shared.a_schema({"reason": reason, "note": NOTE}, closed=True),
    }
