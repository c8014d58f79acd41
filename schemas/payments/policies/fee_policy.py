"""The document of a fee policy: what the platform takes of captures, for everybody and for single merchants.

A version says from when on it is in force; a payment keeps the terms that were in force when it was made, through all
of its captures, settlements and refunds. Read strictly, so that no owner meets what it cannot evaluate.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct, field

from schemas.fields import currency
from schemas.payments import limits
from schemas.payments.policies.routing import Code, Merchant

_YEARS: Final = (2000, 3000)
Bps = Annotated[int, Meta(ge=0, le=limits.FEE_BPS_MAX)]
Fixed = Annotated[int, Meta(ge=0, le=limits.FEE_FIXED_MINOR_MAX)]


class FeeTerms(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Of each capture: basis points, rounded half up, and a fixed part by currency; never more than the capture."""

    bps: Bps
    fixed: Annotated[dict[Code, Fixed], Meta(max_length=limits.FEE_CURRENCIES_MAX)] = field(default_factory=dict)
    #: what a refund gives back of the fee; the fixed part stays in any case
    refunds_return: Literal["nothing", "bps"] = "nothing"


class FeePolicy(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One version of the terms: the whole of them, nothing of an earlier version is left in force."""

    effective_at: datetime
    default: FeeTerms
    merchants: Annotated[dict[Merchant, FeeTerms], Meta(max_length=limits.FEE_MERCHANTS_MAX)] = field(
        default_factory=dict
    )

    @property
    def effective_at_us(self) -> int:
        """Microseconds since the epoch."""
        since = self.effective_at - datetime(1970, 1, 1, tzinfo=UTC)
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds

    def terms_of(self, merchant: str) -> FeeTerms:
        """The merchant's own terms, else everybody's."""
        return self.merchants.get(merchant, self.default)


def read(body: str | bytes) -> FeePolicy:
    """A published version. Raises msgspec.DecodeError for a document of a newer build."""
    return msgspec.json.decode(body, type=FeePolicy)


def faults(policy: FeePolicy) -> list[dict[str, str]]:
    """What no type says: a time needs its zone and a reasonable year, a currency has to be one."""
    found = []
    if policy.effective_at.tzinfo is None:
        found.append({"field": "effective_at", "reason": "must have a time zone, as 2026-12-01T00:00:00Z"})
    elif not _YEARS[0] <= policy.effective_at.year < _YEARS[1]:
        found.append({"field": "effective_at", "reason": f"must be in the years {_YEARS[0]} to {_YEARS[1] - 1}"})
    named = {"default": policy.default} | {f"merchants.{name}": terms for name, terms in policy.merchants.items()}
    for place, terms in named.items():
        found += [
            {"field": f"{place}.fixed.{code}", "reason": "is no ISO 4217 currency that we know"}
            for code in terms.fixed
            if code not in currency.EXPONENTS
        ]
    return found


def canonical(policy: FeePolicy) -> str:
    """As it is stored: the time in UTC, every default written out."""
    inside = msgspec.structs.replace(policy, effective_at=policy.effective_at.astimezone(UTC))
    return msgspec.json.encode(inside, order="deterministic").decode()
