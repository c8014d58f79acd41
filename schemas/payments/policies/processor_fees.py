"""The document of processors' contracts: what each takes of a charge, by scheme, tier and currency.

What a report says that a processor took is booked in any case; a contract says when that is a difference. Where no
contract speaks of a line, its fee is right as it stands. Read strictly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Struct, field

from schemas.fields import currency
from schemas.payments import limits
from schemas.payments.policies.fee_policy import Bps, Fixed
from schemas.payments.policies.risk_policy import Currency, Name

if TYPE_CHECKING:
    from collections.abc import Iterable

_BPS = 10_000  # basis points in one
Word = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9 _.-]{0,63}\Z")]
Day = Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}\Z")]


class Contract(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Of each charge: basis points, rounded half up, and a fixed part by currency. What is left out is any."""

    processor: Name
    bps: Bps
    fixed: Annotated[dict[Currency, Fixed], Meta(max_length=limits.FEE_CURRENCIES_MAX)] = field(default_factory=dict)
    refund_fixed: Annotated[dict[Currency, Fixed], Meta(max_length=limits.FEE_CURRENCIES_MAX)] = field(
        default_factory=dict
    )
    scheme: Word | None = None  # as the processor's reports write it, in small letters: visa
    tier: Word | None = None  # likewise: debit (Stripe's card_funding), visastandardcredit (Adyen's variant)
    currency: Currency | None = None  # of the settlement
    first_day: Day | None = None  # of the line, as its report dates it
    last_day: Day | None = None
    tolerance_minor: Fixed = 0  # what rounding may make of it

    @property
    def asks_for_lines(self) -> bool:
        """Whether it speaks of some lines only, or of more than their amount."""
        asked = (self.scheme, self.tier, self.currency, self.first_day, self.last_day)
        return any(asked) or bool(self.fixed or self.refund_fixed or self.tolerance_minor)

    def fee_minor(self, gross_minor: int, code: str) -> int:
        """What is taken of a charge, or, below zero, of a refund."""
        if gross_minor < 0:
            return self.refund_fixed.get(code, 0)
        return (gross_minor * self.bps + _BPS // 2) // _BPS + self.fixed.get(code, 0)


class ProcessorFees(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One version: all contracts of all processors; of those that speak of a line the first counts."""

    contracts: Annotated[list[Contract], Meta(max_length=limits.FEE_CONTRACTS_MAX)]


def read(body: str | bytes) -> ProcessorFees:
    """A published version. Raises msgspec.DecodeError for a document of a newer build."""
    return msgspec.json.decode(body, type=ProcessorFees)


def faults(document: ProcessorFees) -> list[dict[str, str]]:
    """What no type says: a currency has to be one, and days are in order."""
    found = []
    for number, contract in enumerate(document.contracts):
        place = f"contracts[{number}]"
        named = [("currency", contract.currency)] if contract.currency else []
        named += [(f"fixed.{code}", code) for code in contract.fixed]
        named += [(f"refund_fixed.{code}", code) for code in contract.refund_fixed]
        found += [
            {"field": f"{place}.{where}", "reason": "is no ISO 4217 currency that we know"}
            for where, code in named
            if code not in currency.EXPONENTS
        ]
        if contract.first_day and contract.last_day and contract.first_day > contract.last_day:
            found.append({"field": f"{place}.last_day", "reason": "must not be before first_day"})
    return found


def contract_of(
    contracts: Iterable[Contract], *, scheme: str | None, tier: str | None, code: str, day: str | None
) -> Contract | None:
    """The first contract that speaks of such a line; ``day`` as its report says it, a date first."""
    scheme, tier, day = (scheme or "").lower(), (tier or "").lower(), (day or "")[:10]
    for contract in contracts:
        if (
            contract.scheme in (None, scheme)
            and contract.tier in (None, tier)
            and contract.currency in (None, code)
            and (contract.first_day is None or contract.first_day <= day)
            and (contract.last_day is None or "" < day <= contract.last_day)
        ):
            return contract
    return None
