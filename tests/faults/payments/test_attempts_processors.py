"""Two processors: an ill one delays nothing of the other's, and nothing is done twice when payments move over."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from schemas.payments import limits
from tests.eventually import becomes, eventually
from tests.freezing import freeze
from tests.worlds.payments.attempts_world import AttemptsWorld, new_attempt, next_attempt, world

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

__all__ = ["world"]
pytestmark = [pytest.mark.servers, pytest.mark.faults]
A, B = "simulator", "simulator_b"
_AWAY_WITHIN_S = 3 * limits.ATTEMPT_UNAVAILABLE_AFTER_S


@pytest.fixture(scope="module")
def processor_b(world: AttemptsWorld) -> Iterator[AttemptsWorld]:
    """The second processor and one worker for all tests; each starts the first processor itself."""
    world.start("simulator", instance=1)
    world.start("processor_worker")
    yield world
    world.end_all()


@dataclass
class First:
    """The first processor, which comes and goes; its book stays."""

    world: AttemptsWorld
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = self.world.start("simulator")

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """As it stands, stopped or not: it says nothing any more."""
        assert self.process is not None
        self.signal(signal.SIGKILL)
        self.world.end(self.process)
        self.process = None

    def end(self) -> None:
        if self.process is not None:
            self.signal(signal.SIGCONT)
            self.world.end(self.process)
            self.process = None


@pytest.fixture
def first(processor_b: AttemptsWorld) -> Iterator[First]:
    """It runs, and ends with the test."""
    processor = First(processor_b)
    processor.start()
    yield processor
    processor.end()


def of(processor: str, number: int, token: str = "tok_sim_approve") -> list[dict[str, Any]]:
    return [new_attempt(token, processor=processor) for _ in range(number)]


def is_told(world: AttemptsWorld, attempts: list[dict[str, Any]], status: str) -> bool:
    told = {f.payload["operation_id"] for f in world.all_facts() if f.payload["status"] == status}
    return all(attempt["operation_id"] in told for attempt in attempts)


def begun(world: AttemptsWorld, attempts: list[dict[str, Any]]) -> int:
    """How many were given to a call so far; also when those that hang have been given up since."""
    with world.database() as connection:
        query = "select count(*) from attempt_dispatch where operation_id = any(%s) and send_count > 0"
        names = [attempt["operation_id"] for attempt in attempts]
        return int(connection.execute(query, (names,)).fetchone()[0])  # type: ignore[index] # a count is a row


def test_a_processor_that_hangs_delays_no_call_of_the_other(processor_b: AttemptsWorld, first: First) -> None:
    """More calls than its bulkhead has places hang at the first; the second's payments are all done before any of them."""
    world = processor_b
    freeze(first.process.pid)
    hanging = of(A, 2 * limits.ATTEMPT_CALLS_IN_FLIGHT_MAX)
    world.publish(*hanging)
    full = limits.ATTEMPT_CALLS_IN_FLIGHT_MAX
    eventually(lambda: begun(world, hanging) >= full, what="its bulkhead is full")
    others = of(B, 50)
    world.publish(*others)
    eventually(lambda: is_told(world, others, "captured"), what="every payment at the second processor")
    assert not any(is_told(world, [attempt], "captured") for attempt in hanging)
    first.signal(signal.SIGCONT)
    eventually(lambda: is_told(world, hanging, "captured"), within_s=40, what="the first catches up")
    assert set(world.effects(A).values()) == {1}
    assert world.effects(A).keys() >= {attempt["operation_id"] for attempt in hanging}
    assert not world.effects(B).keys() & {attempt["operation_id"] for attempt in hanging}


def test_routers_are_told_how_processors_are(processor_b: AttemptsWorld, first: First) -> None:
    """Counts within the window; open while nobody answers; half open when a probe is answered, without any payment."""
    world = processor_b
    good, bad = of(B, 3), of(B, 2, "tok_sim_decline")
    world.publish(*good, *bad)  # what earlier tests did may leave the window meanwhile: nothing is subtracted

    def counted() -> dict[str, Any] | None:
        row = world.health(B)  # empty while the worker has said nothing for a while
        return row if row.get("succeeded", 0) >= len(good) and row["declined"] >= len(bad) else None

    told = eventually(counted)
    assert (told["breaker"], told["window_s"]) == ("closed", limits.PROCESSOR_HEALTH_WINDOW_S)
    first.end()
    lost = of(A, 1)  # one alone
    world.publish(*lost)
    told = eventually(lambda: (row := world.health(A)).get("breaker") == "open" and row)
    assert told["failed"] >= limits.ATTEMPT_BREAKER_OUTAGES_MIN
    eventually(lambda: is_told(world, lost, "failed"), within_s=_AWAY_WITHIN_S, what="given up")
    first.start()
    becomes(lambda: world.health(A).get("breaker"), "half_open")
    assert world.effects(A).keys().isdisjoint(a["operation_id"] for a in lost)
    world.publish(*(once := of(A, 1)))
    eventually(lambda: is_told(world, once, "captured"))
    becomes(lambda: world.health(A).get("breaker"), "closed")


def test_only_what_never_left_is_given_up_for_the_other_processor(processor_b: AttemptsWorld, first: First) -> None:
    """Trap: a timeout at A after its commit. Nothing frees that payment for B until A is definitive, however long A is away;
    what A never got has failed for good, is paid at B once, and never reaches A afterwards."""  # fmt: skip
    world = processor_b
    (doubtful,) = of(A, 1, "tok_sim_timeout_after_commit")
    world.publish(doubtful)
    becomes(lambda: world.effects(A)[doubtful["operation_id"]], 1)
    freeze(first.process.pid)  # it answers no query, however long this test takes to see the doubt
    world.fact(doubtful, "unknown")
    first.kill()
    never_sent = of(A, limits.ATTEMPT_BREAKER_FAILURES + 5)
    capture = new_attempt(processor=A, kind="capture", parent_ref="sim_x")  # only A can do it: it waits for A
    world.publish(*never_sent, capture)
    eventually(lambda: is_told(world, never_sent, "failed"), within_s=_AWAY_WITHIN_S, what="given up")
    failed = world.fact(never_sent[0], "failed")
    assert failed.payload["error_code"] == "processor_unavailable"
    assert set(world.statuses(doubtful)) == {"unknown"}
    assert world.statuses(capture) == []
    moved = [next_attempt(attempt, 2, processor=B) for attempt in never_sent]
    world.publish(*moved)
    eventually(lambda: is_told(world, moved, "captured"), what="paid at the other processor")
    first.start()
    world.fact(doubtful, "captured", within_s=40)
    world.fact(capture, "failed", within_s=40)  # its parent is made up: A refused it
    (last,) = of(A, 1)
    world.publish(last)
    world.fact(last, "captured")
    book_a, book_b = world.effects(A), world.effects(B)
    assert book_a[doubtful["operation_id"]] == 1
    assert [book_a[attempt["operation_id"]] for attempt in never_sent] == [0] * len(never_sent)
    assert [book_b[attempt["operation_id"]] for attempt in moved] == [1] * len(moved)
    for attempt in never_sent:
        assert set(world.statuses(attempt)) == {"failed"}
