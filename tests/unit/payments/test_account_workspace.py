"""One batch of commands on accounts in memory: what is read, what counts, and what is written."""

from __future__ import annotations

from typing import Any

from dataflows.payments import account_workspace
from dataflows.payments.account_workspace import AccountWorkspace
from dataflows.payments.domain.accounts.account import AccountDecision
from dataflows.payments.ledger_batch import txn_id
from schemas.payments import money_by_hand
from schemas.payments.records import LedgerTxn
from schemas.records import Command, Denial, Rejection
from tests.worlds.payments import account_cases as cases
from tests.worlds.payments import payment_cases

PARTITION = 3


def run(workspace: AccountWorkspace, *steps: Command) -> list[AccountDecision | Rejection]:
    """Decides, posts and keeps as ``PaymentsWorkspace`` does."""
    found = []
    for n, step in enumerate(steps):
        decided = workspace.decide(step, cases.NOW)
        if isinstance(decided, AccountDecision):
            workspace.posted(
                LedgerTxn(
                    txn_id=txn_id(PARTITION, n, number),
                    reference=posting.reference,
                    kind=posting.kind,
                    effective_at=cases.NOW,
                    entries=posting.entries,
                )
                for number, posting in enumerate(decided.postings)
            )
            workspace.keep(decided)
        found.append(decided)
    return found


def over(held: int, **rows: Any) -> AccountWorkspace:
    """A workspace over what the database said."""
    return AccountWorkspace(PARTITION, {"accounts": [], "payouts": [], "held": [(cases.AVAILABLE, str(held))]} | rows)


def test_a_batch_without_accounts_asks_for_nothing() -> None:
    assert account_workspace.reads([payment_cases.create(), payment_cases.journal()]) == {}


def test_a_batch_asks_for_its_accounts_payouts_and_balances() -> None:
    made = cases.Books(available=600).made(cases.payout(600))
    steps = [cases.payout(1), cases.cancel(made), cases.reserve("release_reserve", 1), payment_cases.create()]
    asked = {name: column.values for name, (_, (column,)) in account_workspace.reads(steps).items()}
    assert asked == {
        "accounts": [cases.ACCOUNT],
        "payouts": [made.id],
        "held": [cases.AVAILABLE, "merchant_reserved:m_1:EUR"],
        "destinations": [cases.ACCOUNT],
        "approved": ["o"],
    }


def test_a_name_that_no_store_can_hold_does_not_fail_the_batch() -> None:
    """Payloads are judged one by one, after the read for all of them."""
    asked = account_workspace.reads([cases.payout(1, currency="E\x00R"), cases.payout(1, key="q")])
    assert asked["held"][1][0].values == [cases.AVAILABLE]


def test_what_the_batch_posts_counts_for_the_commands_behind_it() -> None:
    workspace = over(1_000)
    first, second, third = run(workspace, *(cases.payout(n, key=f"p{n}") for n in (600, 500, 400)))
    assert isinstance(first, AccountDecision)
    assert isinstance(second, Rejection)
    assert second.extra == {"available": 400}
    assert isinstance(third, AccountDecision)


def test_what_changes_twice_is_written_once() -> None:
    """A new account is inserted at its last version; a payout that was made and canceled in one batch is one row."""
    workspace = over(1_000)
    (made,) = run(workspace, cases.payout(600))
    assert isinstance(made, AccountDecision)
    assert made.payout is not None
    run(workspace, cases.cancel(made.payout))
    written = [sql.split("\n")[0].split(" (")[0] for sql, _ in workspace.writes()]
    assert written == ["insert into merchant_account", "insert into payout"]


def test_a_known_account_is_compared_with_the_version_that_was_read() -> None:
    row = (cases.ACCOUNT, cases.MERCHANT, "active", None, 7, cases.NOW, cases.NOW, PARTITION)
    workspace = over(1_000, accounts=[row])
    run(workspace, cases.payout(1), cases.payout(1, key="q"))
    (update, parameters), *_ = workspace.writes()
    assert "update merchant_account" in update
    assert list(parameters[1].values) == [7]
    assert workspace.elsewhere == set()
    assert over(0, accounts=[(*row[:-1], PARTITION + 1)]).elsewhere == {cases.ACCOUNT}


def test_what_moves_money_by_hand_is_done_as_it_was_approved() -> None:
    """The database says what was approved; neither the scope nor the payload of the record does."""
    step = cases.reserve("hold_reserve", 5, scope=money_by_hand.SCOPE)
    approved = [("o", "hold_reserve", step.payload)]
    (done,) = run(over(10, approved=approved), step)
    assert isinstance(done, AccountDecision)
    for rows, forged in (
        ([], step),
        ([("o", "release_reserve", step.payload)], step),
        (approved, cases.reserve("hold_reserve", 6, scope=money_by_hand.SCOPE)),
        (approved, cases.reserve("hold_reserve", 5, scope="operator:ghost")),
        (approved, cases.reserve("hold_reserve", 5, scope=money_by_hand.SCOPE, key="another")),
    ):
        (refused,) = run(over(10, approved=rows), forged)
        assert isinstance(refused, Denial)
    (freeze,) = run(over(10), cases.operator("freeze_account", reason="r"))
    assert isinstance(freeze, AccountDecision)
