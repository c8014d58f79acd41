"""A settlement with planted breaks, and ``millrace reconcile``, which must find them, all of them and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import httpx

from compose.operator_access import ROLE
from compose.proof import limits
from compose.proof.demo.acts import CURRENCY, Act
from reconciliation.payments.settlement.run import ReconcileSettings, reconcile
from schemas.errors import PlatformError
from schemas.senders import RECONCILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from compose.settings.settings import Settings
    from reconciliation.payments.settlement.file_result import Discrepancy
    from reconciliation.payments.settlement.run import ReconcileReport

PROCESSOR: Final = "simulator"


@dataclass(frozen=True, slots=True)
class Break:
    """One line of the processor's report that is not what happened. ``amount`` is what reconciliation must miss."""

    kind: str
    says: str
    payment: Act
    amount: int


@dataclass(slots=True)
class Settlement:
    """What was planted, what was found, and what is not as it must be."""

    planted: list[Break]
    matched: int = 0
    found: dict[str, Discrepancy] = field(default_factory=dict)  # by payment
    problems: list[str] = field(default_factory=list)

    @property
    def breaks_found(self) -> int:
        """How many of the planted breaks were found, whatever else was."""
        return sum(one.payment.intent_id in self.found for one in self.planted)


def breaks() -> list[Break]:
    """Four payments, each to be reported wrongly in a way of its own."""

    def one(kind: str, says: str, amount: int, off: int, *posts: str) -> Break:
        return Break(kind, says, Act(kind, says, amount, ("capture", *posts)), off)

    return [
        one("short", "0.07 less than was captured", 2_000, 7, "settled", "settlement_short"),
        one("missing", "no line at all", 2_001, 2_001),
        one("duplicate", "the same line twice", 2_002, 2_002, "settled", "settlement_duplicate", "settlement_fee"),
        one("sign_flipped", "taken instead of paid", 2_003, 2_003),
    ]


def settle_and_reconcile(settings: Settings, planted: list[Break]) -> Settlement:
    """Lets the processor report everything with the breaks in it, and reconciles twice."""
    done = Settlement(planted)
    addresses = settings.addresses()
    try:
        _report(addresses.processor_url, planted)
        given = ReconcileSettings(
            postgres_dsn=addresses.postgres_dsns[ROLE],
            kafka=settings.kafka_as(RECONCILE),
            processors={PROCESSOR: addresses.processor_url},
        )
        first = reconcile(given, [])
        again = reconcile(given, [])
    except (httpx.HTTPError, PlatformError) as error:
        done.problems.append(f"reconciliation: {str(error) or type(error).__name__}")
        return done
    done.matched = first.matched
    done.found = {one.reference: one for one in first.discrepancies}
    done.problems += compare(planted, first.discrepancies) + _unfinished(first)
    if again.new_lines or again.posted.decided or again.discrepancies != first.discrepancies:
        done.problems.append("reconciliation: a second run was not the same")
    return done


def compare(planted: Sequence[Break], found: Sequence[Discrepancy]) -> list[str]:
    """Every break that was not found as it was planted, and every finding that nobody planted."""
    wanted = {(one.kind, one.payment.intent_id, one.amount, CURRENCY) for one in planted}
    there = [(one.found_class, one.reference, one.amount, one.currency) for one in found]
    lost = [f"reconciliation: planted and not found: {one}" for one in sorted(wanted - set(there))]
    return lost + [f"reconciliation: found and not planted: {one}" for one in there if one not in wanted]


def _report(processor_url: str, planted: Sequence[Break]) -> None:
    faults = [{"kind": one.kind, "reference": one.payment.intent_id, "amount": one.amount} for one in planted]
    answer = httpx.post(f"{processor_url}/settlements", json={"faults": faults}, timeout=limits.DEMO_ACT_WAIT_S)
    answer.raise_for_status()


def _unfinished(report: ReconcileReport) -> list[str]:
    found = [f"reconciliation: {reason}" for reason in report.unavailable]
    if report.posted.undecided or report.posted.refused:
        found.append(f"reconciliation: {report.posted.undecided} undecided, {report.posted.refused} refused")
    return found
