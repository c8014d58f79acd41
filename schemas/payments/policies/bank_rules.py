"""The document of bank rules: which entries of bank statements are known, though they are no payout.

Rent, salaries, a bank's own charges: whoever publishes a rule says that no person has to look at such an entry. A rule
holds when all of its conditions do, the first one that holds counts, and none moves money. Read strictly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from schemas import limits
from schemas.fields import legible_text
from schemas.payments import limits as payments_limits
from schemas.payments.policies.risk_policy import Currency, Minor, Name

if TYPE_CHECKING:
    from collections.abc import Iterable

Text = Annotated[str, Meta(min_length=1, max_length=payments_limits.BANK_RULE_TEXT_LENGTH_MAX)]
Iban = Annotated[str, Meta(pattern=r"^[A-Z]{2}[0-9A-Z]{3,32}\Z")]


class BankRule(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a known entry looks like; what is left out is not asked for."""

    name: Name
    text: Text | None = None  # stands in the words of the entry, whatever its case
    iban: Iban | None = None  # of the other side, without blanks
    party: Text | None = None  # stands in the name of the other side, whatever its case
    direction: Literal["in", "out"] | None = None
    currency: Currency | None = None
    amount_min: Minor | None = None  # minor units, of either direction
    amount_max: Minor | None = None


class BankRules(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One version: all of the rules, in the order in which they are asked."""

    rules: Annotated[list[BankRule], Meta(max_length=payments_limits.BANK_RULES_MAX)]


def read(body: str | bytes) -> BankRules:
    """A published version. Raises msgspec.DecodeError for a document of a newer build."""
    return msgspec.json.decode(body, type=BankRules)


def faults(document: BankRules) -> list[dict[str, str]]:
    """What no type says: a name is used once, amounts need their currency, some condition tells entries apart."""
    found, names = [], set()
    for number, rule in enumerate(document.rules):
        place = f"rules[{number}]"
        if rule.name in names:
            found.append({"field": f"{place}.name", "reason": "is the name of an earlier rule"})
        names.add(rule.name)
        for field, said in (("text", rule.text), ("party", rule.party)):
            if hidden := legible_text.line_fault(said or ""):
                found.append({"field": f"{place}.{field}", "reason": hidden})
        has_amount = rule.amount_min is not None or rule.amount_max is not None
        if has_amount and rule.currency is None:
            found.append({"field": f"{place}.currency", "reason": "must say of what currency the amounts are"})
        if (rule.amount_min or 0) > (rule.amount_max if rule.amount_max is not None else limits.AMOUNT_MINOR_MAX):
            found.append({"field": f"{place}.amount_max", "reason": "must not be less than amount_min"})
        if not (has_amount or rule.text or rule.iban or rule.party):
            found.append({"field": place, "reason": "must ask for a text, an iban, a party or an amount"})
    return found


def rule_of(
    rules: Iterable[BankRule], *, amount: int, currency: str, text: str, parties: Iterable[str], ibans: Iterable[str]
) -> BankRule | None:
    """The first rule that holds for an entry; above zero came in."""
    text, ibans = text.casefold(), set(ibans)
    parties = [party.casefold() for party in parties]
    for rule in rules:
        if (
            (rule.direction is None or (rule.direction == "in") == (amount > 0))
            and (rule.currency is None or rule.currency == currency)
            and (rule.amount_min is None or abs(amount) >= rule.amount_min)
            and (rule.amount_max is None or abs(amount) <= rule.amount_max)
            and (rule.iban is None or rule.iban in ibans)
            and (rule.text is None or rule.text.casefold() in text)
            and (rule.party is None or any(rule.party.casefold() in party for party in parties))
        ):
            return rule
    return None
