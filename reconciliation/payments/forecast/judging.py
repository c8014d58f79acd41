"""What rules that are not in force say of confirms that were decided: the owners' functions, over the owners' facts.

Pure. What nobody recorded stays unknown, as it would have been: a velocity that no published rule had asked for was not
counted, and how processors were at the time is not kept. Both are said with the result.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from dataflows.payments.domain import routing
from dataflows.payments.domain.decision import Context
from dataflows.payments.domain.policies import risk
from dataflows.payments.domain.policies.fees import FeeSchedule
from dataflows.payments.domain.policies.in_force import Policies
from dataflows.payments.domain.policies.risk import RiskPolicy
from schemas.payments import limits
from schemas.payments.operations import OPERATIONS
from schemas.payments.policies import risk_policy
from schemas.payments.policies.routing import RoutingPolicy
from schemas.payments.records import PaymentIntent

if TYPE_CHECKING:
    from collections.abc import Collection

    from reconciliation.payments.forecast.history import Decided

CONFIRM: Final = "confirm_payment_intent"
_OUTCOMES: Final = {"processing": "allow", "requires_merchant_action": "review", "requires_payment_method": "block"}


class Change(Struct):
    """Confirms that would have gone another way: how many, how much money, by which rules, and some of them."""

    was: str
    would_be: str
    count: int = 0
    amounts: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    payments: list[str] = field(default_factory=list)


class Forecast:
    """Counts what stays and what changes; memory does not grow with the history."""

    def __init__(self) -> None:
        self.judged = 0
        self.as_before = 0
        self.unknown = 0  # confirms of which a rule would have asked what nobody recorded
        self._changes: dict[tuple[str, str], Change] = {}

    def note(self, was: str, would_be: str, result: dict[str, Any], rules: Collection[str], amount: int) -> None:
        """One command, and how much money it is about."""
        self.judged += 1
        if was == would_be:
            self.as_before += 1
            return
        change = self._changes.setdefault((was, would_be), Change(was, would_be))
        change.count += 1
        change.amounts[result["currency"]] += amount
        change.rules.update(rules)
        if len(change.payments) < limits.FORECAST_EXAMPLES_MAX and result["id"] not in change.payments:
            change.payments.append(result["id"])

    @property
    def changes(self) -> list[Change]:
        """The most frequent first."""
        return sorted(self._changes.values(), key=lambda change: (-change.count, change.was, change.would_be))


def judge_risk(policy: RiskPolicy, decided: Collection[Decided], forecast: Forecast) -> None:
    """Every confirm by these rules instead of those that were in force."""
    velocities = risk_policy.velocities(policy.document).keys()
    for one in decided:
        was = _OUTCOMES.get(one.result["state"])
        if one.command.operation != CONFIRM or was is None:
            continue
        facts = risk.facts_of(_intent(one), one.command.payload, one.command.signals)
        verdict = risk.judge(policy, facts)
        forecast.unknown += not velocities <= facts.velocity.keys()
        rules = [reason.rule for reason in verdict.reasons if not reason.shadow]
        forecast.note(was, verdict.outcome, one.result, rules, one.result["amount"])


def judge_routing(
    policy: RoutingPolicy, processors: Collection[str], default: str, decided: Collection[Decided], forecast: Forecast
) -> None:
    """Every confirm that went to a processor by these rules; every processor counts as well."""
    policies = Policies(routing=policy, processors=frozenset(processors))
    context = Context(now=0, fees=FeeSchedule(), processor=default, policies=policies)
    for one in decided:
        if one.command.operation != CONFIRM or one.result["state"] != "processing":
            continue
        card = routing.card_of(one.command)
        route = routing.route(context, _intent(one), card)
        forecast.unknown += card.network is None and any(rule.when.network for rule in policy.rules)
        rules = [_rule_of(route.reason)]
        forecast.note(one.result["processor"], route.processor, one.result, rules, one.result["amount"])


def judge_freeze(merchant: str, decided: Collection[Decided], forecast: Forecast) -> None:
    """What this merchant began would have been refused, had it been frozen all the time."""
    for one in decided:
        if one.command.scope == merchant:  # what is created counts, and not once more when it is confirmed
            amount = one.result["amount"] if OPERATIONS[one.command.operation].creates else 0
            forecast.note("committed", "account_frozen", one.result, [one.command.operation], amount)


def _rule_of(reason: str) -> str:
    return reason.partition("; ")[0].partition(": ")[2] or "no rule fits"


def _intent(one: Decided) -> PaymentIntent:
    """The payment as its confirm left it, as far as rules look at it."""
    result = one.result
    return PaymentIntent(
        id=result["id"],
        merchant_id=result["merchant_id"],
        amount=result["amount"],
        currency=result["currency"],
        state=result["state"],
        version=result["version"],
        capture_method=result["capture_method"],
        payment_method=result["payment_method"],
        processor=result["processor"],
        amount_capturable=0,
        amount_received=0,
        amount_refunded=0,
        amount_disputed=0,
        last_payment_error=None,
        cancellation_reason=None,
        latest_attempt=result["latest_attempt"],
        metadata={},
        created_at=0,
        updated_at=0,
    )
