"""The proofs at the end of a soak: each compares two independent accounts of what happened, and names what differs."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Final

import psycopg

from compose.operator_access import check_settings, operator_connection
from compose.proof import limits
from compose.proof.kit.evidence import gather
from compose.proof.soak.outages import died_alone, missed, outages
from compose.proof.soak.payments.accounts import FROZEN_MERCHANT
from compose.proof.soak.payments.plans import MERCHANTS, WRONG_AMOUNT
from compose.proof.soak.payments.policy_proofs import accounts, risk, routing
from compose.proof.soak.proof import Proof, Verdict
from compose.settings.settings import load_settings
from reconciliation.audit.verify import verify
from reconciliation.check.run import run_check
from schemas.errors import PlatformError
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from compose.proof.soak.payments.run import Run

_QUERIES: Final = queries("compose.proof.soak.payments", "verdict.sql")


def prove(run: Run) -> Verdict:
    """Every proof, in the order in which a reader wants them."""
    disturbances = run.disturber.done if run.disturber else []
    return Verdict(
        seed=run.seed,
        figures=_figures(run),
        by_kind=dict(sorted(run.counts.by_kind.items())),
        disturbances=[str(one) for one in disturbances],
        outages=outages(disturbances, run.counts.answers),
        proofs=[proof for prove_one in _PROOFS for proof in _guarded(prove_one, run)],
    )


def _figures(run: Run) -> dict[str, int]:
    return {
        "payments": run.started,
        "commands": run.counts.commands,
        "acknowledged": run.acknowledged.count,
        "refused": run.counts.refused,
        "answers_lost": run.counts.answers_lost,
        "duplicates": run.counts.duplicates,
        "webhooks_taken": run.shop.deliveries,
        "lines_matched": run.books.matched,
    }


def _guarded(prove_one: Callable[[Run], Iterator[Proof]], run: Run) -> Iterator[Proof]:
    """A proof that cannot be carried out proves nothing: that is a problem too."""
    try:
        yield from prove_one(run)
    except (PlatformError, psycopg.Error, OSError, ValueError) as error:
        name = prove_one.__name__.strip("_").replace("_", " ")
        yield Proof(name=name, says="could not be carried out", problems=[f"{name}: {error}"])


def _payments(run: Run) -> Iterator[Proof]:
    with psycopg.connect(run.stack.settings.addresses().postgres_reader_dsn) as connection:
        rows = connection.execute(_QUERIES["payments"], {"intents": list(run.made)}).fetchall()
    found = {intent_id: tuple(rest) for intent_id, *rest in rows}
    problems = list(run.problems)
    for intent_id, plan in run.made.items():
        wanted = (plan.state, plan.received, plan.refunded, plan.lost)
        if found.get(intent_id) != wanted:
            problems.append(f"{plan.kind.name} ({intent_id}): ended {found.get(intent_id)}, must be {wanted}")
    says = f"{len(run.made)} payments of {len(run.counts.by_kind)} kinds"
    yield Proof(name="every payment ended as planned", says=says, problems=problems)


def _disturbed(run: Run) -> Iterator[Proof]:
    done = run.disturber.done if run.disturber else []
    there = list(run.disturber.there().values()) if run.disturber else []
    how, names = Counter(one.how for one in done), {name for one in done for name in one.ended}
    counts = f"{how['killed']} kills, {how['killed together']} of several at once, {how['shut down']} shutdowns"
    yield Proof(
        name="every process was killed and came back",
        says=f"{counts} over {len(names)} processes, {how['frozen']} freezes of owners",
        problems=missed(there, done, run.counts.answers),
    )
    yield Proof(
        name="nothing died that was not killed",
        says=f"{sum(process.restarts for process in there)} restarts of {len(there)} processes",
        problems=died_alone(there, done),
    )


def _check(run: Run) -> Iterator[Proof]:
    report = run_check(check_settings(load_settings(), run.acknowledged.path))
    gaps = [f"invariant {one.id}: {row}" for one in report.invariants for row in one.sample]
    gaps += [f"invariant {one.id}: {one.note}" for one in report.invariants if one.gaps and not one.sample]
    acknowledged = [gap for gap in gaps if gap.startswith("invariant 20:")]
    yield Proof(
        name="what was acknowledged exists",
        says=f"{run.acknowledged.count} answers that said committed",
        problems=acknowledged,
    )
    yield Proof(
        name="millrace check finds no gap",
        says=f"{len(report.invariants)} invariants",
        problems=[gap for gap in gaps if gap not in acknowledged],
    )


def _books(run: Run) -> Iterator[Proof]:
    """What waits for a person is in the processor's book alone, by one minor unit more than was asked."""
    addresses = run.stack.settings.addresses()
    with psycopg.connect(addresses.postgres_reader_dsn) as connection:
        reviewed = connection.execute(_QUERIES["under_review"]).fetchall()
    waiting = {operation_id for operation_id, _, _ in reviewed}
    wrong = sorted(intent_id for intent_id, plan in run.made.items() if plan.kind.card == WRONG_AMOUNT)
    evidence = gather(addresses)
    problems = [difference for difference in evidence.differences if difference.partition(":")[0] not in waiting]
    if sorted(intent_id for _, intent_id, _ in reviewed) != wrong:
        problems.append(f"{len(waiting)} operations wait for a person, must be {len(wrong)}")
    problems += [f"no case says that {operation_id} waits" for operation_id, _, has_case in reviewed if not has_case]
    effects = sum(line.book_count for line in evidence.book.values())
    says = f"{effects} effects at {len(addresses.simulator_urls)} processors, {len(waiting)} for a person"
    yield Proof(name="processors' books = ledger = ClickHouse", says=says, problems=problems)


def _settlement(run: Run) -> Iterator[Proof]:
    books = run.books
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(books.faults.items()))
    says = f"{len(books.planted)} planted, {len(books.found)} open after {books.runs} runs; {kinds}"
    yield Proof(name="every planted discrepancy found, no other", says=says, problems=books.problems + books.compare())


def _repairs(run: Run) -> Iterator[Proof]:
    done = run.operators
    counts = (done.posted, done.rejected, done.reversed) if done else (0, 0, 0)
    with operator_connection() as connection:
        audited = verify(connection)
    problems = [] if all(counts) else [f"posted, rejected and reversed repairs: {counts}"]
    problems += [] if audited.reason is None else [f"the audit log: {audited.reason}"]
    says = f"{counts[0]} posted, {counts[1]} rejected, {counts[2]} taken back; {audited.rows} rows of the audit log"
    yield Proof(name="two persons repaired, and the record of it is whole", says=says, problems=problems)


def _webhooks(run: Run) -> Iterator[Proof]:
    missing = _untold(run)
    ends_at = time.monotonic() + limits.SOAK_DELIVERY_WAIT_S
    while missing and time.monotonic() < ends_at:
        time.sleep(limits.SOAK_POLL_MS / 1_000)
        missing = _untold(run)
    problems = [f"never told: {name} version {version}" for name, version in sorted(missing)]
    says = f"{run.shop.deliveries} deliveries, {len(run.shop.refused)} refused at first"
    yield Proof(
        name="merchants were told everything, signed, in order",
        says=says,
        problems=run.shop.problems + run.shop.out_of_order() + problems,
    )


def _untold(run: Run) -> set[tuple[str, int]]:
    missing: set[tuple[str, int]] = set()
    with psycopg.connect(run.stack.settings.addresses().postgres_reader_dsn) as connection:
        for merchant in (*MERCHANTS, FROZEN_MERCHANT):
            rows = connection.execute(_QUERIES["told"], {"merchant": merchant}).fetchall()
            missing |= {(name, version) for name, version in rows} - run.shop.places(merchant)
    return missing


_PROOFS: Final = (
    *(_payments, _disturbed, _check, _books, _settlement),
    *(risk, routing, accounts, _repairs, _webhooks),
)
