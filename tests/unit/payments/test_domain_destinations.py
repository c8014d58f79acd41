"""Payout destinations: what is a bank account, when money may go there, and who says so."""

from __future__ import annotations

from typing import Any

import pytest

from dataflows.payments.domain.accounts.account import PayoutTerms
from schemas.payments import bank_account, limits, rendering
from schemas.payments.operations import OPERATIONS
from schemas.records import Command, Rejection
from schemas.renderer import timestamp
from tests.each import each
from tests.worlds.payments import account_cases as cases

COOLING_OFF_US = limits.PAYOUT_COOLING_OFF_S * 1_000_000


def refused(books: cases.Books, step: Command) -> tuple[str, dict[str, Any]]:
    decided = books.decide(step)
    assert isinstance(decided, Rejection), decided
    return decided.code, decided.extra


def why_not(books: cases.Books, name: str, key: str) -> tuple[Any, Any]:
    code, extra = refused(books, cases.payout(1, key=key, destination=name))
    assert code == "destination_not_usable"
    return extra["reason"], extra["usable_at"]


# The examples of the IBAN registry (ISO 13616), and each with two digits exchanged.
@each(
    ("text", "is_one"),
    [
        *[(iban, True) for iban in ("AT611904300234573201", "DE89370400440532013000", "NO9386011117947")],
        *[(iban, True) for iban in ("GB29NWBK60161331926819", "MT84MALT011000012345MTLCAST001S")],
        *[(wrong, False) for wrong in ("AT611904300234573210", "DE89370400440523013000", "NO9386011117974", "")],
        *[
            (wrong, False)
            for wrong in ("at611904300234573201", "AT61 1904 3002 3457 3201", "AT6119043002345732\u0660\u0661")
        ],
    ],
)
def test_an_iban_is_known_by_its_check_digits(text: str, *, is_one: bool) -> None:
    assert bank_account.is_iban(text) == is_one


@each(
    ("said", "wrong"),
    [
        ({"account_number": cases.BANK}, []),
        ({"account_number": "000123456789", "bank_code": "110000000"}, []),
        ({"account_number": "000123456789"}, ["account_number"]),  # at which bank?
        ({"account_number": "AT611904300234573210"}, ["account_number"]),
        ({"account_number": "4242424242424242", "bank_code": "110000000"}, ["account_number"]),
        ({"account_number": "123", "bank_code": "110000000"}, ["account_number"]),
        ({"account_number": cases.BANK, "bank_code": "no bank"}, ["bank_code"]),
        ({"account_number": cases.BANK, "name": "4242 4242 4242 4242"}, ["name"]),
    ],
)
def test_what_is_no_bank_account_is_invalid(said: dict[str, Any], wrong: list[str]) -> None:
    _, found = OPERATIONS["create_payout_destination"].normalize({"name": "Hausbank"} | said)
    assert [fault["field"] for fault in found] == [f"payload.{name}" for name in wrong]


def test_a_new_destination_takes_money_when_its_time_is_over_and_not_before() -> None:
    books = cases.Books(available=10)
    made = books.registered(cases.register())
    assert (made.last4, made.country, made.state, made.version) == ("3201", "AT", "enabled", 1)
    assert made.usable_at == cases.NOW + COOLING_OFF_US
    books.now = made.usable_at - 1
    assert why_not(books, made.id, "early") == ("cooling_off", timestamp(made.usable_at))
    books.now = made.usable_at
    assert books.made(cases.payout(1, destination=made.id)).destination == made.id


def test_who_registered_one_is_paid_nowhere_else() -> None:
    """Also when all of them are disabled: else a stolen token would disable them first."""
    books = cases.Books(available=10)
    assert books.made(cases.payout(1, key="before", destination="main account"))
    made = books.registered(cases.register())
    other = cases.Books().registered(cases.register(merchant="m_2", key="other"))
    for n, name in enumerate(("main account", other.id, made.name, "")):
        assert why_not(books, name, f"p{n}") == ("not_registered", None)
    books.now = made.usable_at
    done = books.registered(cases.disable(made))
    assert (done.state, done.version) == ("disabled", 2)
    assert why_not(books, made.id, "p8") == ("disabled", None)
    assert why_not(books, "main account", "p9") == ("not_registered", None)
    assert refused(books, cases.disable(made, key="again"))[0] == "state_conflict"


def test_an_installation_may_pay_to_registered_ones_alone() -> None:
    books = cases.Books(available=10)
    books.terms = PayoutTerms(registered_only=True, cooling_off_s=60)
    assert why_not(books, "main account", "p") == ("not_registered", None)
    made = books.registered(cases.register())
    assert made.usable_at == cases.NOW + 60_000_000
    books.now = made.usable_at
    assert books.made(cases.payout(1, key="q", destination=made.id)).state == "pending"


def test_staff_ends_the_time_of_what_waits_and_of_nothing_else() -> None:
    books = cases.Books(available=10)
    made = books.registered(cases.register())
    assert refused(books, cases.allow(made, scope=cases.MERCHANT))[0] == "not_found", "no merchant does"
    allowed = books.registered(cases.allow(made))
    assert (allowed.usable_at, allowed.version, allowed.id) == (cases.NOW, 2, made.id)
    assert books.made(cases.payout(1, destination=made.id)).state == "pending"
    assert refused(books, cases.allow(made, key="again"))[0] == "state_conflict"
    gone = books.registered(cases.disable(books.registered(cases.register(key="e")), key="ee"))
    assert refused(books, cases.allow(gone, key="gone"))[0] == "state_conflict"
    assert refused(books, cases.disable(made, key="stale", expected_version=1)) == (
        "version_conflict",
        {"current_version": 2},
    )


def test_a_frozen_account_registers_nothing_and_may_disable() -> None:
    books = cases.Books()
    made = books.registered(cases.register())
    books.decide(cases.operator("freeze_account", reason="r"))
    assert refused(books, cases.register(key="e"))[0] == "account_frozen"
    assert books.registered(cases.disable(made)).state == "disabled"


def test_as_many_as_an_owner_reads_for_every_payout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PAYOUT_DESTINATIONS_MAX", 2)
    books = cases.Books()
    books.registered(cases.disable(books.registered(cases.register(key="0"))))
    books.registered(cases.register(key="1"))
    assert refused(books, cases.register(key="2"))[0] == "too_many_destinations"


def test_the_number_is_in_no_answer_and_in_no_event() -> None:
    decided = cases.Books().decide(cases.register())
    assert not isinstance(decided, Rejection)
    assert decided.account_number == cases.BANK
    assert decided.destination is not None
    shown = rendering.payout_destination(decided.destination)
    assert cases.BANK not in repr((decided.destination, shown))
    assert (shown["last4"], shown["usable_at"]) == ("3201", timestamp(cases.NOW + COOLING_OFF_US))
    assert "account_id" not in shown
