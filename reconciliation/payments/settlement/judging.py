"""Lines beside what they tell of, movement by movement: verdicts become rows, findings and postings.

The plain case never comes here: it is matched in one statement. What comes here is streamed from the database in order,
so that memory does not grow with the report.
"""

from __future__ import annotations

from itertools import chain, groupby
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from reconciliation.payments.settlement.candidate import (
    ATTEMPT_TYPES,
    Candidate,
    candidate_of,
    exchange_row,
    found_of,
    is_exchanged,
    line_row,
)
from reconciliation.payments.settlement.line import Line
from reconciliation.payments.settlement.matching import PAYING, Expected, Verdict, judge_all
from reconciliation.payments.settlement.store import SQL, Found, execute, keep_found, keep_lines, resolve_cases
from schemas.payments import limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import psycopg

_OPEN: Final = frozenset({"created", "pending", "unknown", "requires_action", "manual_review"})
_POSTED_TYPES: Final = frozenset({"charge", "capture_reversal", "refund"})
_CLASS: Final = 15  # its place in a row
#: lines that belong to no payment, by type: a person books them
_UNBOOKED: Final = {"fee": "unbooked_fee", "adjustment": "unbooked_adjustment", "other": "unknown_line"}


class Judged(Struct, kw_only=True):
    """The row of a line, and what is wrong with it."""

    row: tuple[object, ...]
    exchange: tuple[object, ...] | None = None  # of a line that was paid in one currency and settled in another
    found: Found | None = None
    ends_shortage_of: str | None = None


def judge_report(connection: psycopg.Connection, processor: str, report_id: str) -> int:
    """Judges what is not plain, keeps rows and findings, and returns how many lines were matched."""
    matched = 0
    with connection.cursor("settlement_candidates") as cursor:
        cursor.itersize = limits.SETTLEMENT_COPY_LINES
        cursor.execute(SQL["candidates_to_judge"].encode(), {"paying": list(PAYING)})
        batch: list[Judged] = []
        for judged in judged_lines(processor, report_id, map(candidate_of, cursor)):
            matched += judged.row[_CLASS] in ("matched", "fee_difference")
            batch.append(judged)
            if len(batch) == limits.SETTLEMENT_COPY_LINES:
                _keep(connection, processor, report_id, batch)
                batch.clear()
        _keep(connection, processor, report_id, batch)
    return matched


def judged_lines(processor: str, report_id: str, candidates: Iterable[Candidate]) -> Iterator[Judged]:
    """Every candidate judged; those of one movement must stand together."""
    for _, group in groupby(candidates, key=_movement):
        first = next(group)
        members = chain((first,), group)  # noqa: B031 - the rest of the group, once
        expected = _expected(first)
        if isinstance(expected, str):
            yield from (_plain(processor, report_id, candidate, expected) for candidate in members)
            continue
        under_way: dict[int, Candidate] = {}
        for verdict in judge_all(expected, first.settled, _lines(members, under_way)):
            yield _judged(processor, report_id, under_way.pop(verdict.line.line_no), verdict)


def _movement(candidate: Candidate) -> tuple[str, str]:
    """Lines of the same are judged together: a charge, and what was taken back of it."""
    kind = candidate.line.type
    return candidate.matched or f" {candidate.line.line_no}", "charge" if kind == "capture_reversal" else kind


def _lines(candidates: Iterable[Candidate], under_way: dict[int, Candidate]) -> Iterator[Line]:
    for candidate in candidates:
        under_way[candidate.line.line_no] = candidate
        line = candidate.line
        yield structs.replace(line, fee=0) if is_exchanged(line) else line  # its fee is in the other currency


def _expected(candidate: Candidate) -> Expected | str:
    """What the line should say, or the class of a line that nothing can be expected of."""
    kind, status = candidate.line.type, candidate.status
    if kind in _UNBOOKED:
        return _UNBOOKED[kind]
    if kind == "payout_reversal" and candidate.matched is not None:
        return "payout_returned"
    if candidate.matched is None or candidate.amount is None or candidate.expected_currency is None:
        return "orphan"
    if status in _OPEN:
        return "waiting"
    if kind in ATTEMPT_TYPES and not _is_moved(kind, status, came_back=bool(candidate.came_back)):
        return "orphan"  # the processor did what our record denies
    is_out = kind in ("refund", "dispute")
    return Expected(
        amount=-candidate.amount if is_out else candidate.amount,
        currency=candidate.expected_currency,
        fee=None if is_exchanged(candidate.line) else candidate.expected_fee,
        is_fee_of_line=candidate.is_fee_of_line,
    )


def _is_moved(kind: str, status: str | None, *, came_back: bool) -> bool:
    """Whether our record says that this money moved."""
    if kind == "refund_reversal":
        return status == "failed" and came_back
    return status in ("captured", "refunded") or (kind == "refund" and came_back)


def _plain(processor: str, report_id: str, candidate: Candidate, line_class: str) -> Judged:
    """A line without a verdict: waiting, or for a person."""
    line = candidate.line
    amount = abs(line.gross)
    is_returned = line_class == "payout_returned"
    is_in_suspense = line_class == "unknown_line" and line.net != 0
    row = line_row(
        processor,
        report_id,
        candidate,
        line_class,
        difference=0 if line_class == "waiting" else amount,
        posted=(candidate.amount, 0, 0) if is_returned else (line.net, 0, 0) if is_in_suspense else None,
        posting="due" if is_in_suspense or (is_returned and candidate.amount) else "none",
    )
    if line_class == "waiting":
        return Judged(row=row)
    return Judged(row=row, found=found_of(candidate, line_class, amount))


def _judged(processor: str, report_id: str, candidate: Candidate, verdict: Verdict) -> Judged:
    line = verdict.line
    exchange = None
    if is_exchanged(line) and verdict.line_class in PAYING:
        exchange = exchange_row(processor, report_id, candidate)
    is_posted = verdict.posting is not None and line.type in _POSTED_TYPES
    row = line_row(
        processor,
        report_id,
        candidate,
        verdict.line_class,
        difference=verdict.difference,
        finding=verdict.posting if is_posted else None,
        posted=(verdict.posted_gross, verdict.posted_fee, verdict.posted_difference) if is_posted else None,
        posting="due" if is_posted else "none",
    )
    ends = candidate.matched if verdict.settles_rest else None
    if verdict.line_class == "matched":
        return Judged(row=row, exchange=exchange, ends_shortage_of=ends)
    found = found_of(candidate, verdict.line_class, verdict.difference)
    return Judged(row=row, exchange=exchange, found=found, ends_shortage_of=ends)


def _keep(connection: psycopg.Connection, processor: str, report_id: str, batch: list[Judged]) -> None:
    exchanges = [judged.exchange for judged in batch if judged.exchange is not None]
    keep_lines(connection, processor, report_id, [*(judged.row for judged in batch), *exchanges])
    if ended := [judged.ends_shortage_of for judged in batch if judged.ends_shortage_of]:
        resolve_cases(connection, execute(connection, "shortages_end", processor=processor, matched=ended))
    keep_found(connection, processor, report_id, _still_wrong(batch))


def _still_wrong(batch: list[Judged]) -> list[Found]:
    """What is wrong after all lines of the batch: a shortage that a later one of them ended is not."""
    found: list[Found] = []
    for judged in batch:
        if (ended := judged.ends_shortage_of) is not None:
            found = [f for f in found if not (f.matched == ended and f.found_class in ("short", "over"))]
        if judged.found is not None:
            found.append(judged.found)
    return found
