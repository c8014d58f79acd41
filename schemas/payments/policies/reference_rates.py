"""The document of reference rates: what currencies are worth, who says so, until when, and how far off one may be.

No money is exchanged by hand at a rate outside of its band, nor by a reference that is over. Integer arithmetic only.
Read strictly, so that no owner meets what it cannot evaluate.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from schemas import limits as shared_limits
from schemas.fields import currency, legible_text
from schemas.payments import limits

_BPS: Final = 10_000
_SEPARATOR: Final = "/"
Text = Annotated[str, Meta(min_length=1, max_length=shared_limits.TEXT_LENGTH_MAX)]
#: an exact decimal above zero, target per source in whole units
Rate = Annotated[
    str,
    Meta(pattern=rf"^(?=.*[1-9])[0-9]{{1,{limits.FX_RATE_DIGITS_MAX}}}(\.[0-9]{{1,{limits.FX_RATE_DIGITS_MAX}}})?\Z"),
]
#: SOURCE/TARGET, as EUR/JPY; it is the reference of JPY/EUR, too
Pair = Annotated[str, Meta(pattern=r"^[A-Z]{3}/[A-Z]{3}\Z")]
Fraction = tuple[int, int]


class ReferenceRate(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a pair is worth, and how far from it an exchange may be, to either side."""

    rate: Rate
    band_bps: Annotated[int, Meta(ge=1, le=limits.FX_BAND_BPS_MAX)]


class ReferenceRates(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One version: all of the pairs that may be exchanged."""

    source: Text  # who says so, as "ECB euro reference rates of 2026-12-01"
    as_of: datetime
    valid_until: datetime
    rates: Annotated[dict[Pair, ReferenceRate], Meta(max_length=limits.FX_PAIRS_MAX)]


def read(body: str | bytes) -> ReferenceRates:
    """A published version. Raises msgspec.DecodeError for a document of a newer build."""
    return msgspec.json.decode(body, type=ReferenceRates)


def faults(document: ReferenceRates) -> list[dict[str, str]]:
    """What no type says: times with their zones, a bounded life, currencies that exist, each pair once."""
    found = [
        {"field": name, "reason": "must have a time zone, as 2026-12-01T00:00:00Z"}
        for name in ("as_of", "valid_until")
        if getattr(document, name).tzinfo is None
    ]
    if not found:
        life = document.valid_until - document.as_of
        if not timedelta() < life <= timedelta(hours=limits.FX_REFERENCE_HOURS_MAX):
            reason = f"must be after as_of, and {limits.FX_REFERENCE_HOURS_MAX} hours after it at most"
            found.append({"field": "valid_until", "reason": reason})
    if hidden := legible_text.line_fault(document.source):
        found.append({"field": "source", "reason": hidden})
    for pair in document.rates:
        source, _, target = pair.partition(_SEPARATOR)
        if source == target or not {source, target} <= currency.EXPONENTS.keys():
            found.append({"field": f"rates.{pair}", "reason": "must be two ISO 4217 currencies that we know"})
        elif source > target and f"{target}{_SEPARATOR}{source}" in document.rates:
            found.append({"field": f"rates.{pair}", "reason": "is there the other way round already"})
    return found


def canonical(document: ReferenceRates) -> str:
    """As it is stored: times in UTC."""
    inside = msgspec.structs.replace(
        document, as_of=document.as_of.astimezone(UTC), valid_until=document.valid_until.astimezone(UTC)
    )
    return msgspec.json.encode(inside, order="deterministic").decode()


def is_in_force(document: ReferenceRates, now_us: int) -> bool:
    """Whether the reference speaks of this moment (microseconds since the epoch)."""
    return _us(document.as_of) <= now_us < _us(document.valid_until)


def is_within(document: ReferenceRates, rate: str, source: str, target: str) -> bool | None:
    """Whether a rate of target per source lies in the band of its pair; None when there is no such pair."""
    known, is_inverse = document.rates.get(f"{source}{_SEPARATOR}{target}"), False
    if known is None:
        known, is_inverse = document.rates.get(f"{target}{_SEPARATOR}{source}"), True
    if known is None:
        return None
    above, below = fraction(known.rate)
    reference = (below, above) if is_inverse else (above, below)
    stated = fraction(rate)
    # |stated - reference| <= reference * band, each side times both denominators
    off = abs(stated[0] * reference[1] - reference[0] * stated[1])
    return off * _BPS <= reference[0] * stated[1] * known.band_bps


def fraction(rate: str) -> Fraction:
    """A decimal as numerator and denominator."""
    whole, _, decimals = rate.partition(".")
    return int(whole + decimals), 10 ** len(decimals)


def _us(moment: datetime) -> int:
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
