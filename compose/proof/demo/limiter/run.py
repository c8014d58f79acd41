"""Replays an access log against the limiter, kills a gateway and changes policies half-way, and proves the result."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from compose.proof.demo.limiter.accounts import Accounts, balance, booked, held_by
from compose.proof.demo.limiter.gateways import GATEWAYS, running_gateways
from compose.proof.demo.limiter.judge import Counter, Judge
from compose.proof.demo.limiter.policies import first_policies, later_policies
from compose.proof.demo.limiter.replay import Replay

if TYPE_CHECKING:
    from collections.abc import Callable

    from compose.proof.demo.limiter.access_log import AccessLog
    from compose.proof.demo.limiter.gateways import Gateways
    from compose.proof.demo.limiter.judge import CounterName
    from compose.proof.kit.narrator import Narrator
    from schemas.limiter.limit_policy import LimitPolicy

_KILLED: Final = 1
_STEPS: Final = 10


@dataclass(frozen=True, slots=True)
class LimiterVerdict:
    """What a replay came to."""

    judge: Judge
    accounts: Accounts
    replay: Replay
    killed_pid: int
    changed_counters: int  # of which a decision under the later policy was seen
    seconds: float

    @property
    def is_ok(self) -> bool:
        """No bound was broken, nothing was charged twice, the books agree, and there was something to prove."""
        broken = sum(counter.admitted > counter.bound for counter in self.judge.counters.values())
        return not any((broken, *self.wrong().values())) and self.judge.decisions > 0

    def wrong(self) -> dict[str, int]:
        """What must be 0, by name."""
        return {
            "over_admitted": self.judge.over_admitted,
            "wrongly_refused": self.judge.wrongly_refused,
            "duplicates_charged": self.judge.duplicates_charged,
            "retries_forgotten": self.judge.forgotten,
            "invalid": self.judge.invalid,
            "unanswered_requests": self.replay.lost,
            "lease_gap": self.accounts.lease_gap,
            "exact_gap": self.accounts.exact_gap,
        }

    def figures(self) -> dict[str, Any]:
        """Everything as JSON has it."""
        return {
            "ok": self.is_ok,
            "requests": self.replay.requests,
            "decisions": self.judge.decisions,
            "retries": self.replay.retries,
            "repeats_recognized": self.judge.repeats,
            "gateways_killed": int(self.killed_pid > 0),
            "attempts_unanswered": self.replay.unanswered,
            "answers_degraded": self.replay.degraded,
            "counters": len(self.judge.counters),
            "counters_changed": self.changed_counters,
            **self.wrong(),
            "leases": {
                "admitted": self.accounts.leased_admitted,
                "used": self.accounts.leased_used,
                "reserved": self.accounts.leased_reserved,
                "held_by_killed": self.accounts.killed_held,
                "unanswered": self.accounts.unanswered,
            },
            "policies": policy_rows(self.judge),
            "problems": self.judge.problems,
            "seconds": round(self.seconds, 1),
        }


def policy_rows(judge: Judge) -> list[dict[str, Any]]:
    """Admitted beside the bound, for every policy and for its busiest counter."""
    by_policy: dict[str, list[Counter]] = {}
    for counter in judge.counters.values():
        by_policy.setdefault(counter.level.id_, []).append(counter)
    return [_policy_row(policy_id, found) for policy_id, found in sorted(by_policy.items())]


def _policy_row(policy_id: str, found: list[Counter]) -> dict[str, Any]:
    policy = max((counter.level for counter in found), key=lambda level: level.version).policy
    busiest = max(found, key=lambda counter: counter.admitted)
    return {
        "policy_id": policy_id,
        "algorithm": policy.algorithm,
        "consistency": policy.consistency,
        "version": policy.version,
        "counters": len(found),
        "admitted": sum(counter.admitted for counter in found),
        "refused": sum(counter.refused for counter in found),
        "busiest_admitted": busiest.admitted,
        "busiest_bound": busiest.bound,
        "bounds_broken": sum(counter.admitted > counter.bound for counter in found),
        "over_admitted": sum(counter.over_admitted for counter in found),
        "least_room": min((c.least_room for c in found if c.admitted), default=0),
        "refused_early_by": max(counter.early_by for counter in found),
        "lease_share": policy.capacity // 10 if policy.consistency == "leased" else 0,
    }


def replay_through_gateways(
    log: AccessLog,
    speed: float,
    narrator: Narrator,
    as_published: Callable[[LimitPolicy], LimitPolicy] = lambda policy: policy,
) -> LimiterVerdict:
    """The whole of it on servers of its own. ``as_published`` may tamper with what gateways get: the judge objects."""
    began = time.monotonic()
    versions = [first_policies(), later_policies()]
    judge = Judge(versions)
    with ExitStack() as leaving:
        with narrator.busy(f"starting a Valkey and {GATEWAYS} gateways"):
            gateways = leaving.enter_context(running_gateways([as_published(policy) for policy in versions[0]]))
        replay = Replay(gateways, judge, _told_in_steps(narrator, len(log.visits)))
        half_way = _HalfWay(gateways, judge, narrator, [as_published(policy) for policy in versions[1]])
        with narrator.busy(f"{len(log.visits):,} requests at {speed:,.0f} times the speed of the log"):
            asyncio.run(replay.run(log, speed, half_way))
        with narrator.busy("stopping the gateways and comparing the store's books"):
            gateways.stop()
            books = asyncio.run(booked(gateways.store_url, judge.counters.values()))
    accounts = balance(judge.counters, books, half_way.held)
    changed = sum(len(counter.versions) > 1 for counter in judge.counters.values())
    return LimiterVerdict(judge, accounts, replay, half_way.killed_pid, changed, time.monotonic() - began)


class _HalfWay:
    """One gateway is killed, then other policies are published; the traffic goes on."""

    def __init__(self, gateways: Gateways, judge: Judge, narrator: Narrator, policies: list[LimitPolicy]) -> None:
        self._gateways, self._judge, self._narrator = gateways, judge, narrator
        self._policies = policies
        self.killed_pid = 0
        self.held: dict[CounterName, int] = {}

    async def __call__(self) -> None:
        self.killed_pid = await asyncio.to_thread(self._gateways.kill, _KILLED)
        leased = [counter for counter in self._judge.counters.values() if counter.is_leased]
        self.held = await asyncio.to_thread(held_by, self._gateways.store_url, _KILLED, leased)
        revision = self._gateways.publication.publish(self._policies)
        self._narrator.say(
            f"half-way: gateway {_KILLED} (pid {self.killed_pid}) killed while it held {sum(self.held.values())} "
            f"tokens on {len(self.held)} leases; policies of revision {revision} published"
        )
        await asyncio.to_thread(self._gateways.wait_until_followed, revision)


def _told_in_steps(narrator: Narrator, total: int) -> Callable[[int], None]:
    def progress(done: int) -> None:
        if done * _STEPS // total > (done - 1) * _STEPS // total:
            narrator.now(f"{done:,} of {total:,} requests decided")

    return progress
