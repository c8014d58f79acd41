"""Trap 1: two processors with books of their own, facts in any order and number, and at most one charge of a payer.

The world plays the processors: each attempt is carried out once or never, whenever it likes, and its facts come through
any door, at any time, again and again, with doubts in between. What a processor *did* stands in its book alone.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec import structs

from dataflows.payments.domain import commands
from dataflows.payments.domain.decision import Context, Decision, Payment
from dataflows.payments.domain.policies.in_force import Policies
from schemas.payments.policies.routing import Candidate, RoutingPolicy, RoutingRule
from schemas.payments.records import ProcessorAttempt
from schemas.records import Command
from tests.gate import examples
from tests.worlds.payments import payment_cases as cases

PROCESSORS: Final = ("simulator", "simulator_b")
RULE: Final = RoutingRule(
    name="both", candidates=tuple(Candidate(name) for name in PROCESSORS), retryable_declines=("issuer_unavailable",)
)
POLICY: Final = RoutingPolicy(version=1, rules=(RULE,), failovers_max=1)
CONTEXT: Final[Context] = structs.replace(cases.CONTEXT, policies=Policies(routing=POLICY))
CHARGES: Final = ("authorize", "purchase")
TAKEN: Final = {"authorize": "authorized", "purchase": "captured"}
REFUSED: Final = ("declined", "failed")
#: "carry out" an attempt, tell a doubt of it or the truth, lie about it, or let the merchant confirm again
ACTS: Final = ("carry out", "unknown", "pending", "truth", "truth", "lie", "confirm")
acts = st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 3)), max_size=30)
#: by the number of the attempt: what its processor makes of it, once it carries it out
fates = st.lists(st.sampled_from(["taken", "taken", "declined", "failed"]), min_size=12, max_size=12)


class World:
    """A payment, the two books, and what nobody but people can settle."""

    def __init__(self, capture: str, fates: list[str], *, honest: bool) -> None:
        self.fates, self.honest = fates, honest
        self.books: dict[str, dict[str, int]] = {name: {} for name in PROCESSORS}  # operation to amount taken
        self.carried_out: dict[int, str] = {}  # number of the attempt to its outcome
        self.cases: set[str] = set()  # operations whose facts an owner refused as contradictions
        self.posted: Counter[str] = Counter()
        self.confirms = 1
        self.payment = self._made(cases.create(capture=capture, method="tok_sim_a"), None)
        self.hear(cases.confirm())

    def act(self, what: str, ago: int) -> None:
        """One thing that may happen to the attempt of so many attempts ago."""
        number = self.payment.intent.latest_attempt - ago
        attempt = self.payment.attempts.get(number)
        if what == "confirm":
            if self.confirms < 3 and self.payment.intent.state == "requires_payment_method":
                self.confirms += 1
                self.hear(cases.confirm("tok_sim_b"))
        elif attempt is None or attempt.kind not in CHARGES:
            return
        elif what == "carry out":
            self.carry_out(attempt)
        elif what in ("unknown", "pending"):
            self.hear(cases.fact(self.payment, what, number=number))
        elif what == "truth" and number in self.carried_out:
            self.hear(self._fact_of(attempt, self.carried_out[number]))
        elif what == "lie" and not self.honest:
            self.hear(self._fact_of(attempt, "failed"))

    def carry_out(self, attempt: ProcessorAttempt) -> None:
        """Once, under its operation id, whatever was told of it before: a processor that lied may still execute it."""
        if attempt.attempt in self.carried_out:
            return
        fate = self.fates[attempt.attempt % len(self.fates)]
        if fate == "taken":
            self.books[attempt.processor][attempt.operation_id] = attempt.amount
        self.carried_out[attempt.attempt] = TAKEN[attempt.kind] if fate == "taken" else fate

    def hear(self, command: Command) -> None:
        """The owner's turn, with what must hold after each."""
        decision = commands.decide(self.payment, command, CONTEXT)
        if isinstance(decision, Decision):
            self._check_new(decision)
            self.payment = cases.apply(self.payment, decision)
            for posting in decision.postings:
                self.posted[posting.reference] += 1
        elif decision.code.startswith("contradicts_"):
            self.cases.add(str(command.payload["operation_id"]))
        live = [a for a in self.charges() if a.status not in REFUSED]
        assert len(live) <= 1, "invariant 9"

    def charges(self) -> list[ProcessorAttempt]:
        return [a for a in self.payment.attempts.values() if a.kind in CHARGES]

    def _check_new(self, decision: Decision) -> None:
        """A further charge only when each one before was refused for good, as of this very commit."""
        started = decision.attempt
        if started is None or started.attempt in self.payment.attempts or started.kind not in CHARGES:
            return
        before = {a.attempt: a.status for a in self.charges()}
        if decision.caused_by is not None:
            before[decision.caused_by.attempt] = decision.caused_by.status
            assert started.processor != decision.caused_by.processor
            event("failed over")
        assert set(before.values()) <= set(REFUSED), before

    def _fact_of(self, attempt: ProcessorAttempt, status: str) -> Command:
        code = "issuer_unavailable" if status == "declined" and attempt.attempt % 2 else None
        return cases.fact(self.payment, status, number=attempt.attempt, error_code=code)

    def _made(self, command: Command, payment: Payment | None) -> Payment:
        decision: Any = commands.decide(payment, command, CONTEXT)
        return cases.apply(payment, decision)

    def end(self) -> None:
        """Everything is carried out that we ever sent, and told: a webhook comes at last."""
        told: set[int] = set()
        while missing := [a for a in self.charges() if a.attempt not in told]:
            for attempt in missing:
                self.carry_out(attempt)
                self.hear(self._fact_of(attempt, self.carried_out[attempt.attempt]))
                told.add(attempt.attempt)


@settings(max_examples=examples(75, 300), deadline=None)
@given(st.sampled_from(["automatic", "manual"]), fates, acts)
def test_processors_that_say_failed_only_of_what_they_never_do_charge_once_at_most(
    capture: str, fates: list[str], history: list[tuple[str, int]]
) -> None:
    """Whatever is lost, late or told twice: all books together hold one charge, and the ledger holds the same one."""
    world = World(capture, fates, honest=True)
    for step in history:
        world.act(*step)
    world.end()
    taken = [operation for book in world.books.values() for operation in book]
    assert len(taken) <= 1
    assert not world.cases
    assert sorted(world.posted) == [f"{o}:{'capture' if capture == 'automatic' else 'authorize'}" for o in taken]
    assert (world.payment.intent.amount_received or world.payment.intent.amount_capturable) == cases.AMOUNT * len(taken)


@settings(max_examples=examples(75, 300), deadline=None)
@given(st.sampled_from(["automatic", "manual"]), fates, acts)
def test_no_charge_of_a_processor_that_lied_goes_unnoticed(
    capture: str, fates: list[str], history: list[tuple[str, int]]
) -> None:
    """It says failed and charges after all: the ledger has it, once, or a person has a case about it."""
    world = World(capture, fates, honest=False)
    for step in history:
        world.act(*step)
    world.end()
    kind = "capture" if capture == "automatic" else "authorize"
    for processor, book in world.books.items():
        for operation in book:
            attempt = next(a for a in world.charges() if a.operation_id == operation)
            assert attempt.processor == processor
            assert world.posted[f"{operation}:{kind}"] + (operation in world.cases) >= 1
            assert world.posted[f"{operation}:{kind}"] == (attempt.status == TAKEN[attempt.kind])
    books: Counter[str] = sum((Counter(book) for book in world.books.values()), Counter())
    in_ledger = world.payment.intent.amount_received + world.payment.intent.amount_capturable
    assert sum(books.values()) == in_ledger + sum(n for o, n in books.items() if not world.posted[f"{o}:{kind}"])
    assert max(world.posted.values(), default=0) <= 1, "a fact posts once"
    event(f"cases {min(len(world.cases), 2)}")
