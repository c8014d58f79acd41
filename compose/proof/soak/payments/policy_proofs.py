"""What published policies and freezes had to do: stop, ask, route, refuse; and payouts, of which each has one end."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import psycopg

from compose.proof.soak.payments.accounts import ENDS
from compose.proof.soak.payments.policies import ASSESSED, PINNED_CURRENCY, ROUTED_BY
from compose.proof.soak.proof import Proof
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from compose.proof.soak.payments.plans import Plan
    from compose.proof.soak.payments.run import Run

_QUERIES: Final = queries("compose.proof.soak.payments", "verdict.sql")
_FAILOVER: Final = re.compile(r"failover \d+ after ([^;]+)")


def risk(run: Run) -> Iterator[Proof]:
    """Every assessment that is more than a yes follows from a plan, and nobody was asked for what was stopped."""
    found: dict[str, list[tuple[str, ...]]] = {}
    with psycopg.connect(run.stack.settings.addresses().postgres_reader_dsn) as connection:
        for intent_id, *said in connection.execute(_QUERIES["assessments"]).fetchall():
            found.setdefault(intent_id, []).append(tuple(said))
        asked = {row[0] for row in connection.execute(_QUERIES["asked"], {"intents": list(run.made)}).fetchall()}
    counts = Counter(plan.kind.risk for plan in run.made.values() if plan.kind.risk)
    problems: list[str] = []
    for intent_id, plan in run.made.items():
        said = found.pop(intent_id, [])
        if said != ASSESSED[plan.kind.risk]:
            problems.append(f"{plan.kind.name} ({intent_id}): assessed {said}, must be {ASSESSED[plan.kind.risk]}")
        if plan.kind.risk in ("blocked", "rejected") and intent_id in asked:
            problems.append(f"{plan.kind.name} ({intent_id}): a processor was asked")
    problems += [f"{intent_id} was assessed {said}, and nobody planned it" for intent_id, said in found.items()]
    says = f"{counts['blocked']} blocked; a person approved {counts['approved']}, rejected {counts['rejected']}"
    yield Proof(name="risk rules stopped what they are about, nothing else", says=says, problems=problems)


class Charge(NamedTuple):
    """One charge as it was routed."""

    operation_id: str
    intent_id: str
    processor: str
    route: str | None
    is_pinned: bool  # of the currency that the second version pins

    @property
    def reason(self) -> str:
        """The version and the rule that chose its processor."""
        return (self.route or "").partition("; ")[0]

    @property
    def failed_at(self) -> str | None:
        """The processor that failed before, where this is a failover."""
        found = _FAILOVER.match((self.route or "").partition("; ")[2])
        return found and found[1]


def routing(run: Run) -> Iterator[Proof]:
    """Every charge names the version and the rule that routed it; every version and every processor served."""
    addresses = run.stack.settings.addresses()
    with psycopg.connect(addresses.postgres_reader_dsn) as connection:
        rows = connection.execute(_QUERIES["routes"], {"currency": PINNED_CURRENCY}).fetchall()
    yield judged_routes([Charge(*row) for row in rows], run.made, list(addresses.simulator_urls))


def judged_routes(charges: Iterable[Charge], made: Mapping[str, Plan], processors: Iterable[str]) -> Proof:
    """What the charges say of their routes, beside the plans. Pure.

    A refusal that the rules try elsewhere is a failover, unless the other processor is out: one must have been.
    """
    problems: list[str] = []
    served, routed = Counter[str](), Counter[str]()
    failed_over: list[str] = []
    for charge in charges:
        served[charge.processor] += 1
        routed[charge.reason] += 1
        is_failover = charge.failed_at is not None  # goes by the same rule, whatever version it is in by now
        failed_over += [charge.intent_id] if is_failover else []
        is_known = charge.reason in ROUTED_BY
        if not is_known or (charge.is_pinned not in ROUTED_BY[charge.reason] and not is_failover):
            problems.append(f"{charge.operation_id} went to {charge.processor} by {charge.route!r}")
        if charge.failed_at == charge.processor:
            problems.append(f"{charge.operation_id} went to {charge.processor} again, where it had failed")
    planned = {intent_id for intent_id, plan in made.items() if plan.kind.fails_over}
    as_planned = planned.intersection(failed_over)
    problems += [f"{name} served nothing" for name in processors if not served[name]]
    problems += [f"nothing was routed by {reason}" for reason in ROUTED_BY if not routed[reason]]
    problems += [] if as_planned else [f"none of {len(planned)} payments failed over whose plan makes a processor fail"]
    shares = ", ".join(f"{name} {count}" for name, count in sorted(served.items()))
    says = f"{shares}; {len(failed_over)} failovers, of {len(as_planned)} of the {len(planned)} payments planned so"
    return Proof(name="every charge was routed by a published rule", says=says, problems=problems)


def accounts(run: Run) -> Iterator[Proof]:
    """Payouts that were accepted exist once, as the bank or an operator told of them, and no other payout does."""
    payouts, freezer = run.payouts, run.freezer
    made = {one.id: one for one in payouts.made} if payouts else {}
    with psycopg.connect(run.stack.settings.addresses().postgres_reader_dsn) as connection:
        rows = connection.execute(_QUERIES["payouts"]).fetchall()
        frozen = [row[0] for row in connection.execute(_QUERIES["frozen"]).fetchall()]
    found = {payout_id: tuple(rest) for payout_id, *rest in rows}
    wanted = {one.id: (one.merchant, one.amount, one.currency, one.state) for one in made.values()}
    problems = [
        f"payout {name}: is {found.get(name)}, must be {wanted.get(name)}"
        for name in sorted(found.keys() | wanted.keys())
        if found.get(name) != wanted.get(name)
    ]
    ends = Counter(one.end for one in made.values())
    problems += [f"no payout ended as {end!r}" for end in ENDS if not ends[end]]
    problems += [f"{merchant} is still frozen" for merchant in frozen]
    problems += [] if freezer and freezer.freezes else ["no merchant was frozen"]
    says = (
        f"{len(made)} payouts ({', '.join(f'{end} {count}' for end, count in sorted(ends.items()))}), "
        f"{payouts.refused if payouts else 0} refused; {freezer.freezes if freezer else 0} freezes"
    )
    yield Proof(name="merchants were paid out what they had, and no frozen one", says=says, problems=problems)
