"""Payouts, reports, and what operators do with accounts, in the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final, get_args

from ingress.http import openapi_elements as elements
from ingress.http import openapi_schemas
from ingress.identity.auth import NAME
from ingress.payments.merchants.reports import FORMATS, REPORTS
from ingress.payments.openapi import money
from schemas import currency, limits, records
from schemas.payments import money_by_hand

Json = dict[str, Any]

_STRING: Final[Json] = {"type": "string"}
_TEXT_OR_NULL: Final[Json] = {"type": ["string", "null"]}
_TIME: Final[Json] = {"type": "string", "format": "date-time"}
_TIME_OR_NULL: Final[Json] = {"type": ["string", "null"], "format": "date-time"}
_VERSION: Final[Json] = {"type": "integer", "minimum": 0}
_CURRENCY: Final[Json] = {"enum": sorted(currency.EXPONENTS)}
_NOTE: Final[Json] = {
    "type": "string",
    "minLength": 1,
    "maxLength": limits.TEXT_LENGTH_MAX,
    "pattern": openapi_schemas.TEXT,
}
MERCHANT_PARAMETER: Final[Json] = {
    "name": "merchant",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": f"^{NAME.pattern.removesuffix(chr(92) + 'Z')}$"},
}
_RESERVE: Final[Json] = {"amount": openapi_schemas.AMOUNT, "currency": _CURRENCY, "reason": _NOTE}
_REASON: Final[Json] = {"reason": _NOTE}
_CONVERSION: Final[Json] = {
    "source_amount": openapi_schemas.AMOUNT,
    "source_currency": _CURRENCY,
    "target_amount": openapi_schemas.AMOUNT,
    "target_currency": _CURRENCY,
    "rate": {
        "type": "string",
        "pattern": rf"^[0-9]{{1,{limits.FX_RATE_DIGITS_MAX}}}(\.[0-9]{{1,{limits.FX_RATE_DIGITS_MAX}}})?$",
        "description": "Target per source, in whole units of both; an exact decimal",
    },
}
_OUTCOME: Final[Json] = {
    "status": {"enum": ["paid", "failed"]},
    "amount": openapi_schemas.AMOUNT,
    "currency": _CURRENCY,
    "bank": _NOTE,
    "reason": {"anyOf": [_NOTE, {"type": "null"}]},
}
#: an operator's command by its path: its name in OPERATIONS, what it does, its payload, what it answers with
_COMMANDS: Final = {
    "/v1/accounts/{merchant}/hold_reserve": ("hold_reserve", "Set money aside", _RESERVE),
    "/v1/accounts/{merchant}/release_reserve": ("release_reserve", "Give it back", _RESERVE),
    "/v1/accounts/{merchant}/convert_currency": ("convert_currency", "Exchange at a stated rate", _CONVERSION),
    "/v1/accounts/{merchant}/freeze": ("freeze_account", "Nothing new is begun", _REASON),
    "/v1/accounts/{merchant}/unfreeze": ("unfreeze_account", "Work goes on", _REASON),
    "/v1/payouts/{payout_id}/outcome": ("record_payout_outcome", "What the bank did with a payout", _OUTCOME),
}
_OF_A_COMMAND: Final = (
    *(*elements.COMMON, "malformed_request", "not_found", "version_conflict", "too_large"),
    *("unsupported_media_type", "invalid_command", "quota_exceeded", "deadline_exceeded"),
)
_TIME_DOC: Final = "The report is of the time from `from` up to, and without, `to`"


def paths() -> Json:
    """The routes of ``account_routes`` and ``report_routes`` that are no merchant's commands."""
    listed = [elements.limit(), elements.CURSOR]
    one = [elements.object_id("payout_id"), elements.PREFER, elements.NONE_MATCH]
    account = _get("get_account", "A merchant's account", [MERCHANT_PARAMETER], "MerchantAccountRead", ("not_found",))
    found: Json = {
        "/v1/payouts": {
            "get": _get("list_payouts", "The caller's payouts, newest first", listed, "PayoutPage", _OF_A_LIST)
        },
        "/v1/payouts/{payout_id}": {"get": _payout(one)},
        "/v1/accounts/{merchant}": {
            "get": account | {"tags": ["operators"], "security": [{"bearer": ["operator"]}]},
        },
        "/v1/reports/{report}": {"get": _report()},
    }
    for path, (operation, summary, payload) in _COMMANDS.items():
        found[path] = {"post": _operate(path, operation, summary, payload)}
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
    ends = [{**elements.query(end, _TIME, _TIME_DOC), "required": True} for end in ("from", "to")]
    shape = elements.query("format", {"enum": list(FORMATS)}, "Pages of JSON (the default), or one CSV file")
    code = elements.query("currency", _CURRENCY, "Only this currency")
    page = [elements.limit(limits.REPORT_PAGE_LIMIT_DEFAULT, limits.REPORT_PAGE_LIMIT_MAX), elements.CURSOR]
    made = _get("get_report", "What moved", [name, *ends, code, shape, *page], "Report", ("not_found", *_OF_A_LIST))
    made["responses"]["200"]["content"]["text/csv"] = {"schema": _STRING}
    return made


def _operate(path: str, operation: str, summary: str, payload: Json) -> Json:
    parameter = MERCHANT_PARAMETER if "{merchant}" in path else elements.object_id("payout_id")
    required = [name for name in payload if operation != "record_payout_outcome" or name != "reason"]
    bare = openapi_schemas.a_schema(payload, required, closed=True)
    # The key may come in the header.
    key = {"idempotency_key": {**openapi_schemas.IDEMPOTENCY_KEY, "type": ["string", "null"]}}
    envelope = openapi_schemas.a_schema(key | {"payload": bare}, ["payload"], closed=True)
    found = elements.answer("Committed", elements.JSON, "CommittedAccount", elements.COMMITTED_HEADERS)
    accepted = elements.answer("Accepted, not decided yet", elements.JSON, "Accepted", elements.ACCEPTED_HEADERS)
    responses = money.PROPOSED if operation in money_by_hand.BY_HAND else {"200": found, "202": accepted}
    return {
        "operationId": operation,
        "summary": summary,
        "tags": ["operators"],
        "security": [{"bearer": ["operator"]}],
        "parameters": [parameter, *elements.COMMAND_HEADERS],
        "requestBody": {"required": True, "content": {elements.JSON: {"schema": {"anyOf": [bare, envelope]}}}},
        "responses": responses | elements.refusals(_OF_A_COMMAND),
    }


def components() -> dict[str, Json]:
    """The named schemas of these routes."""
    payout = {
        **dict.fromkeys(("id", "merchant_id", "currency", "destination"), _STRING),
        "object": {"const": "payout"},
        "amount": openapi_schemas.AMOUNT,
        "state": {"enum": list(get_args(records.PayoutState))},
        "failure_reason": _TEXT_OR_NULL,
        "version": _VERSION,
        "metadata": {"type": "object", "additionalProperties": _STRING},
        "created_at": _TIME,
        "updated_at": _TIME,
    }
    account = {
        "id": _STRING,
        "object": {"const": "merchant_account"},
        "merchant_id": _STRING,
        "state": {"enum": list(get_args(records.AccountState))},
        "frozen_reason": _TEXT_OR_NULL,
        "version": _VERSION,
        "created_at": _TIME_OR_NULL,
        "updated_at": _TIME_OR_NULL,
    }
    pages = {"has_more": {"type": "boolean"}, "next_cursor": _TEXT_OR_NULL}
    rows = {"type": "array", "items": {"type": "object"}, "description": "One row for each line; see the CSV header"}
    report = {
        "object": {"const": "report"},
        "report": {"enum": list(REPORTS)},
        "from": _TIME,
        "to": _TIME,
        "currency": _TEXT_OR_NULL,
        "data": rows,
        **pages,
    }
    a_schema, ref = openapi_schemas.a_schema, openapi_schemas.ref
    return {
        "Payout": a_schema(payout),
        "PayoutPage": a_schema({"data": {"type": "array", "items": ref("Payout")}, **pages}),
        "CommittedPayout": a_schema({"result": ref("Payout"), "event": ref("Event")}),
        "MerchantAccount": a_schema(account),
        "MerchantAccountRead": a_schema({**account, "balances": ref("Balances")}),
        "CommittedAccount": a_schema({"result": ref("MerchantAccount"), "event": ref("Event")}),
        "Report": a_schema(report),
    }
