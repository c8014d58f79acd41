"""The verdict of the limiter's demo can fail: an extra admission, a wrong refusal, a second charge, a gap in the books."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from compose.proof.demo.limiter.accounts import Booked, balance
from compose.proof.demo.limiter.judge import Judge
from compose.proof.demo.limiter.oracle import bound
from compose.proof.demo.limiter.policies import DOWNLOADS, FEEDS, PAGES, Asked, first_policies, later_policies
from limiter.frames.frames import ALLOWED, DUPLICATE, Answer
from schemas.limiter.exact_counter import ExactCounter
from schemas.limiter.limit_terms import Terms
from tests.gate import examples
from tests.seeds import seeds
from tests.worlds.limiter.limit_oracle import FIXED, SLIDING, TOKEN_BUCKET, Oracle

if TYPE_CHECKING:
    from compose.proof.demo.limiter.judge import Counter

BASE = 1_800_000_000_000_000
SECOND = 1_000_000
FEED = Asked(FEEDS, "192.0.2.7", "/feed", 1)
DOWNLOAD = Asked(DOWNLOADS, "192.0.2.7", "/images", 1)
YES, NO, AGAIN = (Answer(bool(flags), 0, 0, 0, 1, flags) for flags in (ALLOWED, 0, ALLOWED | DUPLICATE))


def judge_with(asked: Asked, admissions: int) -> Judge:
    judge = Judge([first_policies(), later_policies()])
    for _ in range(admissions):
        judge.hear(asked, [YES], asked_us=BASE, answered_us=BASE + 10)
    return judge


def only(judge: Judge) -> Counter:
    (found,) = judge.counters.values()
    return found


def test_one_admission_too_many_is_found() -> None:
    assert judge_with(FEED, 5).over_admitted == 0
    judge = judge_with(FEED, 6)
    assert (judge.over_admitted, only(judge).over_admitted) == (1, 1)
    assert only(judge).admitted > only(judge).bound


def test_a_refusal_with_room_is_found_where_the_policy_is_exact() -> None:
    judge = judge_with(FEED, 4)
    judge.hear(FEED, [NO], asked_us=BASE + 20, answered_us=BASE + 30)
    assert judge.wrongly_refused == 1
    full = judge_with(FEED, 5)
    full.hear(FEED, [NO], asked_us=BASE + 20, answered_us=BASE + 30)
    assert full.wrongly_refused == 0
    leased = judge_with(DOWNLOAD, 290)
    leased.hear(DOWNLOAD, [NO], asked_us=BASE + 20, answered_us=BASE + 30)
    assert (leased.wrongly_refused, only(leased).early_by) == (0, 10)


def test_a_second_charge_of_one_identity_is_found() -> None:
    judge = judge_with(FEED, 0)
    assert judge.hear(FEED, [YES, AGAIN], asked_us=BASE, answered_us=BASE + 10)
    judge.hear(FEED, [AGAIN], asked_us=BASE, answered_us=BASE + 10, was_charged=True)
    assert (judge.duplicates_charged, only(judge).admitted, judge.repeats) == (0, 1, 2)
    judge.hear(FEED, [YES, YES], asked_us=BASE + 20, answered_us=BASE + 30)
    judge.hear(FEED, [YES], asked_us=BASE + 20, answered_us=BASE + 30, was_charged=True)
    judge.hear(FEED, [NO], asked_us=BASE + 20, answered_us=BASE + 30, was_charged=True)
    assert (judge.duplicates_charged, judge.forgotten) == (2, 1)


def test_a_lowered_policy_binds_from_its_first_decision_and_a_repeated_answer_is_none() -> None:
    judge = judge_with(FEED, 4)
    judge.hear(FEED, [AGAIN._replace(policy_version=2)], asked_us=BASE, answered_us=BASE + 20, was_charged=True)
    assert only(judge).level.version == 1
    judge.hear(FEED, [NO._replace(policy_version=2)], asked_us=BASE + 20, answered_us=BASE + 30)
    assert (only(judge).level.version, judge.wrongly_refused) == (2, 0)
    soon = BASE + 2 * SECOND
    judge.hear(FEED, [YES], asked_us=soon, answered_us=soon + 10)  # two have leaked: there is no room under 2
    assert judge.over_admitted == 1


def test_every_level_of_a_request_is_charged() -> None:
    judge = judge_with(Asked(PAGES, "192.0.2.7", "/a", 1), 6)
    assert sorted(counter.admitted for counter in judge.counters.values()) == [6, 6]
    judge.hear(Asked(PAGES, "192.0.2.7", "/b", 1), [YES], asked_us=BASE + 10, answered_us=BASE + 20)
    assert judge.over_admitted == 1


@pytest.mark.parametrize(
    ("used", "reserved", "gap"), [(20, 0, 0), (18, 5, 0), (18, 2, 0), (17, 2, 1), (20, 6, 1), (19, 0, 1)]
)
def test_the_books_of_leases_must_hold_what_was_admitted_and_no_more_than_the_killed_held(
    used: int, reserved: int, gap: int
) -> None:
    judge = judge_with(DOWNLOAD, 20)
    name = next(iter(judge.counters))
    book = Booked(used, reserved, BASE + 20, BASE + 30)
    assert balance(judge.counters, {name: book}, {name: 5}).lease_gap == gap


def test_the_books_of_exact_counters_must_be_those_of_the_oracle() -> None:
    judge = judge_with(FEED, 3)
    name = next(iter(judge.counters))
    book = Booked(3, 0, BASE + 20, BASE + 30)
    assert balance(judge.counters, {name: book}, {}).exact_gap == 0
    assert balance(judge.counters, {name: replace(book, used=4)}, {}).exact_gap == 1
    assert balance(judge.counters, {name: replace(book, used=2)}, {}).exact_gap == 1


@pytest.mark.parametrize("seed", seeds(examples(gate=2, proof=5)))
@pytest.mark.parametrize(
    "terms",
    [
        Terms(TOKEN_BUCKET, 20, 7, 1_000, 1, 1_000, strict=False),
        Terms(SLIDING, 20, 20, 1_000, 4, 1_000, strict=False),
        Terms(SLIDING, 20, 20, 1_000, 4, 1_000, strict=True),
        Terms(FIXED, 20, 20, 1_000, 1, 1_000, strict=False),
    ],
    ids=str,
)
def test_the_counter_agrees_with_the_whole_history(terms: Terms, seed: int) -> None:
    """The incremental oracle against exact fractions over every charge; and no history passes the bound."""
    source = random.Random(seed)
    counter, oracle, now = ExactCounter(terms), Oracle(terms), BASE // 1_000
    first, admitted = now, 0
    for _ in range(200):
        now += source.choice((0, 1, 30, 120, 260, 2_100))
        cost = source.randint(1, 6)
        assert counter.available(now * 1_000) == oracle.available(now)
        if oracle.allows(now, cost):
            counter.charge(now * 1_000, cost)
            oracle.charge(now, cost)
            admitted += cost
            assert admitted <= bound([terms], first * 1_000, now * 1_000)
