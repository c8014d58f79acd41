"""Journal entries: transactions of no payment, posted once, and only when they balance."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from dataflows.payments.domain.ledger.journal import JournalEntry, decide_post
from schemas.payments import repair
from schemas.payments.facts import journal_id
from schemas.records import Command, Denial, Rejection
from tests.each import each
from tests.worlds.payments import payment_cases as cases

REFERENCE = "payout:sim:1"
ENTRIES = [
    {"account_id": "cash:bank:USD", "debit": 700, "credit": 0, "currency": "USD"},
    {"account_id": "payout_in_transit:sim:USD", "debit": 0, "credit": 700, "currency": "USD"},
]


def command(entries: list[dict[str, Any]] | None = None, key: str | None = None, **changes: Any) -> Command:
    payload = {"reference": REFERENCE, "kind": "payout", "entries": entries or ENTRIES, "note": None} | changes
    return cases.command(
        cases.JOURNAL, payload, scope="ledger:reconciliation", aggregate_key=key or journal_id(REFERENCE)
    )


def code_of(found: JournalEntry | Rejection) -> str:
    assert isinstance(found, Rejection)
    assert found.code != "invalid_command" or found.extra["errors"], "a wrong value has its field"
    return found.code


def test_an_entry_is_what_was_asked_for() -> None:
    found = decide_post(command(note="seen"), exists=False)
    assert isinstance(found, JournalEntry)
    assert (found.id, found.note) == (journal_id(REFERENCE), "seen")
    posting = found.posting
    assert (posting.reference, posting.kind) == (REFERENCE, "payout")
    assert [(e.account_id, e.debit, e.credit, e.currency) for e in posting.entries] == [
        tuple(entry.values()) for entry in ENTRIES
    ]


def test_an_entry_is_a_value_that_nobody_changes_between_the_decision_and_the_posting() -> None:
    found = decide_post(command(), exists=False)
    assert isinstance(found, JournalEntry)
    with pytest.raises(AttributeError):
        found.id = "jr_another"  # type: ignore[misc] # frozen
    with pytest.raises(TypeError):
        JournalEntry(found.id, found.posting, None)  # type: ignore[misc] # by name only: an id and a note are both texts


def test_what_exists_is_not_posted_again() -> None:
    found = decide_post(command(), exists=True)
    assert code_of(found) == "state_conflict"
    assert isinstance(found, Rejection)
    assert found.extra == {"current_state": "posted"}


def test_an_entry_is_named_by_its_reference() -> None:
    """Under another name the same reference would have two owners, and would be posted twice."""
    assert code_of(decide_post(command(key=journal_id("payout:sim:2")), exists=False)) == "invalid_command"


@pytest.mark.parametrize("reference", ["op_a_1:capture", "re_a_b", "dp_a_b:withdrawn"])
def test_a_reference_of_a_payment_is_the_payments(reference: str) -> None:
    found = decide_post(command(key=journal_id(reference), reference=reference), exists=False)
    assert code_of(found) == "invalid_command"


@pytest.mark.parametrize("scope", ["m_1", "ledger:", "ledger:test", "ledger:repair2", "ledger:reconciliation2"])
def test_only_repairs_and_reconciliation_post(scope: str) -> None:
    """Each is bound in what it may say; another name of the ledger's would be bound by nothing."""
    mine = structs.replace(command(), scope=scope)
    assert code_of(decide_post(mine, exists=False)) == "not_found"
    assert code_of(decide_post(mine, exists=True)) == "not_found"


@pytest.mark.parametrize(
    ("version", "code"), [(None, None), (0, None), (1, "version_conflict"), (7, "version_conflict")]
)
def test_what_does_not_exist_yet_has_no_version(version: int | None, code: str | None) -> None:
    found = decide_post(structs.replace(command(), expected_version=version), exists=False)
    assert (found.code if isinstance(found, Rejection) else None) == code
    if isinstance(found, Rejection):
        assert found.extra == {"current_version": 0}


def changed(place: int, **changes: Any) -> list[dict[str, Any]]:
    entries = [dict(entry) for entry in ENTRIES]
    entries[place] |= changes
    return entries


@each(
    "entries",
    [
        changed(0, debit=701),
        changed(1, credit=699),
        changed(1, currency="EUR"),
        changed(0, account_id="cash:bank:EUR"),
        changed(1, account_id="payout_in_transit:sim"),
        changed(0, debit=0),
        changed(0, credit=700),
        [*ENTRIES, {"account_id": "rounding:USD", "debit": 0, "credit": 0, "currency": "USD"}],
        [*ENTRIES, {"account_id": "rounding:EUR", "debit": 1, "credit": 0, "currency": "EUR"}],
    ],
)
def test_what_does_not_balance_or_says_nothing_is_refused(entries: list[dict[str, Any]]) -> None:
    found = decide_post(command(entries), exists=False)
    assert code_of(found) == "invalid_command"


def test_each_currency_balances_by_itself() -> None:
    euros = [e | {"account_id": e["account_id"].replace("USD", "EUR"), "currency": "EUR"} for e in ENTRIES]
    entries = [*ENTRIES, *euros]
    assert isinstance(decide_post(command(entries), exists=False), JournalEntry)


def _repair(**changes: Any) -> Command:
    entries = [
        {"account_id": "recon_suspense:sim:USD", "debit": 7, "credit": 0, "currency": "USD"},
        {"account_id": "merchant_available:m_1:USD", "debit": 0, "credit": 7, "currency": "USD"},
    ]
    made = repair.command_of("rp_1", "write_off", entries, "why", "user:ann", "user:bob", 1)
    return structs.replace(made, payload=made.payload | changes)


def test_a_repair_is_posted_as_two_persons_approved_it() -> None:
    """Nothing of the proposal, another proposal, or other content than was approved: refused for now, and not stored."""
    assert isinstance(decide_post(_repair(), exists=False, approved=_repair()), JournalEntry)
    for approved in (None, _repair(note="another"), _repair(entries=ENTRIES), _repair(kind="repair_reversal")):
        found = decide_post(_repair(), exists=False, approved=approved)
        assert isinstance(found, Denial)
        assert found.extra == {"current_state": "not_approved"}


def test_reconciliation_gives_no_merchant_anything() -> None:
    entries = [
        {"account_id": "cash:bank:USD", "debit": 7, "credit": 0, "currency": "USD"},
        {"account_id": "merchant_available:m_1:USD", "debit": 0, "credit": 7, "currency": "USD"},
    ]
    assert code_of(decide_post(command(entries), exists=False)) == "invalid_command"
