"""Merchants' accounts: what is refused and why, what each fact posts, and who may ask."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from msgspec import structs

from dataflows.payments.domain import commands as payments
from dataflows.payments.domain.accounts.account import AccountDecision
from dataflows.payments.domain.accounts.fx import agrees
from dataflows.payments.domain.policies.in_force import Policies
from schemas import errors, identity, limits
from schemas.payments.policies import kinds, reference_rates
from schemas.records import Command, Rejection
from tests.each import each
from tests.worlds.payments import account_cases as cases
from tests.worlds.payments import payment_cases

END_TO_END_ID_MAX = 35  # of ISO 20022: what a bank gives back to us


def refused(books: cases.Books, step: Command) -> Rejection:
    """The refusal, which must change nothing."""
    before = dict(books.held)
    decided = books.decide(step)
    assert isinstance(decided, Rejection)
    assert books.held == before
    return decided


def test_a_payout_takes_from_what_is_available_until_the_bank_has_paid() -> None:
    books = cases.Books(available=1_000)
    made = books.made(cases.payout(600))
    assert (made.state, made.version, books.held[cases.AVAILABLE], books.held[cases.TRANSIT]) == (
        "pending",
        1,
        400,
        600,
    )
    paid = books.made(cases.outcome(made, "paid"))
    assert (paid.state, paid.version) == ("paid", 2)
    assert (books.held[cases.TRANSIT], books.held[cases.CASH]) == (0, 600)
    assert books.known is not None
    assert books.known.account.version == 2


def test_no_payout_is_beyond_what_is_available() -> None:
    books = cases.Books(available=1_000)
    books.made(cases.payout(600, key="first"))
    refusal = refused(books, cases.payout(401, key="second"))
    assert (refusal.code, refusal.extra) == ("insufficient_funds", {"available": 400})
    assert books.made(cases.payout(400, key="third")).amount == 400


def test_a_debt_is_told_and_nothing_is_paid_out() -> None:
    refusal = refused(cases.Books(available=-5), cases.payout(1))
    assert refusal.extra == {"available": -5}


def test_a_refused_command_makes_no_account() -> None:
    books = cases.Books()
    refused(books, cases.payout(1))
    assert books.known is None


def test_only_a_pending_payout_can_be_canceled() -> None:
    books = cases.Books(available=1_000)
    made = books.made(cases.payout(600))
    assert books.made(cases.cancel(made)).state == "canceled"
    assert (books.held[cases.AVAILABLE], books.held[cases.TRANSIT]) == (1_000, 0)
    refusal = refused(books, cases.cancel(made, key="again"))
    assert (refusal.code, refusal.extra["current_state"]) == ("state_conflict", "canceled")


def test_the_version_of_a_payout_and_of_an_account_are_seen() -> None:
    books = cases.Books(available=1_000)
    made = books.made(cases.payout(600, expected_version=0))
    assert refused(books, cases.payout(1, key="q", expected_version=0)).extra == {"current_version": 1}
    assert refused(books, cases.cancel(made, expected_version=7)).extra == {"current_version": 1}
    assert books.made(cases.cancel(made, expected_version=1)).version == 2


def test_a_payout_that_failed_gives_the_money_back_before_and_after_it_was_paid() -> None:
    for statuses in (["failed"], ["paid", "failed"]):
        books = cases.Books(available=1_000)
        made = books.made(cases.payout(600))
        for status in statuses:
            made = books.made(cases.outcome(made, status))
        assert (made.state, made.failure_reason) == ("failed", "returned")
        assert books.held == {cases.AVAILABLE: 1_000, cases.TRANSIT: 0} | (
            {cases.CASH: 0} if "paid" in statuses else {}
        )


def test_a_canceled_payout_that_the_bank_paid_is_paid() -> None:
    """Money that moved anyway: the merchant may owe us then, and it is written down."""
    books = cases.Books(available=600)
    made = books.made(cases.payout(600))
    books.made(cases.cancel(made))
    books.made(cases.payout(600, key="again"))
    assert books.made(cases.outcome(made, "paid")).state == "paid"
    assert (books.held[cases.AVAILABLE], books.held[cases.CASH], books.held[cases.TRANSIT]) == (-600, 600, 600)


@pytest.mark.parametrize("is_canceled", [False, True])
def test_facts_in_any_order_end_alike(is_canceled: bool) -> None:
    ends = []
    for order in permutations(["paid", "failed", "paid"]):
        books = cases.Books(available=1_000)
        made = books.made(cases.payout(600))
        if is_canceled:
            books.made(cases.cancel(made))
        for status in order:
            books.decide(cases.outcome(made, status))
        assert books.known is not None
        held = {account: amount for account, amount in books.held.items() if amount}
        ends.append((books.known.payouts[made.id].state, held))
    assert ends == [("failed", {cases.AVAILABLE: 1_000})] * len(ends)


@pytest.mark.parametrize("said", [{"amount": 599}, {"currency": "USD"}])
def test_another_amount_than_ours_is_no_outcome(said: dict[str, object]) -> None:
    books = cases.Books(available=1_000)
    made = books.made(cases.payout(600))
    assert refused(books, cases.outcome(made, "paid", **said)).code == "amount_mismatch"


def test_a_payout_is_nobody_elses() -> None:
    books = cases.Books(available=1_000)
    made = books.made(cases.payout(600))
    assert refused(books, cases.cancel(made, merchant="m_2")).code == "not_found"
    assert refused(books, cases.outcome(made, "paid", scope="m_1")).code == "not_found"
    for scope in ("processor:simulator", "ledger:repair", "ledger:reconciliation2"):
        assert refused(books, cases.outcome(made, "paid", scope=scope)).code == "not_found"
    stranger = structs.replace(cases.payout(1, merchant="m_2"), aggregate_key=cases.ACCOUNT)
    assert refused(books, stranger).code == "not_found"


@pytest.mark.parametrize("operation", ["freeze_account", "unfreeze_account"])
@pytest.mark.parametrize("scope", ["m_1", "ledger:repair", "processor:simulator"])
def test_what_is_an_operators_is_no_others(operation: str, scope: str) -> None:
    assert refused(cases.Books(), cases.operator(operation, scope=scope, reason="x")).code == "not_found"


def test_a_frozen_account_pays_nothing_out_and_still_takes_facts() -> None:
    books = cases.Books(available=1_000)
    made = books.made(cases.payout(600))
    assert isinstance(books.decide(cases.operator("freeze_account", reason="court order")), AccountDecision)
    assert refused(books, cases.payout(1, key="q")).code == "account_frozen"
    assert refused(books, cases.operator("freeze_account", key="f2", reason="again")).code == "state_conflict"
    assert books.made(cases.outcome(made, "paid")).state == "paid"
    assert isinstance(books.decide(cases.operator("unfreeze_account", key="u", reason="settled")), AccountDecision)
    assert books.known is not None
    assert books.known.account.frozen_reason is None
    assert books.made(cases.payout(1, key="q2")).state == "pending"


@pytest.mark.parametrize("step", [payment_cases.create(), payment_cases.confirm(), payment_cases.refund()])
def test_a_frozen_merchant_begins_nothing(step: Command) -> None:
    context = structs.replace(payment_cases.CONTEXT, policies=Policies(frozen_merchants=frozenset({"m_1"})))
    decided = payments.decide(payment_cases.paid(), step, context)
    assert isinstance(decided, Rejection)
    assert decided.code == "account_frozen"


def test_what_is_under_way_at_a_frozen_merchant_goes_on() -> None:
    context = structs.replace(payment_cases.CONTEXT, policies=Policies(frozen_merchants=frozenset({"m_1"})))
    confirmed = payment_cases.after(payment_cases.after(None, payment_cases.create()), payment_cases.confirm())
    assert not isinstance(payments.decide(confirmed, payment_cases.fact(confirmed, "captured"), context), Rejection)


def test_a_reserve_is_held_and_released_as_far_as_there_is_money() -> None:
    books = cases.Books(available=1_000)
    assert isinstance(books.decide(cases.reserve("hold_reserve", 700)), AccountDecision)
    assert refused(books, cases.payout(301)).extra == {"available": 300}
    assert refused(books, cases.reserve("hold_reserve", 301, key="h2")).extra == {"available": 300}
    assert refused(books, cases.reserve("release_reserve", 701, key="r1")).extra == {"reserved": 700}
    assert isinstance(books.decide(cases.reserve("release_reserve", 700, key="r2")), AccountDecision)
    assert {a: n for a, n in books.held.items() if n} == {cases.AVAILABLE: 1_000}


def conversion(rate: str, source: int, target: int, **said: str) -> Command:
    """EUR to JPY, which has no decimals."""
    amounts: dict[str, object] = {"source_amount": source, "source_currency": "EUR", "target_amount": target}
    return cases.operator("convert_currency", **(amounts | {"target_currency": "JPY", "rate": rate} | said))


def test_an_exchange_balances_in_each_currency() -> None:
    books = cases.Books(available=10_000)
    assert isinstance(books.decide(conversion("162.35", 10_000, 16_235)), AccountDecision)
    assert books.held == {
        cases.AVAILABLE: 0,
        "fx_clearing:EUR": 10_000,
        "fx_clearing:JPY": -16_235,
        "merchant_available:m_1:JPY": 16_235,
    }


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (conversion("162.35", 10_000, 16_237), "invalid_command"),
        (conversion("162.35", 10_001, 16_237), "insufficient_funds"),
        (conversion("1", 10_000, 10_000, target_currency="EUR"), "invalid_command"),
        (conversion("1", 10_000, 10_000, target_currency="USD"), "no_reference_rate"),
        (conversion("163.98", 10_000, 16_398), "rate_outside_band"),
        (conversion("160.72", 10_000, 16_072), "rate_outside_band"),
    ],
)
def test_an_exchange_that_is_wrong_is_refused(step: Command, code: str) -> None:
    assert refused(cases.Books(available=10_000), step).code == code


@each(
    ("rates", "code"),
    [
        (None, "no_reference_rate"),
        (cases.rates_of({"EUR/JPY": ("162.35", 100)}, cases.NOW - 3_600_000_000), "no_reference_rate"),  # over
        (cases.rates_of({"EUR/JPY": ("162.35", 100)}, cases.NOW + 1), "no_reference_rate"),  # of later
        (cases.rates_of({"EUR/USD": ("162.35", 100)}), "no_reference_rate"),
        (cases.rates_of({"EUR/JPY": ("160", 146)}), "rate_outside_band"),  # 146.9 basis points away
        (cases.rates_of({"EUR/JPY": ("160", 147)}), None),
        (cases.rates_of({"JPY/EUR": ("0.00615", 15)}), "rate_outside_band"),  # the same pair the other way round
        (cases.rates_of({"JPY/EUR": ("0.00615", 16)}), None),
    ],
)
def test_money_is_exchanged_in_the_band_of_a_reference_that_is_in_force(rates: Any, code: str | None) -> None:
    """Two persons price nothing: what they state is looked up by the account's owner, in its own commit."""
    books = cases.Books(available=10_000)
    books.rates = rates
    decided = books.decide(conversion("162.35", 10_000, 16_235))
    assert (decided.code if isinstance(decided, Rejection) else None) == code
    assert books.held[cases.AVAILABLE] == (0 if code is None else 10_000)


RATES = {
    "source": "the bank",
    "as_of": "2026-12-01T00:00:00+01:00",
    "valid_until": "2026-12-02T00:00:00Z",
    "rates": {"EUR/JPY": {"rate": "162.35", "band_bps": 50}},
}


@each(
    ("changed", "field"),
    [
        ({}, None),
        ({"valid_until": "2026-12-01T00:00:00"}, "valid_until"),
        ({"valid_until": "2026-11-30T00:00:00Z"}, "valid_until"),
        ({"valid_until": "2027-12-01T00:00:00Z"}, "valid_until"),
        ({"rates": {"EUR/EUR": {"rate": "1", "band_bps": 1}}}, "rates.EUR/EUR"),
        ({"rates": {"EUR/QQQ": {"rate": "1", "band_bps": 1}}}, "rates.EUR/QQQ"),
        ({"rates": {p: {"rate": "1", "band_bps": 1} for p in ("EUR/JPY", "JPY/EUR")}}, "rates.JPY/EUR"),
        ({"rates": {"EUR/JPY": {"rate": "0.0", "band_bps": 1}}}, "rates"),
        ({"rates": {"EUR/JPY": {"rate": "1e9", "band_bps": 1}}}, "rates"),
        ({"rates": {"EUR/JPY": {"rate": "1", "band_bps": 1_001}}}, "rates"),
        ({"source": ""}, "source"),
    ],
)
def test_reference_rates_are_read_strictly(changed: dict[str, Any], field: str | None) -> None:
    try:
        body = kinds.canonical("reference_rates", RATES | changed, ())
    except errors.InvalidCommand as error:
        assert error.errors[0]["field"].startswith(str(field))
        return
    assert field is None
    assert reference_rates.read(body).as_of.isoformat() == "2026-11-30T23:00:00+00:00"


@each(
    ("rate", "source", "target", "is_so"),
    [
        ("1.5", (3, "USD"), (4, "EUR"), True),  # 4.5: either neighbour is within one unit
        ("1.5", (3, "USD"), (5, "EUR"), True),
        ("1.5", (3, "USD"), (6, "EUR"), False),
        ("1", (100, "USD"), (1_000, "KWD"), True),  # 2 decimals to 3
        ("1", (100, "USD"), (999, "KWD"), True),
        ("1", (100, "USD"), (998, "KWD"), False),
        ("0.000000000001", (limits.AMOUNT_MINOR_MAX, "KWD"), (1, "USD"), False),
        ("999999999999.999999999999", (1, "JPY"), (99_999_999_999_998, "USD"), False),
        ("999999999999.999999999999", (1, "JPY"), (100_000_000_000_000, "USD"), True),
    ],
)
def test_amounts_agree_with_a_rate_to_one_minor_unit(
    rate: str, source: tuple[int, str], target: tuple[int, str], is_so: bool
) -> None:
    assert agrees(rate, source, target) is is_so


@pytest.mark.parametrize("merchant", ["m", "m_1", "A-b_" * 16])
def test_a_payouts_id_names_its_account_and_fits_into_a_bank_transfer(merchant: str) -> None:
    account = identity.account_id(merchant)
    made = identity.payout_id(account, merchant, "POST /v1/payouts", "key")
    assert identity.account_of(made) == account
    assert len(made) <= END_TO_END_ID_MAX
    assert made != identity.payout_id(account, merchant, "POST /v1/payouts", "other")


@pytest.mark.parametrize("text", ["", "_", "pt", "pt_", "pt__", "\x00", "pt_a_b_c"])
def test_any_text_has_an_account(text: str) -> None:
    assert identity.account_of(text).startswith("ma_")


def posted(books: cases.Books, step: Command) -> list[tuple[str, str]]:
    """What a command posts: the end of each reference, and its kind. The invariants of the check read both."""
    decided = books.decide(step)
    assert isinstance(decided, AccountDecision), decided
    return [(posting.reference.partition(":")[2], posting.kind) for posting in decided.postings]


def test_references_and_kinds_are_what_the_invariants_read() -> None:
    books = cases.Books(available=10_000)
    assert posted(books, cases.payout(1, key="a")) == [("created", "payout")]
    assert posted(books, cases.payout(2, key="b")) == [("created", "payout")]
    assert books.known is not None
    first, second = books.known.payouts.values()
    assert posted(books, cases.outcome(first, "paid")) == [("paid", "payout_paid")]
    assert posted(books, cases.outcome(first, "failed")) == [("failed", "payout_failed")]
    assert posted(books, cases.cancel(second)) == [("canceled", "payout_canceled")]
    assert posted(books, cases.outcome(second, "paid")) == [("paid", "payout_paid")]
    assert posted(books, cases.reserve("hold_reserve", 5)) == [("reserve_held", "reserve_held")]
    assert posted(books, cases.reserve("release_reserve", 5, key="r")) == [("reserve_released", "reserve_released")]
    assert posted(books, conversion("162.35", 100, 162, key="x")) == [("exchanged", "exchanged")]
    assert posted(books, cases.payout(3, key="c")) == [("created", "payout")]
    third = [*books.known.payouts.values()][-1]
    assert posted(books, cases.outcome(third, "failed")) == [("failed", "payout_failed")]


def test_references_name_their_fact() -> None:
    """A change of a reserve, or an exchange, is known by its command: another key or person is another one."""
    books = cases.Books(available=10_000)
    steps = [
        cases.reserve("hold_reserve", 1, key="one"),
        cases.reserve("hold_reserve", 1, key="two"),
        cases.reserve("hold_reserve", 1, key="one", scope="operator:by_other"),
        conversion("162.35", 100, 162, key="one"),
        conversion("162.35", 100, 162, key="two"),
    ]
    for step in steps:
        assert isinstance(books.decide(step), AccountDecision)
    assert len(set(books.references)) == len(steps)
    assert [reference.partition("_")[0] for reference in books.references] == ["rs", "rs", "rs", "fx", "fx"]
