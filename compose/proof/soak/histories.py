"""Histories beside kills: each is one thread that takes steps, while every process is killed in turn, then the proofs.

A history may be late meanwhile, and nothing else may be wrong; what it finds wrong is a problem of the run.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import httpx
import psycopg

from compose.operator_access import check_settings
from compose.proof import limits
from compose.proof.kit.acknowledged import Acknowledgements
from compose.proof.kit.patient_caller import CallRefused, NotInTime
from compose.proof.soak.disturbance import Disturber
from compose.proof.soak.outages import Answers, died_alone, missed, outages
from compose.proof.soak.proof import Proof, Verdict
from compose.settings.settings import load_settings
from compose.stack.errors import StackError
from reconciliation.check.run import run_check
from schemas.errors import PlatformError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from compose.proof.kit.narrator import Narrator
    from compose.proof.kit.own_stack import OwnStack
    from reconciliation.check.run import CheckSettings

_BROKEN: Final = (CallRefused, NotInTime, httpx.HTTPError, KeyError, ValueError)


@dataclass(slots=True)
class Told:
    """One history's thread, and what it came to."""

    seed: int
    has_begun: threading.Event = field(default_factory=threading.Event)
    kinds: Counter[str] = field(default_factory=Counter)
    compared: int = 0
    step: str = "the beginning"  # the one under way
    problems: list[str] = field(default_factory=list)

    def differs(self, what: str) -> None:
        """Notes a problem after the step under way."""
        self.problems.append(f"history {self.seed}, after {self.step}: {what}"[: limits.SOAK_PROBLEM_LENGTH_MAX])
        if len(self.problems) >= limits.SOAK_DIFFERENCES_MAX:
            raise CallRefused("too much differs to go on")


class Histories:
    """All of one soak, and who kills meanwhile. ``is_calm``: nothing is killed any more."""

    def __init__(self, stack: OwnStack, *, count: int, seed: int, frozen: Sequence[str], narrator: Narrator) -> None:
        self.stack = stack
        self.told = [Told(seed + n) for n in range(count)]
        self.is_calm = threading.Event()
        self._disturber = Disturber(stack, random.Random(seed), {}, narrator.say, frozen=frozen)
        self._seed, self._frozen, self._narrator = seed, frozen, narrator
        self._answers = Answers()
        self._problems: list[str] = []

    def run(self, seconds: float, live: Callable[[Told], None]) -> None:
        """Histories, each a call of ``live``, and kills for so long; then rest, until every history is at its end."""

        def guarded(one: Told) -> None:
            try:
                live(one)
            except _BROKEN as error:
                one.problems.append(f"history {one.seed}, {one.step}: {type(error).__name__}: {error}")
            finally:
                one.has_begun.set()

        threads = [threading.Thread(target=guarded, args=(one,), name=f"history-{one.seed}") for one in self.told]
        with self._narrator.busy(f"seed {self._seed}: {len(threads)} histories, kills for {seconds:.0f} s"):
            for thread in threads:
                thread.start()
            for one in self.told:  # what a killed process holds a lease on would outlive a short soak
                one.has_begun.wait(limits.SOAK_PERSISTENCE_S)
            try:
                asyncio.run(self._disturber.disturb(time.monotonic() + seconds))
                self._await_answers(threads)
            except (StackError, OSError) as error:
                self._problems.append(f"disturbances: {error}")
            finally:
                self.is_calm.set()
            while alive := [thread for thread in threads if thread.is_alive()]:
                self._tell()
                alive[0].join(limits.SOAK_PROGRESS_INTERVAL_S)

    def _await_answers(self, threads: Sequence[threading.Thread]) -> None:
        """Until a step was done that was begun after the last kill: one that was under way then says nothing of it."""
        until = time.monotonic() + limits.SOAK_PERSISTENCE_S
        for one in self._disturber.done[-1:]:
            while (
                self._answers.felt(one)[0] is None and time.monotonic() < until and any(t.is_alive() for t in threads)
            ):
                time.sleep(limits.SOAK_LOOK_S)

    def answered(self, sent_at: float) -> None:
        """A step that was begun then is done."""
        self._answers.note(sent_at, time.monotonic())

    def _tell(self) -> None:
        steps, wrong = sum(t.kinds.total() for t in self.told), sum(len(t.problems) for t in self.told)
        self._narrator.now(f"{steps} steps, {len(self._disturber.done)} processes disturbed, {wrong} problems")

    # --- afterwards ------------------------------------------------------------------------------------------

    def verdict(self, promise: str, figures: dict[str, int], own: Sequence[Proof]) -> Verdict:
        """All proofs. ``promise``: what no history found broken; ``own``: proofs of this soak alone."""
        done = self._disturber.done
        there = list(self._disturber.there().values())
        kinds = sum((t.kinds for t in self.told), Counter())
        compared = sum(t.compared for t in self.told)
        differs = [*self._problems, *(problem for t in self.told for problem in t.problems)]
        answered = missed(there, done, self._answers, frozen=self._frozen)
        proofs = [
            Proof(name=promise, says=f"{compared} times", problems=differs),
            *own,
            Proof(name="every process was killed and came back", says=f"{len(done)} times", problems=answered),
            Proof(
                name="nothing died that was not killed",
                says=f"{len(there)} processes",
                problems=died_alone(there, done),
            ),
            self._checked(),
        ]
        return Verdict(
            seed=self._seed,
            figures={"steps": kinds.total(), "compared": compared, **figures},
            by_kind=dict(sorted(kinds.items())),
            disturbances=[str(one) for one in done],
            outages=outages(done, self._answers),
            proofs=proofs,
        )

    def _checked(self) -> Proof:
        """Every invariant, once decisions have arrived and the sink is done: asked again until then."""
        until, gaps, count = time.monotonic() + limits.SOAK_SETTLE_WAIT_S, ["not asked"], 0
        acknowledged = Acknowledgements(self.stack.home / "acknowledged.ndjson")
        acknowledged.close()
        with self._narrator.busy("millrace check, until nothing is under way"):
            while gaps and time.monotonic() < until:
                try:
                    report = run_check(self._check_settings(acknowledged))
                except (PlatformError, psycopg.Error, OSError) as error:
                    gaps = [f"could not be carried out: {error}"]
                    continue
                count = len(report.invariants)
                gaps = [f"invariant {one.id}: {one.sample or one.note}" for one in report.invariants if one.gaps]
        return Proof(name="millrace check finds no gap", says=f"{count} invariants", problems=gaps)

    def _check_settings(self, acknowledged: Acknowledgements) -> CheckSettings:
        """What a check of this stack reads; where no processor runs, there is no book to read."""
        settings = check_settings(load_settings(), acknowledged.path)
        return settings if "simulator" in self.stack.settings.services else replace(settings, processor_urls={})
