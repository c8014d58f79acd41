"""Exchanges money of a merchant between two currencies, at a rate that an operator states as exact text.

Integer arithmetic only: the rate is a fraction of powers of ten, and the amounts agree with it if the target is within
one minor unit of what the rate gives. A float, or rounding in between, could lose a unit that nobody finds.
"""

from __future__ import annotations

from typing import Any

from dataflows.payments.domain.accounts import account_postings
from dataflows.payments.domain.accounts.account import Account, AccountContext, AccountDecision, advanced, insufficient
from schemas import identity
from schemas.fields.currency import EXPONENTS
from schemas.payments.operations import OPERATIONS
from schemas.payments.policies import reference_rates
from schemas.records import Command, Rejection
from schemas.refusals import wrong_value


def decide_convert(account: Account, command: Command, context: AccountContext) -> AccountDecision | Rejection:
    """Takes the source from what is available and gives the target, balanced in each currency."""
    wanted: dict[str, Any] = command.payload
    merchant = account.account.merchant_id
    source = (wanted["source_amount"], wanted["source_currency"])
    target = (wanted["target_amount"], wanted["target_currency"])
    if source[1] == target[1]:
        return wrong_value("payload.target_currency", "must be another currency than the source")
    if not agrees(wanted["rate"], source, target):
        return wrong_value("payload.rate", "does not give the target from the source within one minor unit")
    if (refusal := _outside(wanted["rate"], source[1], target[1], context)) is not None:
        return refusal
    held = context.held.get(account_postings.available(merchant, source[1]), 0)
    if source[0] > held:
        return insufficient(source[1], available=held)
    template = OPERATIONS[command.operation].template
    reference = identity.derived_id("fx", account.account.id, f"{command.scope} {template}", command.idempotency_key)
    return AccountDecision(
        account=advanced(account.account, context),
        postings=(account_postings.exchanged(reference, merchant, source, target),),
    )


def agrees(rate: str, source: tuple[int, str], target: tuple[int, str]) -> bool:
    """Whether the source at this rate gives the target (minor units, currency), to one minor unit."""
    numerator, denominator = reference_rates.fraction(rate)
    # Both sides times the denominator and the exponent of the source: no division, no remainder.
    unit: int = denominator * 10 ** EXPONENTS[source[1]]
    exact: int = source[0] * numerator * 10 ** EXPONENTS[target[1]]
    return abs(target[0] * unit - exact) <= unit


def _outside(rate: str, source: str, target: str, context: AccountContext) -> Rejection | None:
    """Rule: not even two persons choose a rate freely: it must be within the band of a published reference in force."""
    document = context.reference_rates
    if document is None or not reference_rates.is_in_force(document, context.now):
        return Rejection("no_reference_rate", "No reference rates are in force: publish them first.", {})
    is_within = reference_rates.is_within(document, rate, source, target)
    if is_within is None:
        return Rejection("no_reference_rate", f"The reference rates name no {source}/{target}.", {})
    if not is_within:
        return Rejection("rate_outside_band", "The rate is too far from the reference rate.", {})
    return None
