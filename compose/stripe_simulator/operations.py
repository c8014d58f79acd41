"""Which call of the API is what: one table of POSTs, one of GETs, and the levers that no API of Stripe's has."""

from __future__ import annotations

import re
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from compose.stripe_simulator import balance, disputes, payments, refunds
from compose.stripe_simulator.forms import amount_of, text_of
from compose.stripe_simulator.problems import Object, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from compose.stripe_simulator.book import Answer, Transaction

_SEARCH: Final = re.compile(r"metadata\['operation_id'\]:'([^']*)'")
_LISTED: Final = 10
#: path after /v1, by pattern; each with the name in it, the form and the key
POSTS: Final[dict[str, Callable[[Transaction, str, Object, str], Answer]]] = {
    r"payment_methods": lambda made, _, form, __: payments.make_method(made, form),
    r"payment_intents": lambda made, _, form, key: payments.create(made, form, key),
    r"payment_intents/(\w+)/capture": payments.capture,
    r"payment_intents/(\w+)/increment_authorization": payments.increment,
    r"payment_intents/(\w+)/cancel": lambda made, name, _, key: payments.cancel(made, name, key),
    r"refunds": lambda made, _, form, key: refunds.create(made, form, key),
    r"disputes/(\w+)": lambda made, name, form, _: disputes.update(made, name, form),
    r"reporting/report_runs": lambda made, _, form, __: (
        HTTPStatus.OK,
        balance.run_report(made, text_of(form, "report_type")),
    ),
}
GETS: Final[dict[str, Callable[[Transaction, str, Object], Answer]]] = {
    r"balance": lambda _, __, ___: (HTTPStatus.OK, {"object": "balance", "available": [], "pending": []}),
    r"payment_intents/search": lambda made, _, form: _search(made, form),
    r"payment_intents/(\w+)": lambda made, name, _: (
        HTTPStatus.OK,
        payments.shown(made.fetch("payment_intent", name)),
    ),
    r"refunds": lambda made, _, form: refunds.listed(made, form, amount_of(form, "limit", _LISTED)),
    r"disputes/(\w+)": lambda made, name, _: (HTTPStatus.OK, made.fetch("dispute", name)),
    r"events": lambda made, _, form: _list(made, "event", form),
    r"balance_transactions": lambda made, _, form: _list(made, "balance_transaction", form),
}
#: what happens outside the API: payers, banks, days
LEVERS: Final[dict[str, Callable[[Transaction, str, Object], Answer]]] = {
    r"payers/(\w+)": lambda made, name, form: payments.end_action(made, name, text_of(form, "outcome")),
    r"refunds/(\w+)": lambda made, name, form: refunds.end(made, name, text_of(form, "outcome")),
    r"disputes": lambda made, _, form: _dispute(made, form),
    r"disputes/(\w+)": lambda made, name, form: disputes.close(made, name, text_of(form, "outcome")),
    r"payouts": lambda made, _, __: (HTTPStatus.OK, balance.pay_out(made)),
}
#: search finds what is at least this old
SEARCH_LAG_MS: Final = 1_000


def book(made: Transaction) -> Object:
    """GET /book: the effects by section, as processors that show their book do."""
    sections: Object = {"captured": [], "authorized": [], "voided": [], "refunded": []}
    for operation_id, section, reference, amount, currency in made.rows("effects_all"):
        entry = {"operation_id": operation_id, "reference": reference, "amount": amount, "currency": currency}
        sections[section].append(entry)
    return sections


def _search(made: Transaction, form: Object) -> Answer:
    found = _SEARCH.fullmatch(text_of(form, "query"))
    if found is None:
        raise Refused("parameter_invalid_string", "We were unable to parse your search query.")
    asked = {
        "operation_id": found[1],
        "until": int(time.time() * 1_000) - SEARCH_LAG_MS,
        "count": amount_of(form, "limit", _LISTED),
    }
    data = [payments.shown(body) for body in made.bodies("intents_search", asked)]
    return HTTPStatus.OK, {
        "object": "search_result",
        "data": data,
        "has_more": False,
        "url": "/v1/payment_intents/search",
    }


def _list(made: Transaction, kind: str, form: Object) -> Answer:
    data, has_more = made.listed(kind, None, amount_of(form, "limit", _LISTED))
    return HTTPStatus.OK, {"object": "list", "data": data, "has_more": has_more}


def _dispute(made: Transaction, form: Object) -> Answer:
    intent = made.fetch("payment_intent", text_of(form, "payment_intent"))
    reason = str(form.get("reason", "fraudulent"))
    return disputes.open_dispute(made, intent, amount_of(form, "amount", intent["amount_received"]), reason)
