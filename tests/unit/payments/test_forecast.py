"""What rules that are not in force would have made of confirms: changed counts, unknown signals, examples within bounds."""

from __future__ import annotations

from typing import Any

from dataflows.payments.domain import routing
from reconciliation.payments.forecast.history import Decided
from reconciliation.payments.forecast.judging import Forecast, judge_freeze, judge_risk, judge_routing
from schemas.payments import limits, rendering
from schemas.payments.policies import kinds
from tests.worlds.payments import payment_cases as cases
from tests.worlds.payments.risk_cases import above, policy, rule

NAMES = ("simulator", "simulator_b")


def confirmed(
    n: int = 0, amount: int = 10_000, state: str = "processing", signals: dict[str, str] | None = None, **payload: Any
) -> Decided:
    """A confirm that was committed, with the payment as it left it."""
    intent = rendering.payment_intent(cases.after(None, cases.create()).intent)
    command = cases.confirm()
    command.payload = command.payload | payload
    command.signals = signals
    wanted = {"id": f"pi_{n}", "amount": amount, "state": state, "payment_method": "tok_sim_approve"}
    return Decided(command, intent | wanted)


def test_what_stays_and_what_changes_is_counted_with_its_money() -> None:
    forecast = Forecast()
    decided = [
        confirmed(1, 4_000),
        confirmed(2, 6_000),
        confirmed(3, 7_000),
        confirmed(4, 8_000, "requires_payment_method"),
        confirmed(5, 100, "requires_merchant_action"),
    ]
    judge_risk(policy(rule("large", [above(5_000)])), decided, forecast)
    assert (forecast.judged, forecast.as_before, forecast.unknown) == (5, 2, 0)
    found = [(c.was, c.would_be, c.count, dict(c.amounts), dict(c.rules), c.payments) for c in forecast.changes]
    assert found == [
        ("allow", "block", 2, {"USD": 13_000}, {"large": 2}, ["pi_2", "pi_3"]),
        ("review", "allow", 1, {"USD": 100}, {}, ["pi_5"]),
    ]


def test_a_rule_in_shadow_changes_nothing() -> None:
    forecast = Forecast()
    judge_risk(policy(rule("large", [above(5_000)], shadow=True)), [confirmed()], forecast)
    assert (forecast.as_before, forecast.changes) == (1, [])


def test_what_was_said_and_seen_at_the_time_counts_and_what_nobody_saw_is_named() -> None:
    by_ip = {"type": "velocity", "by": "ip", "window_s": 60, "more_than": 2}
    rules = policy(
        rule("fast", [by_ip], when_unknown="review"),
        rule("abroad", [{"type": "country_mismatch"}], when_unknown="miss"),
    )
    decided = [
        confirmed(1, signals={"velocity:ip:count:60": "3"}),
        confirmed(2, signals={"velocity:ip:count:60": "2"}),
        confirmed(3, signals={"velocity:ip:count:61": "9"}),
        confirmed(4, signals={"velocity:ip:count:60": "1"}, customer_country="AT", card_country="DE"),
    ]
    forecast = Forecast()
    judge_risk(rules, decided, forecast)
    assert forecast.unknown == 1
    assert {(c.would_be, tuple(c.payments)) for c in forecast.changes} == {
        ("block", ("pi_1", "pi_4")),
        ("review", ("pi_3",)),
    }


def test_charges_are_routed_as_an_owner_would_and_what_went_nowhere_is_not() -> None:
    document = {
        "rules": [
            {"name": "visa", "when": {"network": ["visa"]}, "candidates": [{"processor": "simulator_b"}]},
            {"name": "german", "when": {"country": ["DE"]}, "candidates": [{"processor": "simulator_b"}]},
        ]
    }
    rules = routing.read_policy(0, kinds.canonical("routing", document, NAMES))
    decided = [
        confirmed(1, signals={"network": "visa"}),
        confirmed(2, signals={"network": "mastercard"}),
        confirmed(3, card_country="DE"),
        confirmed(4, state="requires_merchant_action"),
    ]
    forecast = Forecast()
    judge_routing(rules, NAMES, "simulator", decided, forecast)
    assert (forecast.judged, forecast.as_before, forecast.unknown) == (3, 1, 1)
    (change,) = forecast.changes
    assert (change.was, change.would_be, dict(change.rules)) == ("simulator", "simulator_b", {"visa": 1, "german": 1})


def test_a_freeze_would_have_refused_what_its_merchant_began() -> None:
    forecast = Forecast()
    judge_freeze(cases.MERCHANT, [confirmed(1), confirmed(2)], forecast)
    judge_freeze("m_other", [confirmed(3)], forecast)
    (change,) = forecast.changes
    assert (change.would_be, change.count, dict(change.rules)) == ("account_frozen", 2, {"confirm_payment_intent": 2})
    assert change.amounts.total() == 0, "counted when it was created"


def test_memory_does_not_grow_with_the_history() -> None:
    forecast = Forecast()
    for n in range(3 * limits.FORECAST_EXAMPLES_MAX):
        judge_risk(policy(rule()), [confirmed(n)], forecast)
    (change,) = forecast.changes
    assert (change.count, len(change.payments)) == (3 * limits.FORECAST_EXAMPLES_MAX, limits.FORECAST_EXAMPLES_MAX)
