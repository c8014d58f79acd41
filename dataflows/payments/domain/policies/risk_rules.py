"""Evaluates a condition of a rule for a payment: yes, no, or unknown, and what it saw. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from schemas.payments.policies import risk_policy
from schemas.payments.policies.entry_list import EntryList
from schemas.payments.policies.risk_policy import Condition


class Facts(Struct, frozen=True, kw_only=True):
    """The facts of one confirm; None means unknown."""

    merchant: str
    amount: int
    currency: str
    card: str | None
    network: str | None
    ip: str | None
    customer_country: str | None
    card_country: str | None
    velocity: Mapping[str, int]  # by the name of the signal; a missing one is unknown


class Seen(Struct, frozen=True):
    """The result of one condition, explained for people in ``detail``."""

    holds: bool | None
    detail: str


def look(condition: Condition, facts: Facts, lists: Mapping[str, EntryList]) -> Seen:
    """Whether the condition holds. Never raises for a document that was read without an error."""
    return _LOOKS[type(condition)](condition, facts, lists)


def _amount_above(condition: risk_policy.AmountAbove, facts: Facts, _: Any) -> Seen:
    holds = facts.currency == condition.currency and facts.amount > condition.amount
    return Seen(holds, f"{facts.amount} {facts.currency} is more than {condition.amount}")


def _velocity(condition: risk_policy.Velocity, facts: Facts, _: Any) -> Seen:
    if condition.currency not in (None, facts.currency):
        return Seen(False, f"the currency is not {condition.currency}")
    unit = "confirms" if condition.currency is None else condition.currency
    count = facts.velocity.get(risk_policy.velocity_signal(condition))
    if count is None:
        return Seen(None, f"how many {unit} by {condition.by} is not known")
    bound = f"{condition.window_s} s, more than {condition.more_than}"
    return Seen(count > condition.more_than, f"{count} {unit} by {condition.by} in {bound}")


def _country_mismatch(_: risk_policy.CountryMismatch, facts: Facts, __: Any) -> Seen:
    if facts.customer_country is None or facts.card_country is None:
        return Seen(None, "the country of the customer or of the card is not known")
    differs = facts.customer_country != facts.card_country
    return Seen(differs, f"customer in {facts.customer_country}, card of {facts.card_country}")


def _in_list(condition: risk_policy.InList, facts: Facts, lists: Mapping[str, EntryList]) -> Seen:
    value: str | None = getattr(facts, condition.field)
    entries = lists[condition.list]
    holds: bool | None = None
    if value is not None:
        holds = entries.holds_address(value) if condition.field == "ip" else entries.holds(value)
    if holds is None:
        return Seen(None, f"the {condition.field} is not known")
    return Seen(holds, f"the {condition.field} is in the list {condition.list}")


def _not_in_list(condition: risk_policy.NotInList, facts: Facts, lists: Mapping[str, EntryList]) -> Seen:
    seen = _in_list(risk_policy.InList(condition.field, condition.list), facts, lists)
    if seen.holds is None:
        return seen
    return Seen(not seen.holds, f"the {condition.field} is not in the list {condition.list}")


def _currency(condition: risk_policy.CurrencyIs, facts: Facts, _: Any) -> Seen:
    return Seen(facts.currency in condition.any_of, f"the currency is {facts.currency}")


def _network(condition: risk_policy.NetworkIs, facts: Facts, _: Any) -> Seen:
    if facts.network is None:
        return Seen(None, "the card's network is not known")
    return Seen(facts.network in condition.any_of, f"the network is {facts.network}")


_LOOKS: Final[dict[type, Callable[[Any, Facts, Mapping[str, EntryList]], Seen]]] = {
    risk_policy.AmountAbove: _amount_above,
    risk_policy.Velocity: _velocity,
    risk_policy.CountryMismatch: _country_mismatch,
    risk_policy.InList: _in_list,
    risk_policy.NotInList: _not_in_list,
    risk_policy.CurrencyIs: _currency,
    risk_policy.NetworkIs: _network,
}
