"""Invoices for a demo without a file: seeded, and of the shape of the Online Retail data.

The same seed gives the same rows, as CSV rows through the same parser that reads a file.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from compose.proof.demo.invoices import COLUMNS, Invoices, parse_invoices

if TYPE_CHECKING:
    from collections.abc import Iterator

SEED: Final = 20101201
FIRST_NUMBER: Final = 536_365
#: about one in ten is a credit note, and about one in twenty-five goes abroad
CREDIT_NOTE_SHARE: Final = 0.09
_COUNTRIES: Final = {
    "United Kingdom": 0.955,
    "EIRE": 0.015,
    "Germany": 0.011,
    "France": 0.007,
    "Netherlands": 0.005,
    "Norway": 0.004,
    "Australia": 0.003,
}
#: of the logarithm of a total in pence: a median near 190 GBP, one in a thousand above 7,000
_LOG_MEAN, _LOG_DEVIATION = 9.85, 1.15
_CREDIT_LOG_MEAN: Final = 7.6
_CUSTOMERS: Final = range(12_346, 18_288)
_LINES_PER_INVOICE: Final = 18
_INVOICES_PER_DAY: Final = 120


def generated_invoices(count: int, seed: int = SEED) -> Invoices:
    """``count`` invoices and the credit notes that lie between them."""
    return parse_invoices(_rows(count, random.Random(seed)), "generated invoices")


def _rows(count: int, chance: random.Random) -> Iterator[str]:
    yield ",".join(COLUMNS)
    made = 0
    number = FIRST_NUMBER
    while made < count:
        is_credit = chance.random() < CREDIT_NOTE_SHARE
        yield _row(number, is_credit, chance)
        made += not is_credit
        number += chance.choice((1, 1, 1, 1, 2))  # numbers have holes, as the real ones do


def _row(number: int, is_credit: bool, chance: random.Random) -> str:
    mean = _CREDIT_LOG_MEAN if is_credit else _LOG_MEAN
    total = max(1, round(chance.lognormvariate(mean, _LOG_DEVIATION)))
    lines = 1 + min(int(chance.expovariate(1 / _LINES_PER_INVOICE)), 400)
    day = 1 + (number - FIRST_NUMBER) // _INVOICES_PER_DAY % 23  # the shop closes before Christmas
    country = chance.choices(list(_COUNTRIES), list(_COUNTRIES.values()))[0]
    fields = (
        f"C{number}" if is_credit else str(number),
        f"{day}/12/2010",
        str(chance.choice(_CUSTOMERS)),
        country,
        str(-total if is_credit else total),
        str(lines),
    )
    return ",".join(fields)
