"""Chooses the processor of a charge: pure, deterministic, explained. Nothing published means the default processor.

The first rule that fits decides. Candidates that cannot serve the payment method are dropped. Of the rest the most
preferred one that is not eliminated is chosen; if all are eliminated, the most preferred one: routing refuses no
payment. Only charges are routed: an attempt that works on an earlier one goes to that one's processor.

Failover (source: trap 1) is a further attempt of the same confirm at the next candidate, made by the commit that learns
of a definitive failure. An uncertain outcome never leads to one. ``attempt.route`` says which rule chose the
processor and how many failovers came before, in words that this module reads again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from dataflows.payments.domain.decision import Context, Payment
from dataflows.payments.domain.policies.in_force import ProcessorHealth
from schemas import identity
from schemas.payments import limits
from schemas.payments.policies.routing import Candidate, Conditions, RoutingPolicy, RoutingRule
from schemas.payments.processors import adapter_of
from schemas.payments.records import PaymentIntent, ProcessorAttempt
from schemas.records import Command

#: the signal by which an approval repeats what the confirm said
CARD_COUNTRY: Final = "card_country"
CHARGES: Final = frozenset({"authorize", "purchase"})
_OF_SIMULATORS: Final = "tok_sim_"
#: an attempt that people look at, or that sent the payer away, has no successor
_MAY_FAIL_OVER: Final = frozenset({"created", "pending", "unknown"})
_HEALTH_AGE_MAX_US: Final = limits.PROCESSOR_HEALTH_KEPT_S * 1_000_000
_PART: Final = "; "  # no name of a rule or processor contains it
_BPS: Final = 10_000
_RATE: Final = 1_000_000  # success rates are parts of so many


class Card(Struct, frozen=True):
    """The known properties of a card beside its token."""

    network: str | None = None
    country: str | None = None


class Route(Struct, frozen=True):
    """The processor of a charge, and the reason."""

    processor: str
    reason: str


UNKNOWN_CARD: Final = Card()


def card_of(command: Command) -> Card:
    """The card as the ingress and the merchant know it; for an approval, as it was known at the confirm."""
    signals = command.signals or {}
    country: Any = command.payload.get("card_country") or signals.get(CARD_COUNTRY)
    return Card(signals.get("network"), country)


def read_policy(version: int, body: str) -> RoutingPolicy:
    """A published version. Raises msgspec.DecodeError for a document of a newer build."""
    return structs.replace(msgspec.json.decode(body, type=RoutingPolicy), version=version)


def route(context: Context, intent: PaymentIntent, card: Card = UNKNOWN_CARD) -> Route:
    """The processor for the first attempt of a confirm."""
    policy = context.policies.routing
    for rule in policy.rules:
        if not _fits(rule.when, intent, card):
            continue
        able = _able(context, rule, intent)
        if able:
            out = _eliminated(context, able)
            chosen = next((name for name in able if name not in out), able[0])
            return Route(chosen, _reason(policy, rule, _passed_over(able, chosen, out)))
    return Route(context.processor, f"routing {policy.version}{_PART}no rule fits")


def failover(context: Context, payment: Payment, before: ProcessorAttempt, after: ProcessorAttempt) -> Route | None:
    """The next processor for a charge that has just failed for good; None if the payment itself is the cause.

    ``before`` and ``after`` are the attempt without and with the fact. An eliminated processor gets no failovers.
    """
    policy = context.policies.routing
    if payment.intent.state != "processing" or before.status not in _MAY_FAIL_OVER:
        return None
    if payment.intent.merchant_id in context.policies.frozen_merchants:  # a frozen merchant begins nothing new
        return None
    name, done = _chosen_by(before)
    rule = next((r for r in policy.rules if r.name == name), None)
    if rule is None or done >= policy.failovers_max or not _may_be_retried(rule, after):
        return None
    tried = _tried(payment, before, done)
    left = [name for name in _able(context, rule, payment.intent) if name not in tried]
    out = _eliminated(context, left)
    chosen = next((name for name in left if name not in out), None)
    if chosen is None:
        return None
    notes = [f"failover {done + 1} after {before.processor}", *_passed_over(left, chosen, out)]
    return Route(chosen, _reason(policy, rule, notes))


def serves(processor: str, payment_method: str) -> bool:
    """Whether a processor can charge this method: tokens of the vault work anywhere, others only at their processor."""
    issuer = "simulator" if payment_method.startswith(_OF_SIMULATORS) else "stripe"
    return identity.is_card_token(payment_method) or adapter_of(processor) == issuer


def _fits(when: Conditions, intent: PaymentIntent, card: Card) -> bool:
    amount = when.amount.get(intent.currency)
    return (
        (not when.currency or intent.currency in when.currency)
        and (not when.amount or (amount is not None and amount.least <= intent.amount <= amount.most))
        and (not when.network or card.network in when.network)
        and (not when.country or card.country in when.country)
        and (not when.merchant or intent.merchant_id in when.merchant)
    )


def _able(context: Context, rule: RoutingRule, intent: PaymentIntent) -> list[str]:
    """The candidates that can charge the method, the most preferred first; the configuration may have changed."""
    names = [candidate.processor for candidate in rule.candidates]
    if rule.choose == "by_weight":
        names = _drawn(rule.candidates, intent.id)
    known, method = context.policies.processors, intent.payment_method or ""
    able = [name for name in names if (not known or name in known) and serves(name, method)]
    return _by_success_rate(context, able) if rule.choose == "by_success_rate" else able


def _drawn(candidates: Iterable[Candidate], intent_id: str) -> list[str]:
    """An order drawn by weights: each place is drawn from the rest, in proportion, by a hash of the intent's id.

    The first place splits the volume; if one is eliminated, only its share is split among the others.
    """
    left = sorted(candidates, key=lambda candidate: candidate.processor)
    order: list[str] = []
    while total := sum(candidate.weight for candidate in left):
        lot = identity.lot("routing", intent_id, str(len(order))) % total
        for candidate in left:
            lot -= candidate.weight
            if lot < 0:
                break
        left.remove(candidate)
        order.append(candidate.processor)
    return [*order, *(candidate.processor for candidate in left)]


def _by_success_rate(context: Context, names: list[str]) -> list[str]:
    """Sorts those with a large enough sample by rate within their places; the others keep theirs, to gather one."""
    rates: dict[str, int] = {}
    for name in names:
        seen = _seen(context, name)
        if seen is not None and seen.outcomes >= context.policies.routing.sample_min:
            rates[name] = seen.succeeded * _RATE // seen.outcomes
    ranked = iter(sorted(rates, key=lambda name: -rates[name]))
    return [next(ranked) if name in rates else name for name in names]


def _eliminated(context: Context, names: Iterable[str]) -> dict[str, str]:
    """The reasons for eliminating some of these. A half-open breaker eliminates none: it needs a payment to close."""
    reasons = {name: _why_not(context, name) for name in names}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def _why_not(context: Context, name: str) -> str | None:
    policy, seen = context.policies.routing, _seen(context, name)
    if seen is None:
        return None
    if seen.breaker == "open":
        return "breaker open"
    bad = seen.failed + seen.unknown
    if seen.outcomes >= policy.sample_min and bad * _BPS > policy.failure_rate_max_bps * seen.outcomes:
        return f"{bad} of {seen.outcomes} failed"
    return None


def _seen(context: Context, name: str) -> ProcessorHealth | None:
    """A processor's health, unless it is too old to count."""
    seen = context.policies.health.get(name)
    return seen if seen is not None and context.now - seen.as_of <= _HEALTH_AGE_MAX_US else None


def _may_be_retried(rule: RoutingRule, ended: ProcessorAttempt) -> bool:
    """Whether to try another processor: after a failure, which executed nothing; by rule after an issuer's refusal."""
    return ended.status == "failed" or (ended.status == "declined" and ended.error_code in rule.retryable_declines)


def _tried(payment: Payment, ended: ProcessorAttempt, failovers: int) -> set[str]:
    """The processors that this confirm was sent to, failovers included."""
    charges = [a for n, a in sorted(payment.attempts.items()) if a.kind in CHARGES and n <= ended.attempt]
    return {a.processor for a in charges[-1 - failovers :]}


def _passed_over(able: list[str], chosen: str, out: Mapping[str, str]) -> list[str]:
    if chosen in out:
        return ["all eliminated", f"{chosen}: {out[chosen]}"]
    return [f"{name} eliminated: {out[name]}" for name in able[: able.index(chosen)]]


def _reason(policy: RoutingPolicy, rule: RoutingRule, notes: Iterable[str]) -> str:
    return _PART.join([f"routing {policy.version}: {rule.name}", *notes])[: limits.ROUTE_LENGTH_MAX]


def _chosen_by(attempt: ProcessorAttempt) -> tuple[str | None, int]:
    """The rule that chose the attempt's processor and the failovers so far, parsed from what ``_reason`` wrote."""
    head, _, notes = (attempt.route or "").partition(_PART)
    _, is_by_rule, rule = head.partition(": ")
    words = notes.partition(_PART)[0].split(" ")
    return rule if is_by_rule else None, int(words[1]) if words[0] == "failover" else 0
