"""Bulkhead, circuit breaker and the turn of one lease, with an adapter that says what the test wants."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry

from dataflows.payments.attempts import schedule
from dataflows.payments.attempts.adapter import (
    Answer,
    Call,
    Definitive,
    NotExecuted,
    NotSent,
    RequiresAction,
    Unknown,
)
from dataflows.payments.attempts.circuit_breaker import CircuitBreaker
from dataflows.payments.attempts.health import Counts
from dataflows.payments.attempts.lane import ProcessorLane
from dataflows.payments.attempts.metrics import AttemptMetrics
from schemas.payments import limits
from tests.each import each
from tests.unit.payments.test_attempts_settlement import CAPTURED, LEASE

if TYPE_CHECKING:
    from dataflows.payments.attempts.dispatch import AttemptLease

DECLINED = Definitive(status="declined", provider_ref="r", amount=1, currency="USD", error_code="no")


class ScriptedAdapter:
    """Answers from a script and remembers what it was asked."""

    name = "simulator"
    identity_kept_s = math.inf

    def __init__(self, *script: Answer | Exception) -> None:
        self.script = list(script)
        self.asked: list[str] = []
        self.probes: list[bool | Exception] = []

    async def is_reachable(self) -> bool:
        self.asked.append("probe")
        answer = self.probes.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def send(self, call: Call) -> Answer:
        return self._next("send", call)

    async def query(self, call: Call) -> Answer:
        return self._next("query", call)

    async def end_wait(self, call: Call, waits: RequiresAction) -> Answer:
        return self._next(f"end {waits.provider_ref} of", call)

    async def close(self) -> None:
        """Nothing is open."""

    def _next(self, kind: str, call: Call) -> Answer:
        self.asked.append(f"{kind} {call.operation_id}")
        answer = self.script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def lane_of(adapter: ScriptedAdapter) -> ProcessorLane:
    return ProcessorLane(adapter, AttemptMetrics(CollectorRegistry()))


def lease(*, in_doubt: bool, left_s: float = 10.0) -> AttemptLease:
    return replace(LEASE, in_doubt=in_doubt, ends_at=time.monotonic() + left_s)


@pytest.mark.parametrize(
    ("in_doubt", "script", "asked", "answer"),
    [
        (False, [CAPTURED], ["send"], CAPTURED),
        (False, [Unknown("timeout")], ["send"], Unknown("timeout")),
        (True, [DECLINED], ["query"], DECLINED),
        (True, [Unknown("http_500")], ["query"], Unknown("http_500")),
        (True, [NotSent("not_connected")], ["query"], NotSent("not_connected")),
        (True, [NotExecuted("not_found"), CAPTURED], ["query", "send"], CAPTURED),
        (True, [NotExecuted("not_found"), Unknown("timeout")], ["query", "send"], Unknown("timeout")),
    ],
)
def test_doubt_is_queried_before_anything_is_sent(
    in_doubt: bool, script: list[Answer], asked: list[str], answer: Answer
) -> None:
    """Rule: query or retry with the same operation identity; a send only after "never heard of it"."""
    adapter = ScriptedAdapter(*script)
    assert asyncio.run(lane_of(adapter).turn(lease(in_doubt=in_doubt))) == answer
    assert adapter.asked == [f"{kind} op_a_1" for kind in asked]


def test_what_is_only_asked_for_is_never_sent() -> None:
    """Two persons may be about to say what became of it: a charge of ours must not overtake them."""
    adapter = ScriptedAdapter(NotExecuted("not_found"))
    asked = replace(lease(in_doubt=True), only_asked=True)
    assert asyncio.run(lane_of(adapter).turn(asked)) == NotExecuted("not_found")
    assert adapter.asked == ["query op_a_1"]


WAITS = RequiresAction("pi_3ds", "https://bank.example/3ds")
IN_VAIN = limits.ATTEMPT_ACTION_WAIT_S + 1


@each(("age_s", "changes"), [(IN_VAIN, {}), (5, {"is_unwanted": True}), (IN_VAIN, {"only_asked": True})])
@each("ended", [replace(DECLINED, status="failed"), CAPTURED, Unknown("timeout"), NotExecuted("429")])
def test_a_wait_for_the_payer_that_is_in_vain_is_ended(age_s: int, changes: dict[str, bool], ended: Answer) -> None:
    """What comes of that is the answer, and nothing is ever sent after it; it is no failure of the processor's."""
    adapter = ScriptedAdapter(WAITS, ended)
    waiting = replace(lease(in_doubt=True), first_at=time.monotonic() - age_s, **changes)  # type: ignore[arg-type] # flags
    lane = lane_of(adapter)
    assert asyncio.run(lane.turn(waiting)) == ended
    assert adapter.asked == ["query op_a_1", "end pi_3ds of op_a_1"]
    assert lane.health().counts == Counts()


def test_a_payer_has_time_and_what_waits_is_no_charge_is_left_alone() -> None:
    """Also what is young, a refund that waits for somebody, and a lease that is nearly over."""
    long_ago = time.monotonic() - IN_VAIN
    young = lease(in_doubt=True)
    young = replace(young, first_at=time.monotonic() - limits.ATTEMPT_ACTION_WAIT_S + 60)
    refund = replace(lease(in_doubt=True), first_at=long_ago, call=replace(LEASE.call, kind="refund"))
    late = replace(lease(in_doubt=True, left_s=0.1), first_at=long_ago)
    for left_alone in (young, refund, late):
        adapter = ScriptedAdapter(WAITS)
        assert asyncio.run(lane_of(adapter).turn(left_alone)) == WAITS
        assert adapter.asked == ["query op_a_1"]


def test_a_lease_that_runs_out_is_not_used_to_send() -> None:
    """A worker that was frozen wakes up and finds its time over: somebody else has the attempt."""
    adapter = ScriptedAdapter(NotExecuted("not_found"))
    lane = lane_of(adapter)
    assert asyncio.run(lane.turn(lease(in_doubt=False, left_s=0.1))) is None
    assert asyncio.run(lane.turn(lease(in_doubt=True, left_s=0.1))) == NotExecuted("not_found")
    assert adapter.asked == ["query op_a_1"]


def test_a_fault_of_the_adapter_is_a_doubt() -> None:
    """A bug may have happened after the send, so nothing is known."""
    adapter = ScriptedAdapter(ZeroDivisionError())
    assert asyncio.run(lane_of(adapter).turn(lease(in_doubt=False))) == Unknown("adapter_failed")


def test_the_bulkhead_never_gives_more_slots_than_it_has() -> None:
    """Reserved before the lease, released once each."""
    lane = lane_of(ScriptedAdapter())
    assert lane.reserve(limits.ATTEMPT_CALLS_IN_FLIGHT_MAX - 1) == limits.ATTEMPT_CALLS_IN_FLIGHT_MAX - 1
    assert (lane.reserve(5), lane.reserve(5)) == (1, 0)
    lane.release(3)
    assert lane.reserve(5) == 3


def test_one_payment_alone_finds_out_that_its_processor_is_away() -> None:
    """Retried as the schedule says, it is over before the ten seconds in which a payment is served elsewhere."""
    breaker, now, sends = CircuitBreaker(), 0.0, 0
    while breaker.state == "closed":
        breaker.failed(now)
        sends += 1
        now += schedule.retry_delay_ms(sends, jitter=1.0) / 1_000
    assert (sends, breaker.away_for_s(now) >= limits.ATTEMPT_BREAKER_SILENT_MS / 1_000) == (5, True)
    assert breaker.away_for_s(limits.ATTEMPT_UNAVAILABLE_AFTER_S) == limits.ATTEMPT_UNAVAILABLE_AFTER_S < 10
    short = CircuitBreaker()
    short.failed(0.0), short.failed(0.1), short.answered(), short.failed(60.0), short.failed(60.1), short.failed(60.2)
    assert short.state == "closed", "an answer in between ends the silence"


def test_the_breaker_opens_probes_and_closes() -> None:
    """Outages in a row open it; a probe half-opens it; then one call at a time, and an answer of any kind closes it."""
    breaker = CircuitBreaker()
    for _ in range(limits.ATTEMPT_BREAKER_FAILURES - 1):
        breaker.failed(0.0)
    assert (breaker.state, breaker.calls_max(in_flight=50)) == ("closed", limits.ATTEMPT_CALLS_IN_FLIGHT_MAX)
    breaker.failed(0.0)
    assert (breaker.state, breaker.calls_max(in_flight=0), breaker.is_probe_due(0.0)) == ("open", 0, False)
    probe_at = limits.ATTEMPT_BREAKER_OPEN_MS / 1_000
    assert breaker.is_probe_due(probe_at)
    breaker.probed(probe_at, is_answered=False)
    assert (breaker.state, breaker.is_probe_due(probe_at), breaker.is_probe_due(2 * probe_at)) == ("open", False, True)
    breaker.probed(2 * probe_at, is_answered=True)
    assert (breaker.state, breaker.calls_max(in_flight=1), breaker.calls_max(in_flight=0)) == ("half_open", 0, 1)
    breaker.failed(3.0)
    assert (breaker.state, breaker.calls_max(in_flight=0)) == ("open", 0)
    breaker.probed(4.0, is_answered=True)
    breaker.answered()
    assert (breaker.state, breaker.calls_max(in_flight=5)) == ("closed", limits.ATTEMPT_CALLS_IN_FLIGHT_MAX)


def test_an_outage_is_as_old_as_the_breaker_has_been_open() -> None:
    """Failed probes do not make it younger; a half-open breaker is no outage any more."""
    breaker = CircuitBreaker()
    for _ in range(limits.ATTEMPT_BREAKER_FAILURES):
        breaker.failed(5.0)
    breaker.failed(7.0)  # a call that was under way when it opened
    breaker.probed(8.0, is_answered=False)
    assert breaker.away_for_s(9.0) == 4.0
    breaker.probed(9.0, is_answered=True)
    assert breaker.away_for_s(20.0) == 0.0
    breaker.failed(21.0)
    assert breaker.away_for_s(22.0) == 1.0


@pytest.mark.parametrize("found", [True, False, ZeroDivisionError()])
def test_a_probe_goes_out_once_and_moves_no_money(found: bool | Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is open nothing is sent but the probe; a fault of the adapter leaves it open."""
    monkeypatch.setattr(limits, "ATTEMPT_BREAKER_OPEN_MS", 0)
    adapter = ScriptedAdapter(*[NotSent("not_connected")] * limits.ATTEMPT_BREAKER_FAILURES)
    adapter.probes = [found]
    lane = lane_of(adapter)

    async def ill_then_probed() -> None:
        assert not lane.wants_probe()
        while adapter.script:
            await lane.turn(lease(in_doubt=False))
        adapter.asked.clear()
        assert lane.wants_probe()
        assert not lane.wants_probe(), "one at a time"
        await lane.probe()

    asyncio.run(ill_then_probed())
    assert adapter.asked == ["probe"]
    assert lane.reserve(5) == (1 if found is True else 0)
    assert lane.health().breaker == ("half_open" if found is True else "open")


def test_what_is_in_doubt_is_not_sent_again_when_the_processor_may_have_forgotten_it() -> None:
    """Past the time that identities are kept, a second send could be a second effect; what never left may go."""
    adapter = ScriptedAdapter(NotExecuted("not_found"), CAPTURED)
    adapter.identity_kept_s = 60.0
    old = replace(lease(in_doubt=True), first_at=time.monotonic() - 61)
    assert asyncio.run(lane_of(adapter).turn(old)) == Unknown("identity_forgotten")
    assert asyncio.run(lane_of(adapter).turn(replace(old, in_doubt=False))) == CAPTURED
    assert adapter.asked == ["query op_a_1", "send op_a_1"]


def test_answers_that_are_no_outage_keep_the_lane_open() -> None:
    """Garbage and refusals are answers; only silence and errors of the processor's own count."""
    odd: list[Answer] = [Unknown("unparseable"), DECLINED, NotExecuted("http_429")]
    adapter = ScriptedAdapter(*odd * limits.ATTEMPT_BREAKER_FAILURES)
    lane = lane_of(adapter)

    async def all_turns() -> None:
        while adapter.script:
            await lane.turn(lease(in_doubt=False))

    asyncio.run(all_turns())
    assert lane.reserve(5) == 5
    outages = [Unknown("timeout", is_outage=True)] * limits.ATTEMPT_BREAKER_FAILURES
    adapter.script.extend(outages)
    asyncio.run(all_turns())
    assert lane.reserve(5) == 0
