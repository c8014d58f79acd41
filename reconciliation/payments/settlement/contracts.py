"""Fees by contract: what a line should have cost, and contracts as reports themselves suggest them."""

from __future__ import annotations

from collections import defaultdict
from statistics import median_low
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from dataflows.payments.domain.policies.fees import FeeSchedule
from reconciliation.payments.settlement.line import Line
from reconciliation.payments.settlement.store import execute
from schemas.payments import limits
from schemas.payments.policies import processor_fees
from schemas.payments.policies.processor_fees import Contract, contract_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import psycopg

    from reconciliation.payments.settlement.line import Defect, PlainRow

_BPS: Final = 10_000
_PRICED: Final = ("charge", "refund")
_SIMULATOR: Final = "simulator"  # the first letters of a simulator's name


def contracts_of(connection: psycopg.Connection, processor: str) -> list[Contract]:
    """The published contracts of a processor. A simulator has one without: what it takes is ours to say.

    Raises msgspec.DecodeError for those of a newer build: nothing is taken in without them.
    """
    row = execute(connection, "processor_fees_active").fetchone()
    published = [] if row is None else processor_fees.read(row[0]).contracts
    found = [contract for contract in published if contract.processor == processor]
    if not found and processor.startswith(_SIMULATOR):
        return [Contract(processor=processor, bps=FeeSchedule().processor_bps)]
    return found


def plain_bps(contracts: list[Contract]) -> int | None:
    """What is taken of every charge alike; None when that depends on the line, or nothing is said."""
    return contracts[0].bps if len(contracts) == 1 and not contracts[0].asks_for_lines else None


def priced(contracts: list[Contract], lines: Iterable[Line | PlainRow | Defect]) -> Iterator[Line | PlainRow | Defect]:
    """The lines, each that a contract speaks of with the fee that it says; a fee within its tolerance is that fee."""
    for line in lines:
        if not isinstance(line, Line) or line.type not in _PRICED:
            yield line
            continue
        contract = contract_of(contracts, scheme=line.scheme, tier=line.tier, code=line.net_currency, day=line.created)
        if contract is None:
            yield line
            continue
        fee = contract.fee_minor(_amount(line), line.net_currency)
        is_near = abs(fee - line.fee) <= contract.tolerance_minor
        yield structs.replace(line, contract_fee=line.fee if is_near else fee)


def proposed(processor: str, lines: Iterable[Line | Defect | PlainRow]) -> list[dict[str, Any]]:
    """A contract for each scheme, tier and currency of the charges of a report, with how many lines agree with it.

    Two figures explain a fee: the middle one of the slopes between charges, and what is left of them when it is taken
    off. A person looks at them, and publishes what is agreed.
    """
    seen: dict[tuple[str | None, str | None, str], list[tuple[int, int]]] = defaultdict(list)
    for line in lines:
        if isinstance(line, Line) and line.type == "charge" and _amount(line) > 0:
            fees = seen[_word(line.scheme), _word(line.tier), line.net_currency]
            if len(fees) < limits.FEE_PROPOSAL_LINES_MAX:
                fees.append((_amount(line), line.fee))
    return [
        _proposal(processor, scheme, tier, code, fees)
        for (scheme, tier, code), fees in sorted(seen.items(), key=lambda item: [part or "" for part in item[0]])
    ]


def _proposal(
    processor: str, scheme: str | None, tier: str | None, code: str, fees: list[tuple[int, int]]
) -> dict[str, Any]:
    fees = sorted(fees)
    half = len(fees) // 2
    pairs = [(a, b) for a, b in zip(fees, fees[half:], strict=False) if a[0] != b[0]]
    slopes = [(b[1] - a[1]) * _BPS // (b[0] - a[0]) for a, b in pairs] or [fees[0][1] * _BPS // fees[0][0]]
    bps = min(max(median_low(slopes), 0), limits.FEE_BPS_MAX)
    rest = median_low([fee - amount * bps // _BPS for amount, fee in fees])
    contract = Contract(
        processor=processor, scheme=scheme, tier=tier, currency=code, bps=bps, fixed={code: rest} if rest > 0 else {}
    )
    agreeing = sum(abs(contract.fee_minor(amount, code) - fee) <= 1 for amount, fee in fees)
    told = {name: value for name, value in structs.asdict(contract).items() if value}
    return {"contract": told | {"bps": bps, "tolerance_minor": 1}, "lines": len(fees), "agreeing": agreeing}


def _amount(line: Line) -> int:
    """What the fee is taken of, in the currency of the settlement."""
    return line.gross if line.currency == line.net_currency else line.net + line.fee


def _word(text: str | None) -> str | None:
    return text.lower() if text else None
