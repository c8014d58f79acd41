"""Settlement rounds: processors' reports with lies planted in them, and what reconciliation must say about each.

A round pays victims of its own, plants one fault in the line of each and some in the report as a whole, and remembers
what has to be found: those, in their classes, and nothing else. What is settled over two days is short between them.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain, cycle
from typing import TYPE_CHECKING, Any, Final

from compose.proof import limits
from compose.proof.soak.waiting import Unexpected
from reconciliation.payments.settlement.run import reconcile
from schemas.errors import PlatformError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from compose.proof.soak.payments.processor import Processor
    from reconciliation.payments.settlement.file_result import Discrepancy
    from reconciliation.payments.settlement.run import ReconcileReport, ReconcileSettings
    from reconciliation.payments.settlement.sources import GivenFile

#: class, reference, minor units, currency: what a discrepancy is known by
Finding = tuple[str, str, int, str | None]

#: faults of one line: the amount by which it is off (None: the whole amount, 0: nothing is wrong in the end)
LINE_FAULTS: Final[dict[str, int | None]] = {
    "short": 7,
    "over": 9,
    "missing": None,
    "duplicate": None,
    "sign_flipped": None,
    "split": 0,
    "split_over_days": 0,
}
#: faults of whole reports, one report after the other; what is truncated comes again, or its end were lost
REPORT_FAULTS: Final = (
    ("other_timezone", "resent"),
    ("payout_failed",),
    ("truncated", "resent"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A payment whose line is to be wrong."""

    intent_id: str
    processor: str
    amount: int
    currency: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Payout:
    """What a report says was paid out, and in which line."""

    name: str
    line_id: str
    amount: int
    currency: str


@dataclass(slots=True)
class Books:
    """What was planted and what was found, over all rounds of all processors."""

    planted: list[Finding] = field(default_factory=list)
    halves: list[Finding] = field(default_factory=list)  # charges whose other half the next report brings
    faults: Counter[str] = field(default_factory=Counter)
    repaired: set[Finding] = field(default_factory=set)  # by two persons: explained since
    found: list[Discrepancy] = field(default_factory=list)  # open after the last run
    matched: int = 0
    runs: int = 0
    payouts: dict[str, Payout] = field(default_factory=dict)  # announced and not returned, by name
    problems: list[str] = field(default_factory=list)

    def compare(self) -> list[str]:
        """Everything that was planted and is not there in its class, and everything that nobody planted."""
        never = [kind for kind in (*LINE_FAULTS, *chain(*REPORT_FAULTS)) if not self.faults[kind]]
        wanted, there = Counter(self.planted) - Counter(self.repaired), Counter(map(finding, self.found))
        lost = [f"planted and not found: {one}" for one in sorted((wanted - there).elements(), key=str)]
        lost += [f"never planted: {kind}" for kind in never]
        return lost + [f"found and not planted: {one}" for one in sorted((there - wanted).elements(), key=str)]

    def halves_not_found(self) -> list[str]:
        """Charges of which a report had only one half, and that are not short by the other one."""
        there = set(map(finding, self.found))
        return [f"settled by half and not found: {one}" for one in self.halves if one not in there]


def finding(one: Discrepancy) -> Finding:
    """What a discrepancy is known by. About a whole report there is no amount."""
    return one.found_class, one.reference, one.amount, one.currency


class Settlements:
    """The rounds over all processors. ``pay`` makes that many plain payments, which have brought their money then."""

    def __init__(
        self, processors: Mapping[str, Processor], pay: Callable[[int], Awaitable[list[Victim]]], books: Books
    ) -> None:
        self._processors = processors
        self._pay = pay
        self._books = books
        self._kinds = cycle(LINE_FAULTS)
        self._wholes = cycle(REPORT_FAULTS)

    async def report(self) -> None:
        """One round: victims are paid, then every processor reports all that is unsettled, with lies."""
        victims = await self._pay(limits.SOAK_VICTIMS)
        await self._pay_younger({one.processor for one in victims})
        for name, processor in self._processors.items():
            await self._report(processor, [one for one in victims if one.processor == name])

    async def _pay_younger(self, processors: set[str]) -> None:
        """A charge is missing when a younger one of its processor is settled: these are, once none of them is avoided.

        A processor that was away is avoided by routing while its failures count, for a minute.
        """
        for again in range(limits.SOAK_YOUNGER_TRIES_MAX):
            if again:
                await asyncio.sleep(limits.SOAK_YOUNGER_PAUSE_S)
            processors = processors - {one.processor for one in await self._pay(limits.SOAK_VICTIMS)}
            if not processors:
                return
        self._books.problems += [f"no charge came to {name} after its victims" for name in sorted(processors)]

    async def rest(self) -> None:
        """The reports of the next day, without a lie: whatever was settled by half is whole."""
        for processor in self._processors.values():
            await self._note_payouts(processor, (await processor.settle([]))[-1])
        self._books.halves.clear()

    async def _report(self, processor: Processor, victims: list[Victim]) -> None:
        whole = next(self._wholes) if victims else ()
        faults: list[dict[str, Any]] = [{"kind": kind} for kind in whole]
        for victim, kind in zip(victims, self._kinds, strict=False):  # in this order: no kind is drawn for nobody
            off = LINE_FAULTS[kind]
            faults.append({"kind": kind, "reference": victim.intent_id, "amount": off or 1})
            if kind == "split_over_days":
                rest = victim.amount - victim.amount // 2
                self._books.halves.append(("short", victim.intent_id, rest, victim.currency))
            elif off != 0:
                self._books.planted.append((kind, victim.intent_id, off or victim.amount, victim.currency))
        reports = await processor.settle(faults)
        self._books.faults.update(fault["kind"] for fault in faults)
        if "truncated" in whole:
            self._books.planted.append(("truncated_report", reports[0], 0, None))
        await self._note_payouts(processor, reports[-1])

    async def _note_payouts(self, processor: Processor, report_id: str) -> None:
        for line in await processor.report(report_id):
            name, amount, currency = line["provider_ref"], -int(line["gross"]), line["currency"]
            if line["type"] == "payout":
                payout = Payout(name=name, line_id=line["line_id"], amount=amount, currency=currency)
                self._books.payouts[name] = payout
            elif line["type"] == "payout_reversal":
                del self._books.payouts[name]
                self._books.planted.append(("payout_returned", name, abs(amount), currency))


async def run_reconcile(settings: ReconcileSettings, books: Books, files: Sequence[GivenFile] = ()) -> ReconcileReport:
    """One run of ``millrace reconcile``, again until everything that is due is decided, as its user would.

    A server that went away meanwhile is said in a line, and the run is done again too.
    """
    ends_at = time.monotonic() + limits.SOAK_PERSISTENCE_S
    while (report := await _whole_run(settings, files)) is None:
        if time.monotonic() > ends_at:
            raise Unexpected(f"reconcile: something is unavailable or undecided for {limits.SOAK_PERSISTENCE_S} s")
        await asyncio.sleep(limits.SOAK_POLL_MS / 1_000)
    books.runs += 1
    books.found, books.matched = report.discrepancies, report.matched
    if report.posted.refused:
        books.problems.append(f"reconcile: owners refused {report.posted.refused} postings")
    return report


async def _whole_run(settings: ReconcileSettings, files: Sequence[GivenFile]) -> ReconcileReport | None:
    try:
        report = await asyncio.to_thread(reconcile, settings, list(files))
    except Unavailable:
        return None
    except PlatformError as error:
        raise Unexpected(f"reconcile: {error}") from error
    return None if report.unavailable or report.posted.undecided else report


async def reconcile_twice(settings: ReconcileSettings, books: Books) -> None:
    """The last two runs: the second one must say the same and post nothing."""
    first = await run_reconcile(settings, books)
    again = await run_reconcile(settings, books)
    if again.new_lines or again.posted.decided:
        books.problems.append(f"a second reconcile took in {again.new_lines} lines, posted {again.posted.decided}")
    if again.discrepancies != first.discrepancies or again.matched != first.matched:
        books.problems.append("a second reconcile said something else")
