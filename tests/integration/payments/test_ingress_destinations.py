"""Payout destinations over HTTP: from the registration of a bank account to the payout that may go there, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.payments.test_ingress_accounts import (
    approved,
    fund,
    operate,
    operator,
    other,
    pay_out,
    refused,
)
from tests.worlds.public_system import merchant, public, stranger

if TYPE_CHECKING:
    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["merchant", "operator", "other", "public", "stranger"]  # the fixtures of this module
pytestmark = pytest.mark.servers
IBAN = "AT611904300234573201"
DESTINATIONS = "/v1/payout_destinations"


def test_money_goes_to_a_registered_bank_account_when_its_time_is_over(
    public: PublicSystem, merchant: Merchant, stranger: Merchant, operator: Merchant, other: Merchant
) -> None:
    """Told to the merchant at once, seen whole by who pays alone, sooner if two persons of staff say so."""
    fund(public, merchant, 1_000)
    assert pay_out(merchant, 100).status_code == 201, "a name does where nothing was ever registered"
    bank = {"name": "Hausbank", "account_number": IBAN}
    asked = {"idempotency_key": "d", "payload": bank}
    payer = public.merchant(merchant.name, scopes=("payouts:write", "payments:read"))
    with payer.http:
        refused(payer.http.post(DESTINATIONS, json=asked), 403, "forbidden")
        first = merchant.http.post(DESTINATIONS, json=asked)
        assert first.status_code == 201, first.text
        made = first.json()["result"]
        path = f"{DESTINATIONS}/{made['id']}"
        assert (made["object"], made["last4"], made["state"], made["version"]) == (
            "payout_destination",
            "3201",
            *("enabled", 1),
        )
        assert (first.headers["location"], first.headers["etag"]) == (path, '"1"')
        assert merchant.http.post(DESTINATIONS, json=asked).content == first.content
        wrong = {"idempotency_key": "w", "payload": bank | {"account_number": f"{IBAN[:-2]}10"}}
        refused(merchant.http.post(DESTINATIONS, json=wrong), 422, "invalid_command")
        waits = refused(pay_out(payer, 100, destination=made["id"]), 422, "destination_not_usable")
        assert (waits["reason"], waits["usable_at"]) == ("cooling_off", made["usable_at"])
        assert refused(pay_out(payer, 100), 422, "destination_not_usable")["reason"] == "not_registered"
        refused(stranger.http.get(path), 404, "not_found")
        refused(stranger.http.post(f"{path}/disable", json={"idempotency_key": "x"}), 404, "not_found")
        sooner = f"accounts/{merchant.name}/allow_payout_destination"
        refused(operate(merchant, sooner, destination=made["id"], reason="r"), 403, "forbidden")
        proposed = operate(operator, sooner, destination=made["id"], reason="asked by telephone")
        refused(operator.http.post(f"/v1/money_proposals/{proposed.json()['id']}/approve"), 403, "four_eyes_required")
        assert approved(proposed, other)["state"] == "done"
        assert pay_out(payer, 100, destination=made["id"]).json()["result"]["destination"] == made["id"]
        done = merchant.http.post(f"{path}/disable", json={}, headers={"Idempotency-Key": "off", "If-Match": '"2"'})
        assert (done.status_code, done.json()["result"]["state"]) == (200, "disabled")
        assert refused(pay_out(payer, 1, destination=made["id"]), 422, "destination_not_usable")["reason"] == "disabled"
        assert merchant.http.get(path).json() == done.json()["result"]
        listed = payer.http.get(DESTINATIONS)
        assert listed.json() == {"data": [done.json()["result"]]}
    events = merchant.http.get("/v1/events")
    told = [e["body"]["payout_destination"] for e in events.json()["data"] if e["body"].get("payout_destination")]
    assert [(one["state"], one["version"]) for one in told] == [("enabled", 1), ("enabled", 2), ("disabled", 3)]
    assert not any(IBAN in answer.text for answer in (first, done, listed, events))
    whole = operator.http.get(f"/v1/accounts/{merchant.name}/payout_destinations").json()["data"]
    assert whole == [done.json()["result"] | {"account_number": IBAN}]
    support = public.merchant(scopes=("operator:support",))
    with support.http:
        for caller in (merchant, support):
            refused(caller.http.get(f"/v1/accounts/{merchant.name}/payout_destinations"), 403, "forbidden")
