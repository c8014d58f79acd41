"""Takes one report in: staged, matched, judged and kept in one transaction, so that a kill leaves all of it or nothing.

Lines that any report brought before change nothing. Nothing is posted here: what owners have to be told is marked due.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from dataflows.payments.domain.fees import FeeSchedule, fee_minor
from reconciliation.payments.settlement.contracts import contracts_of, plain_bps, priced
from reconciliation.payments.settlement.judging import (
    Candidate,
    exchange_row,
    is_exchanged,
    judge_report,
    line_of,
    line_row,
)
from reconciliation.payments.settlement.line import Defect, UnreadableReport
from reconciliation.payments.settlement.matching import Settled
from reconciliation.payments.settlement.stage import stage_lines
from reconciliation.payments.settlement.store import Found, execute, found_table, keep_found, keep_lines, resolve_cases
from schemas.payments import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import psycopg

    from reconciliation.payments.settlement.line import Line, PlainRow

#: what the platform accrues of a capture; the fee of a line that pays several is split by it
FEE_BPS: Final = FeeSchedule().processor_bps


class ReportFile(Struct, frozen=True, kw_only=True):
    """One report to be taken in. ``is_complete_history``: fetched, like every report of that processor before it."""

    processor: str
    report_id: str
    sha256: bytes
    format: str
    is_complete_history: bool


class Taken(Struct, kw_only=True):
    """What came of it: lines that were new, and those of them that were matched."""

    lines: int
    matched: int
    state: Literal["taken_in", "truncated", "rejected"] = "taken_in"
    reason: str | None = None  # why not all of it was taken in


def take_in(
    connection: psycopg.Connection,
    report: ReportFile,
    lines: Iterable[Line | PlainRow | Defect],
    on_lines: Callable[[int], None] = lambda _: None,
) -> Taken:
    """The report with all its findings is kept, once. A report that cannot be read is kept as rejected."""
    try:
        with found_table(connection):
            return _take_in(connection, report, lines, on_lines)
    except UnreadableReport as problem:
        with found_table(connection):
            return _reject(connection, report, str(problem))


def rejected_before_resolve(connection: psycopg.Connection, subjects: list[str]) -> None:
    """A file that could not be read, as another format or by an earlier version, is taken in now."""
    with connection.transaction():
        resolve_cases(connection, execute(connection, "resolve_rejected", subjects=subjects))


def early_lines_wait(connection: psycopg.Connection) -> None:
    """Lines of disputes and of money that we did not know of wait to be judged again, once we do."""
    with connection.transaction():
        resolve_cases(connection, execute(connection, "early_lines_wait"))


def take_in_waiting(connection: psycopg.Connection, processor: str, report_id: str) -> Taken:
    """The lines of a report that waited for their attempt, or for their dispute, are judged again."""
    with found_table(connection):
        execute(connection, "stage_waiting", processor=processor, report_id=report_id)
        found = _match(connection, processor, report_id, {})
        report = ReportFile(processor=processor, report_id=report_id, sha256=b"", format="", is_complete_history=False)
        _keep_report(connection, report, found, counts_lines=False)
        return found.taken


class _Matched(Struct, frozen=True, kw_only=True):
    """What matching counted, and between which captures."""

    taken: Taken
    oldest_at: Any
    youngest_at: Any


def _take_in(
    connection: psycopg.Connection,
    report: ReportFile,
    lines: Iterable[Line | PlainRow | Defect],
    on_lines: Callable[[int], None],
) -> Taken:
    processor, report_id = report.processor, report.report_id
    # 1. Its lines, as they are read.
    defects: list[Defect] = []
    contracts = contracts_of(connection, processor)
    if plain_bps(contracts) is None:
        lines = priced(contracts, lines)
    stage_lines(connection, _readable(lines, defects), on_lines)
    execute(connection, "stage_earlier_names", processor=processor)
    execute(connection, "stage_number_repeats")
    connection.execute("analyze settlement_stage")
    # 2. What its payouts say, before the lines that are known already leave.
    batches = {(row[0], row[1]): (row[2], row[3]) for row in execute(connection, "batches_paid_out")}
    execute(connection, "stage_known_payouts", processor=processor)
    found = [_defect_found(report, defect) for defect in defects]
    found += [_changed_found(row) for row in execute(connection, "changed_lines", processor=processor)]
    execute(connection, "stage_forget_known", processor=processor)
    # 3. What each line tells of, and whether it says what it should.
    matched = _match(connection, processor, report_id, batches)
    # 4. The report itself.
    keep_found(connection, processor, report_id, found)
    for gone in ("unreadable_report", *(() if _is_cut_off(defects) else ("truncated_report",))):
        resolve_cases(
            connection, execute(connection, "resolve_about", found_class=gone, processor=processor, subject=report_id)
        )
    unread = [_defect_found(report, defect).subject for defect in defects]
    resolve_cases(
        connection, execute(connection, "resolve_read", processor=processor, report_id=report_id, unread=unread)
    )
    if _is_cut_off(defects):
        matched.taken.state, matched.taken.reason = "truncated", defects[-1].reason
    _keep_report(connection, report, matched)
    return matched.taken


def _match(
    connection: psycopg.Connection, processor: str, report_id: str, batches: dict[tuple[str, str], tuple[int, int]]
) -> _Matched:
    names = {"processor": processor, "fee_bps": plain_bps(contracts_of(connection, processor))}
    plain, *plain_span = _row(
        execute(connection, "candidates_sort", report_id=report_id, list_lines=limits.SETTLEMENT_COPY_LINES, **names)
    )
    connection.execute("analyze settlement_candidate")
    several = 0
    if _row(execute(connection, "loose_count"))[0]:
        execute(connection, "loose_by_provider_ref", **names)
        execute(connection, "loose_by_reference", **names)
        several = _match_sums(connection, processor, report_id)
    execute(connection, "disputes_match", processor=processor)
    others, *others_span = _row(execute(connection, "candidates_span"))
    payouts = _announce_payouts(connection, processor, report_id, batches)
    execute(connection, "payouts_match", processor=processor)
    judged = judge_report(connection, processor, report_id)
    resolve_cases(connection, execute(connection, "missing_arrived", processor=processor))
    reached = [at for at in (*plain_span, *others_span) if at is not None]
    return _Matched(
        taken=Taken(lines=plain + others + several, matched=plain + payouts + judged + several),
        oldest_at=min(reached, default=None),
        youngest_at=max(reached, default=None),
    )


def _match_sums(connection: psycopg.Connection, processor: str, report_id: str) -> int:
    """Lines that pay several captures of one payment at once: a row for the line, and one for each part."""
    sums = execute(connection, "loose_sums", processor=processor, parts_max=limits.SETTLEMENT_PARTS_MAX).fetchall()
    numbers = [row[0] for row in sums]
    lines = {row[0]: line_of(row) for row in execute(connection, "loose_lines", line_nos=numbers)}
    rows = []
    taken: set[str] = set()
    for number, operations, attempts, amounts in sums:
        if taken & set(operations):
            continue  # a second line for the same captures is judged like any other
        taken |= set(operations)
        line = lines.pop(number)
        rows.append(line_row(processor, report_id, _unmatched(line), "matched"))
        fees = [fee_minor(amount, FEE_BPS) for amount in amounts]
        fees[0] += line.fee - sum(fees)
        if is_exchanged(line):  # its fee is in the other currency, and booked there
            fees = [0] * len(fees)
            rows.append(exchange_row(processor, report_id, _unmatched(line)))
        for operation, attempt, amount, fee in zip(operations, attempts, amounts, fees, strict=True):
            part = _unmatched(line, matched=operation, intent_id=line.reference, attempt=attempt)
            rows.append(
                line_row(processor, report_id, part, "matched", finding="matched", posted=(amount, fee, 0),
                         posting="due", line_id=f"{line.line_id}/{attempt}", part_of=line.line_id)
            )  # fmt: skip
    keep_lines(connection, processor, report_id, rows)
    execute(connection, "candidate_drop", line_nos=[number for number in numbers if number not in lines])
    return len(numbers) - len(lines)


def _announce_payouts(
    connection: psycopg.Connection, processor: str, report_id: str, batches: dict[tuple[str, str], tuple[int, int]]
) -> int:
    """Payouts that are the sum of their batch are announced to the ledger; others are a person's."""
    rows, found, sound = [], [], 0
    for row in execute(connection, "payouts_of_report"):
        line = line_of(row)
        lines_net, paid = batches.get((line.batch or "", line.net_currency), (0, -1))
        candidate = _unmatched(line)
        if line.gross - line.fee != line.net:
            found.append(_payout_found(candidate, "does_not_foot", abs(line.gross - line.fee - line.net)))
        elif abs(lines_net) != paid:
            found.append(_payout_found(candidate, "payout_difference", abs(abs(lines_net) - paid)))
        else:
            towards_us = abs(line.net) if lines_net >= 0 else -abs(line.net)
            rows.append(
                line_row(processor, report_id, candidate, "announced", posted=(towards_us, 0, 0),
                         posting="due" if towards_us else "none")
            )  # fmt: skip
            sound += 1
            continue
        rows.append(line_row(processor, report_id, candidate, found[-1].found_class, difference=found[-1].amount))
    keep_lines(connection, processor, report_id, rows)
    keep_found(connection, processor, report_id, found)
    return sound


def _payout_found(candidate: Candidate, found_class: str, amount: int) -> Found:
    line = candidate.line
    return Found(
        subject=line.line_id,
        found_class=found_class,
        reference=candidate.reference,
        amount=amount,
        currency=line.currency,
        line_id=line.line_id,
        detail=f"{line.type} of {line.net} net",
    )


def _reject(connection: psycopg.Connection, report: ReportFile, reason: str) -> Taken:
    found = Found(
        subject=report.report_id,
        found_class="unreadable_report",
        reference=report.report_id,
        amount=0,
        detail=reason,
    )
    keep_found(connection, report.processor, report.report_id, [found])
    taken = Taken(lines=0, matched=0, state="rejected", reason=reason)
    nothing = _Matched(taken=taken, oldest_at=None, youngest_at=None)
    _keep_report(connection, report, nothing)
    return nothing.taken


def _keep_report(
    connection: psycopg.Connection,
    report: ReportFile,
    matched: _Matched,
    *,
    counts_lines: bool = True,
) -> None:
    execute(
        connection,
        "report_keep" if counts_lines else "report_recount",
        processor=report.processor,
        report_id=report.report_id,
        sha256=report.sha256,
        format=report.format,
        state=matched.taken.state,
        note=matched.taken.reason,
        is_complete_history=report.is_complete_history,
        lines=matched.taken.lines,
        matched=matched.taken.matched,
        oldest_at=matched.oldest_at,
        youngest_at=matched.youngest_at,
    )


def _readable(lines: Iterable[Line | PlainRow | Defect], defects: list[Defect]) -> Iterator[Line | PlainRow]:
    """The lines; defects are put aside, a bounded number of them."""
    for line in lines:
        if not isinstance(line, Defect):
            yield line
        elif len(defects) < limits.SETTLEMENT_DEFECTS_MAX or line.is_cut_off:
            defects.append(line)
        else:
            raise UnreadableReport(f"more than {limits.SETTLEMENT_DEFECTS_MAX} lines cannot be read")


def _is_cut_off(defects: list[Defect]) -> bool:
    return bool(defects) and defects[-1].is_cut_off


def _defect_found(report: ReportFile, defect: Defect) -> Found:
    place = f"{report.report_id}#{defect.line_no}"
    return Found(
        subject=report.report_id if defect.is_cut_off else place,
        found_class="truncated_report" if defect.is_cut_off else "unreadable_line",
        reference=report.report_id if defect.is_cut_off else place,
        amount=0,
        detail=f"line {defect.line_no} {defect.reason}",
    )


def _changed_found(row: tuple[Any, ...]) -> Found:
    number, line_id, kind, operation_id, reference, currency, gross, known, intent_id = row
    return Found(
        subject=line_id,
        found_class="changed_line",
        reference=intent_id or reference or operation_id or line_id,
        amount=abs(gross - known),
        currency=currency,
        line_id=line_id,
        detail=f"{kind} in line {number} says {gross} now and said {known} before",
    )


def _unmatched(
    line: Line, *, matched: str | None = None, intent_id: str | None = None, attempt: int | None = None
) -> Candidate:
    return Candidate(
        line=line,
        matched=matched,
        intent_id=intent_id,
        attempt=attempt,
        status=None,
        came_back=None,
        amount=None,
        expected_currency=None,
        expected_fee=None,
        settled=Settled(),
    )


def _row(aggregate: psycopg.Cursor) -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = aggregate.fetchone()
    assert row is not None  # noqa: S101 - an aggregate always has its row
    return row
