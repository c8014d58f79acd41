"""The risk engine: rules over facts give a score, an outcome and its reasons. Pure, versioned, explained.

Precedence: a rule that allows, then one that blocks, then one that reviews, then the thresholds of the score. A rule in
shadow, or in a policy in shadow, is recorded and decides nothing. If nothing is published, everything is allowed and
nothing recorded. If a fact is unknown, its rule hits, misses or asks for a review, as the rule says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from dataflows.payments.domain.policies.risk_rules import Facts, look
from schemas import identity
from schemas.payments import limits
from schemas.payments.policies import risk_policy
from schemas.payments.policies.entry_list import EntryList, entry_list
from schemas.payments.policies.risk_policy import RiskDocument, RiskRule
from schemas.payments.records import PaymentIntent, RiskAssessment, RiskOutcome, RiskReason

_VELOCITY: Final = "velocity:"
_DIGITS_MAX: Final = 18  # of a count from another process


class RiskPolicy(Struct, frozen=True, kw_only=True):
    """One version of the rules, ready to be evaluated; version 0 has no rules."""

    version: int = 0
    document: RiskDocument = RiskDocument()
    lists: dict[str, EntryList] = field(default_factory=dict)


def read_policy(version: int, body: str) -> RiskPolicy:
    """A published version. Raises msgspec.DecodeError for what this build cannot evaluate."""
    document = risk_policy.read(body)
    if faults := risk_policy.faults(document):
        raise msgspec.ValidationError(f"{faults[0]['field']} {faults[0]['reason']}")
    return RiskPolicy(
        version=version, document=document, lists={name: entry_list(found) for name, found in document.lists.items()}
    )


class Verdict(Struct, frozen=True):
    """The rules' result for one confirm."""

    outcome: RiskOutcome
    score: int
    reasons: list[RiskReason]


class _Hit(Struct, frozen=True):
    rule: RiskRule
    outcome: RiskOutcome | None
    score: int
    detail: str


def facts_of(intent: PaymentIntent, payload: Mapping[str, Any], signals: Mapping[str, str] | None) -> Facts:
    """The facts of a confirm: its own fields, and the signals that the ingress gathered, if it could."""
    signals = signals or {}
    method = intent.payment_method
    card = signals.get("card")
    if card is None and method is not None and not identity.is_card_token(method):
        card = method  # of such a card we know only the processor's token
    return Facts(
        merchant=intent.merchant_id,
        amount=intent.amount,
        currency=intent.currency,
        card=card,
        network=signals.get("network"),
        ip=payload.get("customer_ip"),
        customer_country=payload.get("customer_country"),
        card_country=payload.get("card_country"),
        velocity={name: int(text) for name, text in signals.items() if name.startswith(_VELOCITY) and _is_count(text)},
    )


def assess(policy: RiskPolicy, intent: PaymentIntent, facts: Facts, now: int) -> RiskAssessment:
    """The assessment of the attempt that a confirm would start. The same arguments give the same assessment."""
    verdict = judge(policy, facts)
    return RiskAssessment(
        intent_id=intent.id,
        attempt=intent.latest_attempt + 1,
        outcome=verdict.outcome,
        score=verdict.score,
        policy_version=policy.version,
        reasons=verdict.reasons,
        decided_by=None,
        created_at=now,
    )


def judge(policy: RiskPolicy, facts: Facts) -> Verdict:
    """The verdict of a policy's rules. Its score is the sum of the rules that count; in a policy in shadow, of all."""
    shadow = policy.document.shadow
    hits = [hit for rule in policy.document.rules if (hit := _hit(rule, facts, policy.lists)) is not None]
    counting = [hit for hit in hits if not hit.rule.shadow]
    score = min(limits.RISK_SCORE_MAX, sum(hit.score for hit in counting))
    outcome = "allow" if shadow else _outcome(counting, score, policy.document.thresholds)
    reasons = [RiskReason(hit.rule.name, hit.score, hit.detail, shadow or hit.rule.shadow) for hit in hits]
    return Verdict(outcome, score, reasons)


def _hit(rule: RiskRule, facts: Facts, lists: Mapping[str, EntryList]) -> _Hit | None:
    seen = [look(condition, facts, lists) for condition in rule.when]
    if any(one.holds is False for one in seen):
        return None
    if all(one.holds for one in seen):
        return _Hit(rule, rule.outcome, rule.score, "; ".join(one.detail for one in seen))
    detail = "; ".join(one.detail for one in seen if one.holds is None)
    if rule.when_unknown == "hit":
        return _Hit(rule, rule.outcome, rule.score, detail)
    return _Hit(rule, "review", 0, detail) if rule.when_unknown == "review" else None


def _outcome(hits: list[_Hit], score: int, thresholds: risk_policy.Thresholds) -> RiskOutcome:
    said = {hit.outcome for hit in hits}
    if "allow" in said:
        return "allow"
    if "block" in said or (thresholds.block is not None and score >= thresholds.block):
        return "block"
    if "review" in said or (thresholds.review is not None and score >= thresholds.review):
        return "review"
    return "allow"


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
