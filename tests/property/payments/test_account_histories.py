"""Random histories of one account: nothing is paid out that is not there, and what is on its way is what is pending."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from dataflows.payments.domain.accounts.account import AccountDecision
from schemas.payments.records import Payout
from schemas.records import Command
from tests.worlds.payments import account_cases as cases

if TYPE_CHECKING:
    from collections.abc import Callable

_AMOUNTS = st.integers(1, 700)
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["payout", "hold", "release", "fund", "debt"]), _AMOUNTS),
        st.tuples(st.sampled_from(["cancel", "paid", "failed"]), st.integers(0, 9)),
        st.tuples(st.sampled_from(["freeze", "unfreeze"]), st.just(0)),
    ),
    max_size=60,
)


def _step(what: str, number: int, key: str, made: list[Payout]) -> Command | None:
    """The command of a step; None when there is no payout to work on."""
    if what in ("cancel", "paid", "failed"):
        if not made:
            return None
        chosen = made[number % len(made)]
        return cases.cancel(chosen, key=key) if what == "cancel" else cases.outcome(chosen, what)
    plain: dict[str, Callable[[], Command]] = {
        "payout": lambda: cases.payout(number, key=key),
        "hold": lambda: cases.reserve("hold_reserve", number, key=key),
        "release": lambda: cases.reserve("release_reserve", number, key=key),
        "freeze": lambda: cases.operator("freeze_account", key=key, reason="r"),
        "unfreeze": lambda: cases.operator("unfreeze_account", key=key, reason="r"),
    }
    return plain[what]()


@given(steps=_STEPS, opening=st.integers(0, 2_000))
def test_any_history_spends_only_what_there_is(steps: list[tuple[str, int]], opening: int) -> None:
    """``Books`` refuses a reference that posts twice and a posting that does not balance."""
    books, made, elsewhere = cases.Books(available=opening), [], 0
    for n, (what, number) in enumerate(steps):
        if what in ("fund", "debt"):  # payments of other partitions: credits, and debits that ask nobody
            change = number if what == "fund" else -number
            books.held[cases.AVAILABLE] += change
            elsewhere += change
            continue
        step = _step(what, number, f"k{n}", made)
        if step is None:
            continue
        before = books.held[cases.AVAILABLE]
        is_frozen = books.known is not None and books.known.account.state == "frozen"
        decided = books.decide(step)
        if not isinstance(decided, AccountDecision):
            continue
        if what == "payout":
            assert not is_frozen
            assert decided.payout is not None
            assert decided.payout.amount <= before
            made.append(decided.payout)
        if what in ("payout", "hold"):
            assert books.held[cases.AVAILABLE] >= 0
    payouts = books.known.payouts.values() if books.known else []
    pending = sum(p.amount for p in payouts if p.state == "pending")
    paid = sum(p.amount for p in payouts if p.state == "paid")
    reserved = books.held.get("merchant_reserved:m_1:EUR", 0)
    assert books.held.get(cases.TRANSIT, 0) == pending
    assert books.held.get(cases.CASH, 0) == paid
    assert reserved >= 0
    assert books.held[cases.AVAILABLE] + reserved + pending + paid == opening + elsewhere
