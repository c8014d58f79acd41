"""Fee terms: which ones a payment is under, what they take, and what a refund gives back of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from dataflows.payments.domain.decision import Context, Decision, Payment
from dataflows.payments.domain.policies import fees
from dataflows.payments.domain.policies.fees import FeeSchedule, FeeVersion, schedule_of
from dataflows.payments.domain.policies.in_force import Policies
from schemas.errors import InvalidCommand
from schemas.payments.policies import fee_policy, kinds
from tests.each import each
from tests.worlds.payments import payment_cases as cases

OTHERWISE = FeeSchedule(platform_bps=150, processor_bps=60)
EARLY, LATE = "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"


def document(effective_at: str = EARLY, **merchants: Any) -> dict[str, Any]:
    default = {"bps": 200, "fixed": {"USD": 30}, "refunds_return": "bps"}
    return {"effective_at": effective_at, "default": default, "merchants": merchants}


def version(number: int, **changes: Any) -> FeeVersion:
    return fees.read_version(number, kinds.canonical("fees", document(**changes), ()))


def at(moment: str) -> int:
    return version(1, effective_at=moment).effective_at


def test_the_newest_version_in_force_when_the_payment_was_made_counts() -> None:
    first, late, correction = (
        version(1, m_1={"bps": 10}),
        version(2, effective_at=LATE, m_1={"bps": 20}),
        version(3, effective_at="2026-06-01T00:00:00Z", m_1={"bps": 30}),
    )
    known = (correction, late, first)
    for moment, bps in [
        ("2025-12-31T23:59:59.999999Z", 150),
        (EARLY, 10),
        ("2026-05-31T23:59:59Z", 10),
        ("2026-06-01T02:00:00+02:00", 30),  # the same instant in another zone
        (LATE, 30),  # what was published last takes the place of what had not begun
    ]:
        assert schedule_of(known, "m_1", "USD", at(moment), OTHERWISE).platform_bps == bps, moment
    other = schedule_of(known, "m_2", "USD", at(EARLY), OTHERWISE)
    assert (other.platform_bps, other.platform_fixed_minor, other.returns_platform_fee) == (200, 30, True)
    assert schedule_of(known, "m_2", "EUR", at(EARLY), OTHERWISE).platform_fixed_minor == 0
    assert schedule_of(known, "m_1", "USD", at(EARLY), OTHERWISE).returns_platform_fee is False
    assert other.processor_bps == OTHERWISE.processor_bps, "what processors take is no matter of the platform's terms"


@given(
    captures=st.lists(st.integers(1, 10**12) | st.integers(1, 100), min_size=1, max_size=5),
    bps=st.integers(0, 10_000),
    fixed=st.integers(0, 10**9),
    refunds=st.lists(st.integers(1, 10**12), max_size=5),
)
def test_no_more_is_taken_than_captured_nor_returned_than_taken(
    captures: list[int], bps: int, fixed: int, refunds: list[int]
) -> None:
    terms = FeeSchedule(platform_bps=bps, platform_fixed_minor=fixed, returns_platform_fee=True)
    for captured in captures:
        assert 0 <= terms.platform_fee(captured) <= captured
        assert terms.platform_fee(captured) + terms.merchant_share(captured) == captured
    before = returned = 0
    for amount in refunds:
        after = min(sum(captures), before + amount)
        returned += terms.returned_fee(before, after, captures)
        before = after
    assert 0 <= returned <= sum(map(terms.platform_fee, captures))


def test_captures_that_were_too_small_for_a_fee_return_none() -> None:
    """Each was rounded by itself; their sum would have had one."""
    terms = FeeSchedule(platform_bps=150, returns_platform_fee=True)
    assert [terms.platform_fee(33), terms.platform_fee(66)] == [0, 1]
    assert (terms.returned_fee(0, 66, [33, 33]), terms.returned_fee(0, 66, [66])) == (0, 1)


def entries(decided: Decision) -> dict[str, int]:
    """What each account gets, over all postings."""
    found: dict[str, int] = {}
    for posting in decided.postings:
        for entry in posting.entries:
            found[entry.account_id] = found.get(entry.account_id, 0) + entry.credit - entry.debit
    return found


def decided(payment: Payment | None, command: Any, context: Context) -> tuple[Payment, Decision]:
    found = cases.commands.decide(payment, command, context)
    assert isinstance(found, Decision), found
    return cases.apply(payment, found), found


def test_a_payment_keeps_its_terms_through_capture_settlement_and_refund() -> None:
    """A version that comes into force between capture and refund changes nothing of a payment made before."""
    now = cases.CONTEXT.now
    first = structs.replace(version(1), effective_at=now)
    context = structs.replace(cases.CONTEXT, policies=Policies(fees=(first,)))
    payment, _ = decided(None, cases.create(amount=10_000), context)
    payment, _ = decided(payment, cases.confirm("tok_a"), context)
    second = structs.replace(version(2, m_1={"bps": 9_000}), effective_at=now + 1)
    later = structs.replace(context, now=now + 2, policies=Policies(fees=(second, first)))
    payment, purchased = decided(payment, cases.fact(payment, "captured"), later)
    took = entries(purchased)
    assert took["platform_fee_income:USD"] == 230
    assert (took[f"merchant_pending:{cases.MERCHANT}:USD"], payment.intent.amount_pending) == (9_770, 9_770)
    payment, _ = decided(payment, cases.refund(10_000), later)
    _, refunded = decided(payment, cases.fact(payment, "refunded"), later)
    assert entries(refunded)["platform_fee_income:USD"] == -200, "the fixed part stays"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    (document() | {"effective_at": "tomorrow"}, "effective_at"),
    (document() | {"effective_at": "2026-01-01T00:00:00"}, "effective_at"),
    (document() | {"effective_at": "9999-12-31T23:59:59-23:59"}, "effective_at"),
    (document() | {"effective_at": "0001-01-01T00:00:00+23:59"}, "effective_at"),
    (document() | {"default": {}}, "default"),
    (document() | {"default": {"bps": 10_001}}, "default.bps"),
    (document() | {"default": {"bps": -1}}, "default.bps"),
    (document() | {"default": {"bps": 1.5}}, "default.bps"),
    (document() | {"default": {"bps": 1, "fixed": {"USD": -1}}}, "default.fixed[...]"),
    (document() | {"default": {"bps": 1, "fixed": {"XXQ": 1}}}, "default.fixed.XXQ"),
    (document() | {"default": {"bps": 1, "refunds_return": "all"}}, "default.refunds_return"),
    (document(m_1={"bps": 1, "more": 1}), "merchants[...]"),
    (document() | {"version": 3}, ""),
]


@each(("wrong", "place"), WRONG)
def test_what_an_owner_could_not_evaluate_is_refused_at_the_door(wrong: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidCommand) as refused:
        kinds.canonical("fees", wrong, ())
    (fault,) = refused.value.errors
    assert fault["field"] == place


def test_a_document_reads_as_it_was_stored() -> None:
    body = kinds.canonical("fees", document("2026-01-01T02:00:00+02:00", m_1={"bps": 1}), ())
    assert msgspec.json.decode(body)["effective_at"] == EARLY
    assert fee_policy.canonical(fee_policy.read(body)) == body
