"""Payouts, reports, and what operators do with accounts, in the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from ingress.http.openapi import commands, elements, shared
from ingress.http.openapi.shared import STRING, TEXT_OR_NULL, TIME, TIME_OR_NULL
from ingress.identity.caller import NAME
from ingress.identity.roles import by_operators
from ingress.payments.merchants.reports import FORMATS, REPORTS
from ingress.payments.openapi import money
from ingress.payments.openapi.reads import filters_of
from ingress.payments.resources import PAYOUTS
from schemas.fields import currency
from schemas.operation import Operation
from schemas.payments import limits, money_by_hand, records
from schemas.payments.operations import ON_ACCOUNTS, OPERATIONS

Json = dict[str, Any]

_CURRENCY: Final[Json] = {"enum": sorted(currency.EXPONENTS)}
MERCHANT_PARAMETER: Final[Json] = {
    "name": "merchant",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": f"^{NAME.pattern.removesuffix(chr(92) + 'Z')}$"},
}
#: the commands of operators on accounts and payouts
_COMMANDS: Final = tuple(OPERATIONS[name] for name in (*sorted(ON_ACCOUNTS), "record_payout_outcome"))
_TIME_DOC: Final = "The report is of the time from `from` up to, and without, `to`"


def paths() -> Json:
    """The routes of ``account_routes`` and ``report_routes`` that are no merchant's commands."""
    listed = [elements.limit(), elements.CURSOR]
    one = [elements.object_id("payout_id"), elements.PREFER, elements.NONE_MATCH]
    account = _get("get_account", "A merchant's account", [MERCHANT_PARAMETER], "MerchantAccountRead", ("not_found",))
    found: Json = {
        "/v1/payouts": {
            "get": _get(
                "list_payouts",
                "The caller's payouts, newest first",
                [*filters_of(PAYOUTS), *listed],
                "PayoutPage",
                _OF_A_LIST,
            )
        },
        "/v1/payouts/{payout_id}": {"get": _payout(one)},
        "/v1/payout_destinations": {
            "get": _get(
                "list_payout_destinations",
                "All destinations that the caller ever registered, newest first",
                [],
                "PayoutDestinationList",
                ("malformed_request",),
            )
        },
        "/v1/payout_destinations/{destination_id}": {
            "get": _get(
                "get_payout_destination",
                "One destination",
                [elements.object_id("destination_id")],
                "PayoutDestination",
                ("not_found",),
            )
        },
        "/v1/accounts/{merchant}/payout_destinations": {
            "get": _get(
                "list_payout_destinations_of_account",
                "A merchant's destinations with their account numbers",
                [MERCHANT_PARAMETER],
                "PayoutDestinationsToPay",
                ("not_found",),
            )
            | by_operators("account.show_destinations"),
        },
        "/v1/accounts/{merchant}": {
            "get": account | by_operators("account.read"),
        },
        "/v1/reports/{report}": {"get": _report()},
    }
    for operation in _COMMANDS:
        path = operation.path if operation.path.startswith("/v1/") else f"/v1{operation.path}"
        parameter = MERCHANT_PARAMETER if operation.name in ON_ACCOUNTS else elements.object_id("payout_id")
        found[path.replace("{id}", f"{{{parameter['name']}}}")] = {"post": _operate(operation, parameter)}
    return found


_OF_A_LIST: Final = ("malformed_request", "invalid_command")


def _get(operation_id: str, summary: str, parameters: list[Json], schema: str, codes: tuple[str, ...]) -> Json:
    return {
        "operationId": operation_id,
        "summary": summary,
        "tags": ["payments"],
        "security": [{"bearer": ["payments:read"]}],
        "parameters": parameters,
        "responses": {
            "200": elements.answer(summary, elements.JSON, schema),
            **elements.refusals((*elements.COMMON, *codes)),
        },
    }


def _payout(parameters: list[Json]) -> Json:
    made = _get("get_payout", "One payout", parameters, "Payout", ("not_found",))
    made["responses"]["304"] = {"description": "The caller has this version"}
    return made


def _report() -> Json:
    name = {"name": "report", "in": "path", "required": True, "schema": {"enum": list(REPORTS)}}
    ends = [{**elements.query(end, TIME, _TIME_DOC), "required": True} for end in ("from", "to")]
    shape = elements.query("format", {"enum": list(FORMATS)}, "Pages of JSON (the default), or one CSV file")
    code = elements.query("currency", _CURRENCY, "Only this currency")
    page = [elements.limit(limits.REPORT_PAGE_LIMIT_DEFAULT, limits.REPORT_PAGE_LIMIT_MAX), elements.CURSOR]
    made = _get("get_report", "What moved", [name, *ends, code, shape, *page], "Report", ("not_found", *_OF_A_LIST))
    made["responses"]["200"]["content"]["text/csv"] = {"schema": STRING}
    return made


def _operate(operation: Operation, parameter: Json) -> Json:
    bare = commands.payload(operation, without=(operation.path_field or "",))
    # The key may come in the header.
    key = {"idempotency_key": {**shared.IDEMPOTENCY_KEY, "type": ["string", "null"]}}
    envelope = shared.a_schema(key | {"payload": bare}, ["payload"], closed=True)
    found = elements.answer("Committed", elements.JSON, operation.result, elements.COMMITTED_HEADERS)
    accepted = elements.answer("Accepted, not decided yet", elements.JSON, "Accepted", elements.ACCEPTED_HEADERS)
    responses = money.PROPOSED if operation.name in money_by_hand.BY_HAND else {"200": found, "202": accepted}
    return {
        "operationId": operation.name,
        "summary": operation.summary,
        **by_operators(f"account.{operation.name}"),
        "parameters": [parameter, *elements.COMMAND_HEADERS],
        "requestBody": {"required": True, "content": {elements.JSON: {"schema": {"anyOf": [bare, envelope]}}}},
        "responses": responses | elements.refusals_of(operation),
    }


def components() -> dict[str, Json]:
    """The named schemas of these routes."""
    account = shared.resource(records.MerchantAccount, "merchant_account")
    never = dict.fromkeys(("created_at", "updated_at"), TIME_OR_NULL)  # of an account that nobody has touched
    rows = {"type": "array", "items": {"type": "object"}, "description": "One row for each line; see the CSV header"}
    report = {
        "object": {"const": "report"},
        "report": {"enum": list(REPORTS)},
        "from": TIME,
        "to": TIME,
        "currency": TEXT_OR_NULL,
        "data": rows,
        "has_more": {"type": "boolean"},
        "next_cursor": TEXT_OR_NULL,
    }
    a_schema, ref = shared.a_schema, shared.ref
    destination = shared.resource(records.PayoutDestination, "payout_destination")
    to_pay = a_schema({**destination["properties"], "account_number": STRING})
    return {
        "Payout": shared.resource(records.Payout, "payout"),
        "PayoutPage": shared.page_of(ref("Payout")),
        "CommittedPayout": a_schema({"result": ref("Payout"), "event": ref("Event")}),
        "PayoutDestination": destination,
        "PayoutDestinationList": a_schema({"data": {"type": "array", "items": ref("PayoutDestination")}}),
        "PayoutDestinationsToPay": a_schema({"data": {"type": "array", "items": to_pay}}),
        "CommittedPayoutDestination": a_schema({"result": ref("PayoutDestination"), "event": ref("Event")}),
        "MerchantAccount": account,
        "MerchantAccountRead": a_schema({**account["properties"], **never, "balances": ref("Balances")}),
        "CommittedAccount": a_schema({"result": ref("MerchantAccount"), "event": ref("Event")}),
        "Report": a_schema(report),
    }
