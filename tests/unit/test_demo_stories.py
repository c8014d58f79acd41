"""The stories of the demo: amounts that add up, endings that follow, and every kind and disturbance present."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from compose import limits as compose_limits
from compose.proof.demo.invoice_generator import generated_invoices
from compose.proof.demo.invoices import Invoice
from compose.proof.demo.stories import Disturbance, Story, stories_of
from schemas import limits
from schemas.fields.currency import EXPONENTS

amounts = st.integers(1, limits.AMOUNT_MINOR_MAX)


def invoices_of(totals: list[int]) -> list[Invoice]:
    return [
        Invoice(number=str(n), date="", customer=str(n), country="", total_minor_gbp=total, lines=1)
        for n, total in enumerate(totals)
    ]


@given(st.lists(amounts, min_size=1, max_size=60))
def test_no_story_asks_for_what_the_service_must_refuse(totals: list[int]):
    """Amounts and captures are whole, above zero, and never past what was authorized."""
    for story in stories_of(invoices_of(totals)):
        assert 1 <= story.amount <= limits.AMOUNT_MINOR_MAX
        assert all(capture > 0 for capture in story.captures)
        assert sum(story.captures) <= story.amount
        assert 0 <= story.received <= story.amount
        assert (story.received > 0) == (story.ending == "succeeded")
        assert bool(story.captures) <= story.kind.is_manual


@given(amounts)
def test_shares_of_the_whole_leave_nothing(total: int):
    for story in stories_of(invoices_of([total] * 20)):
        if sum(story.kind.captures) == 100:
            assert sum(story.captures) == story.amount


def test_the_generated_demo_holds_everything():
    """Exponents 0, 2, 3 and 4, every disturbance, every ending, both doors, several captures, cancels and second cards."""
    stories = stories_of(generated_invoices(compose_limits.DEMO_INVOICE_COUNT).payable)
    assert {EXPONENTS[story.currency] for story in stories} == {0, 2, 3, 4}
    assert {story.disturbance for story in stories} == set(Disturbance)
    assert {story.ending for story in stories} == {"succeeded", "canceled", "requires_payment_method"}
    assert {story.is_bulk for story in stories} == {True, False}
    assert {len(story.captures) for story in stories} == {0, 1, 2, 3}
    assert {story.kind.cancel for story in stories} == {"", "before_confirm", "after_authorize"}
    cards = Counter(story.kind.card for story in stories)
    assert cards.keys() == {
        "tok_sim_approve",
        "tok_sim_decline",
        "tok_sim_slow",
        "tok_sim_timeout_after_commit",
        "tok_sim_error_before_commit",
        "tok_sim_error_after_commit",
    }
    assert cards["tok_sim_approve"] > len(stories) / 2
    assert len({story.merchant for story in stories}) > 1


def test_every_kind_meets_every_disturbance():
    """The cycles have no common divisor: in a long file all pairs come."""
    stories = stories_of(invoices_of([5_000] * 2_000))
    pairs = {(story.kind, story.disturbance) for story in stories}
    kinds = {story.kind for story in stories}
    assert len(pairs) == len(kinds) * len(Disturbance)


def test_the_same_file_is_the_same_demo():
    invoices = generated_invoices(40).payable
    first: list[Story] = stories_of(invoices)
    assert stories_of(invoices) == first
