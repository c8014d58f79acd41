"""The document of a risk policy, as operators publish it and owners decide by it: rules as data, read strictly.

A rule holds when all of its conditions do. A document that reads without an error can be evaluated without one, so
nothing that an operator publishes can stop an owner.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct, field

from schemas import limits
from schemas.fields import currency
from schemas.payments import limits as payments_limits
from schemas.payments.policies.entry_list import network_of

Name = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}\Z")]
Currency = Annotated[str, Meta(pattern=r"^[A-Z]{3}\Z")]
Minor = Annotated[int, Meta(ge=0, le=limits.AMOUNT_MINOR_MAX)]
Score = Annotated[int, Meta(ge=0, le=payments_limits.RISK_SCORE_MAX)]
Threshold = Annotated[int, Meta(ge=1, le=payments_limits.RISK_SCORE_MAX)]
Choices = Annotated[list[Name], Meta(min_length=1, max_length=payments_limits.RISK_CHOICES_MAX)]
Currencies = Annotated[list[Currency], Meta(min_length=1, max_length=payments_limits.RISK_CHOICES_MAX)]
ListEntry = Annotated[str, Meta(min_length=1, max_length=payments_limits.RISK_LIST_ENTRY_LENGTH_MAX)]
VelocityOf = Literal["card", "merchant", "ip"]
Measure = Literal["count", "amount"]
ListedField = Literal["card", "ip", "merchant", "customer_country", "card_country"]


class AmountAbove(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="amount_above"):
    """More than this many minor units, of this currency only."""

    currency: Currency
    amount: Minor


class Velocity(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="velocity"):
    """More than so many confirms, or so much money of one currency, within the window; this one is counted."""

    by: VelocityOf
    window_s: Annotated[int, Meta(ge=payments_limits.VELOCITY_WINDOW_S_MIN, le=payments_limits.VELOCITY_WINDOW_S_MAX)]
    more_than: Minor
    measure: Measure = "count"
    currency: Currency | None = None


class CountryMismatch(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="country_mismatch"):
    """The customer's country is not the card's."""


class InList(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="in_list"):
    """The field is in the list of this name; an entry for an ip may be a network (CIDR)."""

    field: ListedField
    list: Name


class NotInList(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="not_in_list"):
    """The field is not in the list of this name."""

    field: ListedField
    list: Name


class CurrencyIs(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="currency"):
    """The payment's currency is one of these."""

    any_of: Currencies


class NetworkIs(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="network"):
    """The card's network is one of these."""

    any_of: Choices


Condition = AmountAbove | Velocity | CountryMismatch | InList | NotInList | CurrencyIs | NetworkIs


class RiskRule(Struct, frozen=True, forbid_unknown_fields=True):
    """One rule. What it does when it hits: an outcome, or a score that adds up with others', or both."""

    name: Name
    when: Annotated[list[Condition], Meta(min_length=1, max_length=payments_limits.RISK_CONDITIONS_MAX)]
    score: Score = 0
    outcome: Literal["allow", "review", "block"] | None = None
    shadow: bool = False  # recorded, never decides
    when_unknown: Literal["hit", "miss", "review"] | None = None  # when a fact that it needs is not known


class Thresholds(Struct, frozen=True, forbid_unknown_fields=True):
    """From which score on a payment is reviewed or blocked; null = never."""

    review: Threshold | None = None
    block: Threshold | None = None


class RiskDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """One version of the rules, with the lists that they name."""

    rules: Annotated[list[RiskRule], Meta(max_length=payments_limits.RISK_RULES_MAX)] = field(default_factory=list)
    thresholds: Thresholds = Thresholds()
    lists: Annotated[
        dict[Name, Annotated[list[ListEntry], Meta(max_length=payments_limits.RISK_LIST_ENTRIES_MAX)]],
        Meta(max_length=payments_limits.RISK_LISTS_MAX),
    ] = field(default_factory=dict)
    shadow: bool = False  # the whole policy: everything is recorded, everything is allowed


_decoder: Final = msgspec.json.Decoder(RiskDocument)


def read(body: bytes | str) -> RiskDocument:
    """The document of canonical JSON. Raises msgspec.DecodeError for what ``errors_of`` has not seen."""
    return _decoder.decode(body)


def velocity_signal(condition: Velocity) -> str:
    """The name of the signal that a velocity condition compares."""
    what = f"amount:{condition.currency}" if condition.measure == "amount" else "count"
    return f"velocity:{condition.by}:{what}:{condition.window_s}"


def velocities(document: RiskDocument) -> dict[str, Velocity]:
    """The counters that the rules need, each once, by the name of its signal."""
    conditions = (condition for rule in document.rules for condition in rule.when)
    return {velocity_signal(c): c for c in conditions if isinstance(c, Velocity)}


def needs_card(document: RiskDocument) -> bool:
    """Whether a rule looks at the card itself: its fingerprint or its network."""
    return any(
        isinstance(c, NetworkIs)
        or (isinstance(c, Velocity) and c.by == "card")
        or (isinstance(c, InList | NotInList) and c.field == "card")
        for rule in document.rules
        for c in rule.when
    )


def faults(document: RiskDocument) -> list[dict[str, str]]:
    """What the types cannot say: every {field, reason} that forbids the document; empty = it may be published."""
    found: list[dict[str, str]] = []
    names = [rule.name for rule in document.rules]
    for n, rule in enumerate(document.rules):
        at = f"rules[{n}]"
        if names.index(rule.name) < n:
            found.append(_fault(f"{at}.name", "is the name of another rule"))
        if not rule.score and rule.outcome is None:
            found.append(_fault(at, "needs a score or an outcome"))
        found += _when_unknown_faults(rule, at)
        for m, condition in enumerate(rule.when):
            found += _condition_faults(condition, f"{at}.when[{m}]", document)
    if len(velocities(document)) > payments_limits.VELOCITY_COUNTERS_MAX:
        found.append(_fault("rules", f"must need at most {payments_limits.VELOCITY_COUNTERS_MAX} velocity counters"))
    found += _threshold_faults(document.thresholds) + _list_faults(document)
    return found


def may_be_unknown(rule: RiskRule) -> bool:
    """Whether a condition needs a fact that a confirm may come without."""
    return any(
        isinstance(c, Velocity | CountryMismatch | NetworkIs)
        or (isinstance(c, InList | NotInList) and c.field != "merchant")
        for c in rule.when
    )


def _when_unknown_faults(rule: RiskRule, at: str) -> list[dict[str, str]]:
    if rule.when_unknown is None and may_be_unknown(rule):
        return [_fault(f"{at}.when_unknown", "is required: a condition needs what a confirm may come without")]
    if rule.outcome == "allow" and rule.when_unknown in ("hit", "review"):
        return [_fault(f"{at}.when_unknown", "must be miss: nothing is allowed for what is not known of it")]
    return []


def _condition_faults(condition: Condition, at: str, document: RiskDocument) -> list[dict[str, str]]:
    if isinstance(condition, InList | NotInList) and condition.list not in document.lists:
        return [_fault(f"{at}.list", "is no list of this policy")]
    if isinstance(condition, Velocity) and (condition.currency is None) == (condition.measure == "amount"):
        return [_fault(f"{at}.currency", "is required with the measure amount, and only with it")]
    said = [condition.currency] if isinstance(condition, AmountAbove | Velocity) else []
    if isinstance(condition, CurrencyIs):
        said = list(condition.any_of)
    unknown = [code for code in said if code is not None and not currency.is_currency(code)]
    return [_fault(at, f"{unknown[0]} is no currency with a minor unit")] if unknown else []


def _threshold_faults(thresholds: Thresholds) -> list[dict[str, str]]:
    if thresholds.review is not None and thresholds.block is not None and thresholds.review >= thresholds.block:
        return [_fault("thresholds.review", "must be below the threshold of block")]
    return []


def _list_faults(document: RiskDocument) -> list[dict[str, str]]:
    fields: dict[str, set[str]] = {}
    for rule in document.rules:
        for condition in rule.when:
            if isinstance(condition, InList | NotInList):
                fields.setdefault(condition.list, set()).add(condition.field)
    found = []
    for name, entries in document.lists.items():
        for n, entry in enumerate(entries):
            if reason := _entry_fault(entry, fields.get(name, set())):
                found.append(_fault(f"lists.{name}[{n}]", reason))
                break  # one of a list is enough to find the others
    return found


def _entry_fault(entry: str, fields: set[str]) -> str | None:
    if not (entry.isascii() and entry.isprintable()):
        return "must be printable ASCII"
    if "ip" in fields and network_of(entry) is None:
        return "must be an address or a network such as 203.0.113.0/24"
    if fields & {"customer_country", "card_country"} and not (len(entry) == 2 and entry.isalpha() and entry.isupper()):  # noqa: PLR2004 - ISO 3166-1 alpha-2
        return "must be a country of two upper-case letters"
    return None


def _fault(where: str, reason: str) -> dict[str, str]:
    return {"field": where, "reason": reason}
