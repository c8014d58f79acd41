"""The soak of social posts: random histories, each beside its reference, while every process is killed in turn.

A history is one thread: it takes a step, asks again until it is decided, and compares every surface. What fan-out
brings may be late meanwhile and nothing else may; in the end homes are exact, decisions have arrived, nothing is a gap.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
import uuid
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
from compose.proof.soak.proof import Proof
from compose.proof.soak.verdict import Verdict
from compose.proof.social.client import SocialClient
from compose.proof.social.endings import Endings
from compose.proof.social.history import History
from compose.proof.social.surfaces import Surfaces
from compose.settings.settings import load_settings
from compose.stack.errors import StackError
from ingress.identity.issuer import KeyFolder
from reconciliation.check.run import run_check
from schemas.errors import PlatformError
from schemas.social import limits as social_limits

if TYPE_CHECKING:
    from compose.proof.kit.narrator import Narrator
    from compose.proof.kit.own_stack import OwnStack
    from reconciliation.check.run import CheckSettings

#: what social posts need; their owners and workers come by themselves
SERVICES: Final = ("clickhouse_sink", "social_media", "ingress")
_OWNER: Final = "social_owner"
_USERS: Final = 4
_MEDIA: Final = 4
_ERASURES: Final = 3  # of one history
_DIFFERENCES_MAX: Final = 5  # of one history: then it has failed, and goes on no further
_BROKEN: Final = (CallRefused, NotInTime, httpx.HTTPError, KeyError, ValueError)


@dataclass(slots=True)
class _Told:
    """One history's thread, and what it came to."""

    seed: int
    has_begun: threading.Event = field(default_factory=threading.Event)
    kinds: Counter[str] = field(default_factory=Counter)
    compared: int = 0
    homes: int = 0
    erasures: int = 0
    problems: list[str] = field(default_factory=list)


def soak(stack: OwnStack, *, minutes: float, rate: float, seed: int, narrator: Narrator) -> Verdict:
    """Runs the whole soak on a stack that is ready. ``rate``: how many histories go on at once."""
    disturber = Disturber(stack, random.Random(seed), {}, narrator.say, frozen=_OWNER)
    return _Soak(stack, disturber, seed, int(rate), narrator).run(minutes * 60)


class _Soak:
    """Everything that goes on at once."""

    def __init__(self, stack: OwnStack, disturber: Disturber, seed: int, histories: int, narrator: Narrator) -> None:
        self._stack, self._disturber, self._seed, self._narrator = stack, disturber, seed, narrator
        self._told = [_Told(seed + n) for n in range(histories)]
        self._answers = Answers()
        self._is_calm = threading.Event()  # nothing is killed any more
        self._problems: list[str] = []

    def run(self, seconds: float) -> Verdict:
        """Histories and kills for so long, then rest, then the proofs."""
        threads = [threading.Thread(target=self._live, args=(one,), name=f"history-{one.seed}") for one in self._told]
        with self._narrator.busy(f"seed {self._seed}: {len(threads)} histories, kills for {seconds:.0f} s"):
            for thread in threads:
                thread.start()
            for one in self._told:  # a killed scanner's lease outlives a short soak: media are there before the kills
                one.has_begun.wait(limits.SOAK_PERSISTENCE_S)
            try:
                asyncio.run(self._disturber.disturb(time.monotonic() + seconds))
            except (StackError, OSError) as error:
                self._problems.append(f"disturbances: {error}")
            finally:
                self._is_calm.set()
            while any(thread.is_alive() for thread in threads):
                self._tell()
                threads[0].join(limits.SOAK_PROGRESS_INTERVAL_S)
                for thread in threads:
                    thread.join(limits.SOAK_POLL_MS / 1_000)
        return self._verdict()

    def _live(self, told: _Told) -> None:
        """One history from its first step to its peace. What goes wrong is a problem of the run, not its end."""
        keys, base_url = KeyFolder(self._stack.home / "keys"), self._stack.world["base_url"]
        with httpx.Client(base_url=base_url, timeout=limits.SOAK_CALL_WAIT_S, trust_env=False) as http:

            def user(*scopes: str) -> SocialClient:
                name = f"u_soak_{uuid.uuid4().hex[:12]}"
                return SocialClient(http, keys, name, scopes, persist_s=limits.SOAK_PERSISTENCE_S)

            step = "the beginning"
            try:
                history = History([user() for _ in range(_USERS)], user("moderator"), told.seed, _MEDIA)
                endings = Endings(history, user("moderator"), user, _ERASURES)
                surfaces = Surfaces(history, cached_s=social_limits.MEDIA_PUBLIC_AGE_S)
                told.has_begun.set()
                while not self._is_calm.is_set():
                    sent_at = time.monotonic()
                    step = history.step()
                    self._answers.note(sent_at, time.monotonic())
                    told.kinds[step.partition(" ")[0]] += 1
                    self._compare(told, surfaces, step)
                step = "peace"
                history.make_peace()
                self._compare(told, surfaces, step)
                for name, one in history.users.items():
                    wanted = sorted(history.model.home(name))
                    one.becomes(f"the home of {name}", lambda one=one: sorted(one.home), wanted)  # type: ignore[misc]
                    told.homes += 1
                step = "the erasures"
                endings.prove()
                told.erasures = len(endings.erased)
            except _BROKEN as error:
                told.has_begun.set()
                told.problems.append(f"history {told.seed}, {step}: {type(error).__name__}: {error}")

    @staticmethod
    def _compare(told: _Told, surfaces: Surfaces, step: str) -> None:
        found = surfaces.differ()
        told.compared += 1
        told.problems += [f"history {told.seed}, after {step}: {where}: {what}"[:500] for where, what in found.items()]
        if len(told.problems) >= _DIFFERENCES_MAX:
            raise CallRefused("too much differs to go on")

    def _tell(self) -> None:
        steps, wrong = sum(t.kinds.total() for t in self._told), sum(len(t.problems) for t in self._told)
        self._narrator.now(f"{steps} steps, {len(self._disturber.done)} processes disturbed, {wrong} problems")

    # --- afterwards ------------------------------------------------------------------------------------------

    def _verdict(self) -> Verdict:
        done, told = self._disturber.done, self._told
        there = list(self._disturber.there().values())
        kinds = sum((t.kinds for t in told), Counter())
        steps, compared, homes = kinds.total(), sum(t.compared for t in told), sum(t.homes for t in told)
        erasures = sum(t.erasures for t in told)
        differs = [*self._problems, *(problem for t in told for problem in t.problems)]
        missing = [] if homes == len(told) * _USERS else [f"{homes} homes were exact, must be {len(told) * _USERS}"]
        answered = missed(there, done, self._answers, frozen=_OWNER)
        proofs = [
            Proof(name="every surface shows what the reference shows", says=f"{compared} times", problems=differs),
            Proof(name="every home is exact in the end", says=f"{homes} homes", problems=missing),
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
            figures={"steps": steps, "compared": compared, "homes": homes, "erasures": erasures},
            by_kind=dict(sorted(kinds.items())),
            disturbances=[str(one) for one in done],
            outages=outages(done, self._answers),
            proofs=proofs,
        )

    def _checked(self) -> Proof:
        """Every invariant, once decisions have arrived and the sink is done: asked again until then."""
        until, gaps, count = time.monotonic() + limits.SOAK_SETTLE_WAIT_S, ["not asked"], 0
        acknowledged = Acknowledgements(self._stack.home / "acknowledged.ndjson")
        acknowledged.close()
        with self._narrator.busy("millrace check, until nothing is under way"):
            while gaps and time.monotonic() < until:
                try:
                    report = run_check(_checked_here(acknowledged))
                except (PlatformError, psycopg.Error, OSError) as error:
                    gaps = [f"could not be carried out: {error}"]
                    continue
                count = len(report.invariants)
                gaps = [f"invariant {one.id}: {one.sample or one.note}" for one in report.invariants if one.gaps]
        return Proof(name="millrace check finds no gap", says=f"{count} invariants", problems=gaps)


def _checked_here(acknowledged: Acknowledgements) -> CheckSettings:
    """What a check of this stack reads: it takes no payments, so there is no processor whose book it could read."""
    return replace(check_settings(load_settings(), acknowledged.path), processor_urls={})
