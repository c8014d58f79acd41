"""Payers, holds and evidence in the book: booked once, told truly, and over restarts and upgrades."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from compose.simulator import errors, limits
from compose.simulator.actions import EndAction, EndDue, EndHold
from compose.simulator.book.book import Book
from compose.simulator.book.storage import BOOK_FILE_NAME
from compose.simulator.disputes import CloseDispute, OpenBody, OpenDispute
from compose.simulator.executor import Query
from compose.simulator.operations.nouns import provider_ref_for
from compose.simulator.statements import UPGRADE_BEFORE
from compose.simulator.webhooks import now_ms
from tests.unit.payments.test_simulator_book import operation, outcome_of, read_book

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LATER = limits.SIMULATOR_ACTION_MS + limits.SIMULATOR_SHORT_AUTHORIZATION_MS + 1


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    with closing(Book(tmp_path, tells=True)) as opened:
        yield opened


def told(folder: Path) -> list[str]:
    """The types of what is to be told, in order."""
    with closing(sqlite3.connect(folder / BOOK_FILE_NAME)) as connection:
        return [
            json.loads(body)["type"] for (body,) in connection.execute("SELECT body FROM webhook ORDER BY sequence")
        ]


def one(book: Book, work: Any) -> Any:
    (result,) = book.commit([work])
    return result


def test_nothing_is_booked_until_the_payer_has_acted_and_then_once(book: Book, tmp_path: Path) -> None:
    sent = operation("op_1", "purchase", 40, token="tok_sim_requires_action")
    for result in (one(book, sent), one(book, sent), one(book, Query("op_1"))):
        assert (outcome_of(result).status, outcome_of(result).amount) == ("requires_action", 40)
        assert str(outcome_of(result).redirect_url).endswith("/op_1")
    assert read_book(tmp_path)["captured"] == []
    assert isinstance(one(book, operation("op_1", "purchase", 41, token="tok_sim_requires_action")), errors.KeyReused)
    assert one(book, EndAction("op_1", "done", tells=True)) == {"operation_id": "op_1", "status": "captured"}
    assert outcome_of(one(book, sent)).status == "captured"
    assert isinstance(one(book, EndAction("op_1", "failed", tells=True)), errors.NotFound)
    assert [entry["amount"] for entry in read_book(tmp_path)["captured"]] == [40]
    assert told(tmp_path) == ["charge.requires_action", "charge.captured"]


def test_a_payer_that_fails_or_never_comes_back_has_paid_nothing(book: Book, tmp_path: Path) -> None:
    for key in ("op_1", "op_2"):
        one(book, operation(key, "authorize", 40, token="tok_sim_requires_action"))
    one(book, EndAction("op_1", "failed", tells=True))
    assert one(book, EndDue(now_ms(), tells=True)) == 0
    assert one(book, EndDue(now_ms() + LATER, tells=True)) == 1
    ended = [outcome_of(one(book, Query(key))) for key in ("op_1", "op_2")]
    assert [(o.status, o.decline_code) for o in ended] == [
        ("declined", "authentication_failed"),
        ("declined", "action_expired"),
    ]
    assert read_book(tmp_path)["authorized"] == []


def test_a_refund_that_waits_moves_its_money_at_the_end(book: Book, tmp_path: Path) -> None:
    one(book, operation("op_0", "purchase", 90, token="tok_sim_refund_requires_action"))
    one(book, operation("op_1", "refund", 60))
    one(book, operation("op_2", "refund", 60))
    assert one(book, EndAction("op_1", "done", tells=True))["status"] == "refunded"
    assert one(book, EndAction("op_2", "done", tells=True))["status"] == "declined", "the cap is of the end"
    assert [entry["amount"] for entry in read_book(tmp_path)["refunded"]] == [60]


def test_a_refund_may_be_pending_for_a_reason(book: Book, tmp_path: Path) -> None:
    one(book, operation("op_0", "purchase", 90, token="tok_sim_refund_pending"))
    for result in (one(book, operation("op_1", "refund", 60)), one(book, Query("op_1"))):
        assert (outcome_of(result).status, outcome_of(result).pending_reason) == ("pending", "insufficient_funds")
    assert read_book(tmp_path)["refunded"] == []
    assert one(book, EndAction("op_1", "done", tells=True))["status"] == "refunded"
    assert told(tmp_path) == ["charge.captured", "refund.pending", "refund.succeeded"]


def test_a_hold_grows_and_ends_with_what_is_left_of_it(book: Book, tmp_path: Path) -> None:
    assert outcome_of(one(book, operation("op_0", "authorize", 100))).authorized_until_ms is not None
    one(book, operation("op_1", "increment", 50))
    one(book, operation("op_2", "capture", 30, final=False))
    assert one(book, EndHold("op_0", tells=True)) == {"operation_id": "op_0", "released": 120}
    now = outcome_of(one(book, Query("op_0")))
    assert (now.status, now.amount, now.decline_code) == ("voided", 120, "expired")
    assert outcome_of(one(book, operation("op_0", "authorize", 100))).status == "authorized", (
        "a replay is the first answer"
    )
    late = [
        outcome_of(one(book, operation(f"op_{n}", kind, 10)))
        for n, kind in ((3, "capture"), (4, "void"), (5, "increment"))
    ]
    assert {o.decline_code for o in late} == {"authorization_closed"}
    assert isinstance(one(book, EndHold("op_0", tells=True)), errors.NotFound)
    assert "charge.expired" in told(tmp_path)
    assert [entry["amount"] for entry in read_book(tmp_path)["authorized"]] == [100, 50]


@pytest.mark.parametrize(
    ("token", "ends"), [("tok_sim_short_hold", 1), ("tok_sim_stubborn_hold", 0), ("tok_sim_approve", 0)]
)
def test_time_ends_the_holds_of_some_cards(book: Book, token: str, ends: int) -> None:
    one(book, operation("op_0", "authorize", 100, token=token))
    assert one(book, EndDue(now_ms(), tells=True)) == 0
    assert one(book, EndDue(now_ms() + LATER, tells=True)) == ends
    assert one(book, EndDue(now_ms() + LATER, tells=True)) == 0


def test_evidence_is_taken_once_and_may_decide(book: Book, tmp_path: Path) -> None:
    one(book, operation("op_0", "purchase", 90))
    dispute = one(book, OpenDispute(OpenBody(reference="pi_1", amount=90), tells=True))["id"]

    def say(key: str, text: str, amount: int = 90) -> Any:
        return outcome_of(one(book, operation(key, "evidence", amount, parent=dispute, evidence={"receipt": text})))

    assert say("op_1", "x", amount=89).decline_code == "dispute_mismatch"
    assert (say("op_2", "winning_evidence").status, say("op_2", "winning_evidence").status) == (
        "submitted",
        "submitted",
    )
    assert say("op_3", "y").decline_code == "evidence_submitted"
    (entry,) = read_book(tmp_path)["disputes"]
    assert (entry["status"], entry["evidence"]) == ("under_review", {"receipt": "winning_evidence"})
    assert told(tmp_path)[-1] == "dispute.updated"
    closed = one(book, CloseDispute(dispute, "lost", tells=True))
    assert (closed["status"], closed["funds"]) == ("won", "reinstated")
    assert one(book, CloseDispute(dispute, "lost", tells=True)) == closed
    assert say("op_4", "z").decline_code == "dispute_closed"
    lost = operation("op_5", "evidence", 90, parent=provider_ref_for("op_0"), evidence={"receipt": "x"})
    assert outcome_of(one(book, lost)).decline_code == "unknown_dispute"


def test_a_book_of_the_second_kind_becomes_one_of_today(tmp_path: Path) -> None:
    """Its operations are as they were, replays too, and what is new works in it."""
    sent = operation("op_0", "purchase", 90)
    with closing(Book(tmp_path)) as book:
        one(book, sent)
    with closing(sqlite3.connect(tmp_path / BOOK_FILE_NAME)) as connection:
        connection.executescript(
            f"{UPGRADE_BEFORE} CREATE TABLE operation AS SELECT * FROM operation_before; DROP TABLE operation_before;"
            " DROP TABLE action; DROP TABLE evidence; DROP TABLE hold_end; DROP TABLE hold_to_end; PRAGMA user_version = 2;"
        )
    with closing(Book(tmp_path)) as book:
        assert one(book, sent).is_replay
        one(book, operation("op_1", "authorize", 10))
        assert (
            outcome_of(one(book, operation("op_2", "increment", 5, parent=provider_ref_for("op_1")))).status
            == "authorized"
        )
    assert [entry["operation_id"] for entry in read_book(tmp_path)["captured"]] == ["op_0"]
