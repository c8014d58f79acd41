"""``millrace forecast`` over what was really sent and decided: other rules, read from the same commands; nothing changes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.worlds.payments.repair_world import millrace
from tests.worlds.payments.risk_world import confirmed, created
from tests.worlds.public_system import merchant, public

if TYPE_CHECKING:
    from pathlib import Path

    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["merchant", "public"]  # the fixtures of this module
pytestmark = pytest.mark.servers


def forecast(public: PublicSystem, *words: str) -> dict[str, Any]:
    done = millrace(public, "forecast", *words, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def counts(public: PublicSystem, merchant: str) -> list[Any]:
    return public.rows(
        "select (select count(*) from policy_version where kind in ('risk', 'routing', 'fees')),"
        " (select count(*) from risk_assessment join payment_intent p on p.id = intent_id where p.merchant_id = %s),"
        " (select count(*) from merchant_account where merchant_id = %s),"
        " (select count(*) from idempotency where merchant_id = %s)",
        *[merchant] * 3,
    )


def test_other_rules_are_tried_on_what_was_confirmed(public: PublicSystem, merchant: Merchant, tmp_path: Path) -> None:
    payments = [created(merchant) for _ in range(2)]
    for payment in payments:
        confirmed(merchant, payment)
        assert merchant.act(payment, "confirm", f"{payment} again").status_code == 409  # decided nothing
    with public.policies():  # nobody publishes one meanwhile
        before = counts(public, merchant.name)
        mine = {"type": "in_list", "field": "merchant", "list": "mine"}
        rule = {"name": "mine", "when": [mine], "outcome": "review", "when_unknown": "miss"}
        file = tmp_path / "risk.json"
        file.write_text(json.dumps({"rules": [rule], "lists": {"mine": [merchant.name]}}))
        risk = forecast(public, "risk", str(file), "--days", "1")
        (change,) = (change for change in risk["changes"] if change["rules"] == {"mine": 2})
        assert (change["was"], change["would_be"], sorted(change["payments"])) == ("allow", "review", sorted(payments))
        assert (risk["is_partial"], risk["judged"] >= 2) == (False, True)

        candidate = {"name": "b", "when": {"merchant": [merchant.name]}, "candidates": [{"processor": "simulator_b"}]}
        file.write_text(json.dumps({"rules": [candidate], "expected_version": 7}))
        (change,) = (c for c in forecast(public, "routing", str(file))["changes"] if c["rules"] == {"b": 2})
        assert (change["was"], change["would_be"]) == ("simulator", "simulator_b")

        (change,) = forecast(public, "freeze", merchant.name)["changes"]
        assert change["rules"] == {"create_payment_intent": 2, "confirm_payment_intent": 2}
        assert forecast(public, "freeze", merchant.name, "--records", "1")["is_partial"] is True
        assert counts(public, merchant.name) == before
        with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_operator"]) as connection:
            audited = connection.execute("select action, outcome from audit_log where action like 'policy.forecast%'")
            assert {("policy.forecast_risk", "begun"), ("policy.forecast_risk", "done")} <= set(audited.fetchall())


def test_a_document_that_could_not_be_published_is_one_line(public: PublicSystem, tmp_path: Path) -> None:
    file = tmp_path / "rules.json"
    for text, said in (
        ("{", "no JSON document"),
        ("[]", "no JSON object"),
        ('{"rules": [{"name": "x", "candidates": [{"processor": "nobody"}]}]}', "could not be published"),
    ):
        file.write_text(text)
        done = millrace(public, "forecast", "routing", str(file))
        assert done.returncode == 1
        assert said in done.stderr
        assert "Traceback" not in done.stderr
