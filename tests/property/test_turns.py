"""Callers take turns: whoever has little waits little, nothing is passed over or decided twice, whenever an owner dies."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflows import limits
from dataflows.owner.batch import PartitionBatch, Record
from dataflows.owner.partition.progress import Progress, ahead_of
from dataflows.owner.reading.ready import Ready
from dataflows.owner.reading.turns import Turns, noisy_of
from tests.faults.owners import command

NOISY, QUIET = "tenant:tn_noisy", [f"tenant:tn_{n}" for n in range(7)]
SENT = command("create_payment_intent", "k", {"amount": 1, "currency": "USD", "payment_method": "tok_sim_approve"})


def record(offset: int, caller: str, aggregate: str = "", size: int = 0) -> Record:
    sent = msgspec.structs.replace(SENT, scope=caller, aggregate_key=aggregate or caller.removeprefix("tenant:"))
    return Record(offset, b"x" * size, sent, leader_epoch=offset // 10)


records = st.lists(
    st.tuples(st.sampled_from("abcde"), st.sampled_from(["a", "b", "c", "x", "y"]), st.sampled_from([0, 500, 40_000])),
    min_size=1,
    max_size=200,
)


@given(said=records, seed=st.integers(0, 2**32))
def test_every_record_is_decided_once_and_in_the_order_of_its_aggregate(
    said: list[tuple[str, str, int]], seed: int
) -> None:
    """Owners die between and after commits; the next one has what the last commit stored, and reads on from there."""
    small = mock.patch.multiple(limits, TURN_UNITS=2, TURNS_OF_CALLER_UNITS_MAX=3, TURNS_ROUND_UNITS=8)
    with small:
        _decided_once(said, random.Random(seed))


def _decided_once(said: list[tuple[str, str, int]], chance: random.Random) -> None:
    log = [record(n, caller, aggregate, size) for n, (caller, aggregate, size) in enumerate(said)]
    progress, decided = Progress(0, None, {}), list[int]()
    while progress.next_offset < len(log):
        stored = msgspec.json.decode(progress.ahead_text)
        progress = Progress(progress.next_offset, progress.leader_epoch, ahead_of(progress.next_offset, stored))
        turns, read, before = Turns(), progress.next_offset, progress.ahead  # as the reader knows it from the take on
        while chance.random() > 0.1 and (read < len(log) or len(turns)):
            came = log[read : read + chance.randrange(1, 30)]
            read += len(came)
            turns.add(one for one in came if one.offset not in before)
            if not len(turns):
                continue
            taken, _ = turns.take(chance.random())
            batch = PartitionBatch(0, taken, 1, 0, turns.lowest)
            assert batch.begins_at == progress.next_offset
            if chance.random() < 0.1:
                break  # it dies before the commit
            progress = progress.after(taken)
            decided += [one.offset for one in taken]
            undecided = set(range(len(log))) - set(decided)
            assert progress.next_offset == min(undecided, default=len(log))
            assert set(progress.ahead) == {o for o in decided if o > progress.next_offset}
            assert progress.leader_epoch == log[progress.next_offset - 1].leader_epoch or not progress.next_offset
    assert sorted(decided) == list(range(len(log)))
    for aggregate in {one[1] for one in said}:
        of_it = [offset for offset in decided if said[offset][1] == aggregate]
        assert of_it == sorted(of_it)


@given(
    st.integers(1, 5_000), st.lists(st.sampled_from(QUIET), min_size=1, max_size=30), st.randoms(use_true_random=False)
)
def test_a_caller_with_little_is_served_in_the_first_round_whatever_lies_before_it(
    burst: int, quiet: list[str], chance: random.Random
) -> None:
    """The backlog of another one costs it a bounded part of one round, never a place in a queue."""
    callers = [NOISY] * burst + quiet
    if chance.random() < 0.5:
        chance.shuffle(callers)
    turns = Turns()
    turns.add(record(n, caller) for n, caller in enumerate(callers))
    taken, _ = turns.take(0.0)
    given = Counter(one.command.scope for one in taken if one.command)
    few = Counter(quiet)
    assert all(given[caller] == min(few[caller], limits.TURNS_OF_CALLER_UNITS_MAX) for caller in few)
    assert given[NOISY] == min(burst, limits.TURNS_OF_CALLER_UNITS_MAX)


@given(st.dictionaries(st.sampled_from(QUIET), st.integers(1, 300), min_size=2), st.sampled_from([1_000, 3_000]))
def test_callers_with_enough_to_do_get_equal_shares_in_bytes_too(waiting: dict[str, int], size: int) -> None:
    turns, offsets = Turns(), itertools.count()
    for caller in [*waiting, NOISY]:
        turns.add(record(next(offsets), caller, size=size if caller == NOISY else 0) for _ in range(300))
    spent: Counter[str] = Counter()
    rounds = 4
    for _ in range(rounds):
        for one in turns.take(0.0)[0]:
            assert one.command is not None
            spent[one.command.scope] += 1 + len(one.value) // 1024
    apart = max(spent.values()) - min(spent.values())
    assert apart <= limits.TURNS_OF_CALLER_UNITS_MAX + 1 + size // 1024


@pytest.mark.parametrize("units", [limits.TURN_UNITS, limits.TURNS_OF_CALLER_UNITS_MAX])
def test_whoever_is_left_waiting_is_next(units: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """More callers than a round has place for: each is served before any is served again."""
    monkeypatch.setattr(limits, "TURN_UNITS", units)
    turns, callers = Turns(), [f"tenant:tn_{n}" for n in range(100)]
    turns.add(record(n, callers[n % 100]) for n in range(100 * 200))
    rounds = range(math.ceil(100 * limits.TURN_UNITS / limits.TURNS_ROUND_UNITS))
    served = [{one.command.scope for one in turns.take(0.0)[0] if one.command} for _ in rounds]
    assert set.union(*served) == set(callers)


def test_a_caller_alone_has_the_whole_round() -> None:
    turns = Turns()
    turns.add(record(n, NOISY) for n in range(2 * limits.TURNS_ROUND_UNITS))
    assert len(turns.take(0.0)[0]) == limits.TURNS_ROUND_UNITS


def test_who_has_others_wait_is_told_once_a_window_and_keeps_its_turns() -> None:
    """Smaller ones would come more often, and each is a round that others wait for."""
    turns, offsets, found = Turns(), itertools.count(), []
    turns.add(record(next(offsets), NOISY) for _ in range(5_000))
    for second in range(int(limits.NOISE_WINDOW_S) + 1):
        turns.add(record(next(offsets), caller) for caller in QUIET[:2])
        _, told = turns.take(float(second))
        found += told
    assert [one.caller for one in found] == [NOISY]
    assert found[0].share > limits.NOISE_SHARE_MAX
    turns.add(record(next(offsets), caller) for caller in QUIET)
    given = Counter(one.command.scope for one in turns.take(99.0)[0] if one.command)
    assert given[NOISY] == limits.TURNS_OF_CALLER_UNITS_MAX


def test_who_lately_had_most_has_no_whole_round_even_where_nobody_else_waits() -> None:
    """Whoever comes while its round is under way waits for the end of it."""
    turns, offsets = Turns(), itertools.count()

    def takes(at_s: float) -> int:
        return len(turns.take(at_s)[0])

    turns.add(record(next(offsets), NOISY) for _ in range(4 * limits.TURNS_ROUND_UNITS))
    assert takes(100.0) == limits.TURNS_ROUND_UNITS  # there are no others
    turns.add([record(next(offsets), QUIET[0])])
    assert takes(100.1) == limits.TURNS_OF_CALLER_UNITS_MAX + 1
    assert takes(100.2) == limits.TURNS_OF_CALLER_UNITS_MAX
    for windows in (1, 2):  # the others count to the end of the window after theirs
        assert takes(100.2 + windows * limits.NOISE_WINDOW_S) == limits.TURNS_OF_CALLER_UNITS_MAX
    assert takes(100.3 + 2 * limits.NOISE_WINDOW_S) == limits.TURNS_ROUND_UNITS


@pytest.mark.parametrize(
    ("spent", "left", "found"),
    [
        ({"a": 100}, {"a": 500}, []),  # nobody else is there
        ({"a": 100, "b": 100}, {"a": 500, "b": 500}, []),
        ({"a": 98, "b": 2}, {"a": 500}, ["a"]),
        ({"a": 98, "b": 2}, {"a": 3}, []),  # much, and nobody waits for it
        (dict.fromkeys("abcdefghij", 10) | {"a": 45}, {"a": 500}, ["a"]),
        (dict.fromkeys("abcdefghij", 10) | {"a": 20}, {"a": 500}, []),
        ({"": 98, "b": 2}, {"": 500}, []),  # records of nobody
    ],
)
def test_noisy_is_who_has_far_more_than_a_fair_share(
    spent: dict[str, int], left: dict[str, int], found: list[str]
) -> None:
    assert [one.caller for one in noisy_of(spent, left)] == found


def test_what_is_left_of_an_earlier_lease_keeps_nothing_of_the_next_one_apart() -> None:
    """The position of a round is the lowest of all that waits under its lease, however it was read."""
    ready = Ready(takes_turns=True)

    def read(first: int, count: int, epoch: int) -> bool:
        return ready.put(PartitionBatch(0, [record(n, NOISY) for n in range(first, first + count)], epoch))

    assert read(0, 2_000, 1)
    (taken,) = ready.take(ready.free(()))
    assert taken.begins_at == 0
    assert read(0, 600, 2)
    ready.take(ready.free(()))  # of the first lease: what is left of it lies behind the second now
    assert not read(600, 600, 2)
    took = [batch for _ in range(6) for batch in ready.take(ready.free(()))]
    second = [batch for batch in took if batch.epoch == 2]
    assert [batch.begins_at for batch in second] == [0, 500, 1000]


def test_who_has_most_is_gathered_for_a_moment_and_whoever_has_little_is_due_at_once() -> None:
    """So a round of the one is seldom under way when another one comes; nobody waits for nobody."""
    turns, offsets = Turns(), itertools.count()

    def comes(caller: str, count: int = 1) -> None:
        turns.add(record(next(offsets), caller) for _ in range(count))

    comes(NOISY)
    assert turns.due_s() == 0.0  # alone
    comes(NOISY, 20)
    comes(QUIET[0], 2)
    turns.take(100.0)
    comes(NOISY)
    assert turns.due_s() == 100.0 + limits.TURNS_PAUSE_MS / 1_000
    comes(QUIET[1])
    assert turns.due_s() == 0.0
    turns.take(100.0)
    comes(NOISY, limits.TURNS_OF_CALLER_UNITS_MAX)
    assert turns.due_s() == 0.0  # enough for a round


def _after(*rounds: tuple[float, dict[str, int]]) -> float:
    """The seconds for which one more command of the noisy one alone waits after these rounds."""
    turns, offsets = Turns(), itertools.count()
    for at_s, had in rounds:
        turns.add(record(next(offsets), caller) for caller, count in had.items() for _ in range(count))
        turns.take(at_s)
    turns.add([record(next(offsets), NOISY)])
    return max(0.0, turns.due_s() - rounds[-1][0])


PAUSE_S = pytest.approx(limits.TURNS_PAUSE_MS / 1_000)


def test_a_burst_is_gathered_within_a_quarter_of_a_second_however_long_the_others_had_all_the_work() -> None:
    quiet = [(99.0 + n / 50, dict.fromkeys(QUIET, 5)) for n in range(50)]
    assert _after(*quiet) == 0.0
    beside: dict[str, int] = {NOISY: 20, QUIET[0]: 1}
    burst = [(100.0 + n / 100, beside) for n in range(int(100 * limits.LATELY_WINDOW_S) + 1)]
    assert _after(*quiet, *burst) == PAUSE_S


def test_whoever_had_a_burst_is_not_gathered_any_more_when_it_is_over() -> None:
    """It had most of the long window still, and is as quiet as the others now."""
    burst: list[tuple[float, dict[str, int]]] = [(100.0 + n / 100, {NOISY: 60, QUIET[0]: 1}) for n in range(100)]
    assert _after(*burst) == PAUSE_S
    end_s, window_s = burst[-1][0], limits.LATELY_WINDOW_S
    assert _after(*burst, (end_s + window_s, {NOISY: 1}), (end_s + 2 * window_s, {NOISY: 1})) == 0.0
    assert _after(*burst, (end_s + 3 * window_s, {NOISY: 1})) == 0.0


def test_whoever_asks_one_thing_after_the_other_waits_for_nobody() -> None:
    """All of the work lately is its own, and that is little."""
    others: tuple[float, dict[str, int]] = (99.0, dict.fromkeys(QUIET, 1))
    assert _after(others, *[(100.0 + n / 50, {NOISY: 1}) for n in range(limits.TURN_UNITS)]) == 0.0
    alone: list[tuple[float, dict[str, int]]] = [(100.0 + n / 50, {NOISY: 60}) for n in range(50)]
    assert _after(*alone) == 0.0  # there are no others
    assert _after(others, *alone) == PAUSE_S


def test_what_is_not_due_is_not_free_and_is_soon() -> None:
    ready = Ready(takes_turns=True)

    def put(first: int, *callers: str) -> None:
        ready.put(PartitionBatch(0, [record(first + n, caller) for n, caller in enumerate(callers)], 1))

    put(0, *[NOISY] * 20, QUIET[0])
    ready.take(ready.free(()))
    put(21, NOISY)
    with mock.patch.object(limits, "TURNS_PAUSE_MS", 1_000_000):
        assert ready.free(()) == []
        assert ready.due_within(5.0) == 5.0
    assert 0 < ready.due_within(5.0) <= 5.0
    with mock.patch.object(limits, "TURNS_PAUSE_MS", 1_000_000):
        put(22, QUIET[0])
        assert len(ready.free(())) == 1
    assert ready.due_within(5.0) <= 5.0
