"""The verdict of the limiter's soak: an account that agrees holds, and every planted gap of one token is red."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from compose.proof.soak.limiter.ledger import Booked, Conversation, Counter, Leases, Ledger, Quota, prove
from compose.proof.soak.limiter.load import draw
from limiter.frames.frames import ALLOWED, APPROXIMATE, DEGRADED, DUPLICATE, Answer
from tests.each import each

if TYPE_CHECKING:
    from collections.abc import Callable

EXACT, LEASED, OPEN = ("exact", "u0"), ("leased", "u0"), ("open", "u0")
CAPACITY, GATEWAYS = 30, 3


def answer(flags: int, version: int = 1) -> Answer:
    return Answer(bool(flags & ALLOWED), 0, 0, 0, version, flags)


YES, NO, AGAIN = answer(ALLOWED), answer(0), answer(ALLOWED | DUPLICATE)
LENT, UNCOUNTED = answer(ALLOWED | APPROXIMATE), answer(ALLOWED | DEGRADED)


def told(counter: Any, cost: int, *answers: Answer, at: float = 100.0, lasted: float = 0.1, doubts: int = 0) -> Any:
    return Conversation(counter, cost, answers, at, at + lasted, doubts)


class Account:
    """30 of each quota; nothing was broken. What may be planted in it is public."""

    def __init__(self) -> None:
        capacities: dict[Quota, list[int]] = {"exact": [CAPACITY], "leased": [CAPACITY], "open": [CAPACITY]}
        self.ledger = Ledger(gateways=GATEWAYS, capacities=capacities)
        self.ledger.conversations = [
            *(told(EXACT, 3, YES) for _ in range(9)),
            told(EXACT, 3, YES, AGAIN),
            told(EXACT, 1, NO, NO),
            *(told(LEASED, 2, LENT) for _ in range(5)),
            told(LEASED, 2, LENT, LENT),
            told(LEASED, 3, YES, AGAIN),
            told(OPEN, 2, YES),
            told(OPEN, 2, UNCOUNTED),
        ]
        self.books: dict[Counter, Booked] = {
            EXACT: Booked(used=30, reserved=0, streamed=30),
            LEASED: Booked(used=15, reserved=0, streamed=17),
            OPEN: Booked(used=2, reserved=0, streamed=4),
        }
        self.leases = Leases(granted=20, reported=14, assumed=0, released=6, refunds=1, credited=2)

    def red(self) -> list[str]:
        return [proof.name for proof in prove(self.ledger, self.books, {"leased": self.leases}) if not proof.holds]

    def book(self, counter: Any, **changes: int) -> None:
        self.books[counter] = replace(self.books[counter], **changes)

    def lend(self, **changes: int) -> None:
        self.leases = replace(self.leases, **changes)

    def hear(self, *more: Any) -> None:
        """And the stream has it."""
        self.ledger.conversations += more
        for one in more:
            fresh = sum(answer.allowed and not answer.flags & DUPLICATE for answer in one.answers)
            self.book(one.counter, streamed=self.books[one.counter].streamed + one.cost * fresh)


COUNTED = "the store has counted what clients were told"
BOUND = "nobody was admitted more than the bound"
SETTLED = "granted = reported + assumed + released"
GIVEN_BACK = "what two leases paid for one identity was given back"
ONCE = "no identity was charged twice at the store"
STREAMED = "the stream adds up to what clients were told"
LEFT = "nobody was refused what was left"


def test_an_account_that_agrees_holds() -> None:
    assert Account().red() == []


@each(
    ("plant", "red"),
    [
        (lambda a: a.book(EXACT, used=29), [COUNTED]),
        (lambda a: a.book(LEASED, used=14), [COUNTED]),
        (lambda a: a.book(LEASED, used=16), [COUNTED]),
        (lambda a: a.book(OPEN, used=5), [COUNTED]),
        (lambda a: a.book(LEASED, reserved=1), [COUNTED]),
        (lambda a: (a.book(EXACT, used=31), a.hear(told(EXACT, 1, YES))), [BOUND]),
        (lambda a: a.hear(*(told(OPEN, 3, UNCOUNTED) for _ in range(10))), [BOUND]),
        (lambda a: a.hear(told(EXACT, 3, UNCOUNTED)), [BOUND]),
        (lambda a: (a.hear(told(OPEN, 3, YES, YES)), a.book(OPEN, used=8)), [ONCE]),
        (lambda a: a.book(EXACT, streamed=29), [STREAMED]),
        (lambda a: a.book(LEASED, streamed=18), [STREAMED]),
        (lambda a: a.book(OPEN, streamed=3), [STREAMED]),
        (lambda a: a.hear(told(OPEN, 1, NO)), [LEFT]),
        (lambda a: a.lend(granted=21), [SETTLED]),
        (lambda a: a.lend(reported=13, released=7), [SETTLED]),
        (lambda a: a.lend(reported=15, released=5), [SETTLED]),
        (lambda a: (a.lend(credited=0), a.book(LEASED, used=17)), [GIVEN_BACK]),
        (lambda a: a.lend(not_credited=1), [GIVEN_BACK]),
        (lambda a: a.ledger.problems.append("leased:u0: no answer"), ["every check had a definite answer"]),
    ],
)
def test_a_planted_gap_is_red(plant: Callable[[Account], object], red: list[str]) -> None:
    account = Account()
    plant(account)
    assert account.red() == red


@pytest.mark.parametrize(
    "broken",
    [
        {"doubts": 1},
        {"at": 499.95, "lasted": 0.1},
    ],
    ids=["a try had no answer", "a gateway was killed meanwhile"],
)
def test_a_broken_conversation_is_the_only_slack(broken: dict[str, Any]) -> None:
    """Of an identity that the store has counted there is none, nor is there any of those before and after a kill."""
    account = Account()
    account.ledger.breaks = [500.0]
    account.hear(told(LEASED, 2, LENT, **broken), told(LEASED, 1, YES, at=400.0), told(LEASED, 1, YES, at=600.0))
    account.lend(reported=16, granted=22)
    account.book(LEASED, used=19)
    assert account.red() == []
    account.book(LEASED, used=21)
    assert account.red() == []
    account.book(LEASED, used=22)
    assert account.red() == [COUNTED]
    account.book(LEASED, used=19)
    account.hear(told(OPEN, 2, YES, **broken))
    account.book(OPEN, used=4)
    assert account.red() == []
    account.book(OPEN, used=7)  # 2 of it were admitted without the store
    assert account.red() == [COUNTED]
    account.book(OPEN, used=4, streamed=6 + 2 * GATEWAYS)
    assert account.red() == []
    account.book(OPEN, streamed=7 + 2 * GATEWAYS)
    assert account.red() == [STREAMED]


def test_what_was_admitted_without_the_store_may_have_been_charged_by_its_late_answer() -> None:
    """No more than that, not where the store has counted the identity anyway, and nobody who was refused."""
    account = Account()
    for used in (2, 4):  # of 2 that the store told of, and 2 that were admitted without it
        account.book(OPEN, used=used)
        assert account.red() == []
    account.book(OPEN, used=5)
    assert account.red() == [COUNTED]
    account.hear(told(OPEN, 3, UNCOUNTED, AGAIN), told(OPEN, 2, answer(DEGRADED)))
    account.book(OPEN, used=7)
    assert account.red() == []
    account.book(OPEN, used=8)
    assert account.red() == [COUNTED]
    account.book(OPEN, used=2 + 3)
    account.hear(told(LEASED, 2, LENT, UNCOUNTED))
    account.lend(reported=16, granted=22)
    for used in (17, 19):
        account.book(LEASED, used=used)
        assert account.red() == [], "a lease and the store may both have paid"
    account.book(LEASED, used=20)
    assert account.red() == [COUNTED]


@pytest.mark.parametrize(("lasted", "red"), [(50.0, [ONCE]), (61.0, [])])
def test_an_identity_is_known_for_a_minute_and_asked_again_later_it_is_a_new_request(
    lasted: float, red: list[str]
) -> None:
    account = Account()
    account.hear(told(OPEN, 3, YES, YES, lasted=lasted))
    account.book(OPEN, used=8)
    assert account.red() == red
    account.book(OPEN, used=11)  # 2 of it were admitted without the store
    assert account.red() == [*red, COUNTED]


def test_the_seed_draws_the_same_questions_again_at_two_different_gateways() -> None:
    drawn = [draw(7, number, GATEWAYS) for number in range(500)]
    assert drawn == [draw(7, number, GATEWAYS) for number in range(500)]
    assert drawn != [draw(8, number, GATEWAYS) for number in range(500)]
    assert len({question.identity for question in drawn}) == len(drawn)
    assert all(question.gateways[0] != question.gateways[1] for question in drawn)
    assert {question.how for question in drawn} == {"plain", "elsewhere", "at once", "hung up"}
