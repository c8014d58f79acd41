"""Before the broker is frozen, while it is, afterwards: what decisions took in each phase."""

from __future__ import annotations

import os
import signal
import threading
from array import array
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from compose.stack.errors import StackError
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from compose.proof.bench.world import World

#: a decision asks the store at most twice: what takes longer has waited for something else
WAITED_MS: Final = 2 * limits.LIMIT_STORE_TIMEOUT_S * 1_000

PHASES: Final = ("warming", "before", "during", "after")


class Plan(NamedTuple):
    """How long each phase lasts, and how much may be queued for Kafka."""

    outage_s: float
    around_s: float
    blocks_max: int

    def lengths_s(self) -> tuple[float, ...]:
        """Of the phases."""
        return (self.around_s, self.around_s, self.outage_s, self.around_s)


class Phases:
    """Which phase it is, and the latencies of each."""

    def __init__(self) -> None:
        self.now = 0
        self.samples = [array("d") for _ in PHASES]
        self.asked = array("q", [0] * len(PHASES))

    def took(self, began: int, seconds: float, decisions: int) -> None:
        """Of one call, in the phase in which it began: the outage's calls are those that were asked during it."""
        self.samples[began].append(seconds * 1_000)
        self.asked[began] += decisions

    @property
    def decided(self) -> int:
        """All decisions."""
        return sum(self.asked)

    def figures(self, lengths_s: Sequence[float]) -> dict[str, Any]:
        """Rate, percentiles and maximum of every phase that counts."""
        return {
            name: {"decisions": asked, "decisions_per_s": round(asked / length_s), **_latency(samples)}
            for name, asked, length_s, samples in list(zip(PHASES, self.asked, lengths_s, self.samples, strict=True))[
                1:
            ]
        }

    def waited(self) -> int:
        """Calls of the outage that took longer than any decision may without Kafka."""
        return int(np.count_nonzero(np.array(self.samples[PHASES.index("during")]) > WAITED_MS))


@contextmanager
def passing(world: World, plan: Plan, phases: Phases) -> Iterator[None]:
    """A thread that says when the next phase begins; the broker goes on whatever happens here."""
    broker = _broker(world)
    over = threading.Event()

    def pass_on() -> None:
        for at, length_s in enumerate(plan.lengths_s()):
            phases.now = at
            is_outage = PHASES[at] == "during"
            if is_outage:
                os.kill(broker, signal.SIGSTOP)
            try:
                over.wait(length_s)
            finally:
                if is_outage:
                    os.kill(broker, signal.SIGCONT)
        phases.now = len(PHASES)

    thread = threading.Thread(target=pass_on, name="phases")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _broker(world: World) -> int:
    from compose.supervise import launch  # noqa: PLC0415
    from compose.supervise.state import read_state  # noqa: PLC0415

    state = read_state(world.settings.the_home())
    if state is None:
        raise StackError("the benchmark's servers have ended")
    return int(next(s["pid"] for s in launch.world(world.settings, state)["services"] if s["name"] == "kafka"))


def _latency(samples: array[float]) -> dict[str, float]:
    if not samples:
        return {}
    found = np.percentile(np.array(samples), (50, 99, 99.9, 100))
    names = ("p50_ms", "p99_ms", "p999_ms", "max_ms")
    return {name: round(float(value), 3) for name, value in zip(names, found, strict=True)}
