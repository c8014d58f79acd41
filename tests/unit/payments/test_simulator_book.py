"""The book against a model that knows nothing of it: totals, replays, restarts, and what a fault may change."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compose.simulator import errors, limits
from compose.simulator.book.book import Book
from compose.simulator.book.reader import SECTIONS, BookReader
from compose.simulator.book.storage import BOOK_FILE_NAME, book_connect
from compose.simulator.executor import Query, Result
from compose.simulator.operations import modes
from compose.simulator.operations.nouns import Operation, Outcome, operation_read, provider_ref_for
from compose.simulator.refund_failures import FailDueRefunds
from compose.simulator.report_reader import ReportReader
from compose.simulator.settlements import Fault, MakeReport, ReportBody
from compose.simulator.webhooks import now_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compose.simulator.book.book import WorkResult

KEYS = [f"op_{number}" for number in range(12)]


def operation(key: str, kind: str = "purchase", amount: int = 10, **changes: Any) -> Operation:
    content = {"kind": kind, "reference": "pi_1", "amount": amount, "currency": "USD"} | changes
    if kind in {"authorize", "purchase"}:
        content.setdefault("token", "tok_sim_approve")
    else:
        content.setdefault("parent", provider_ref_for("op_0"))
    return operation_read(key, json.dumps(content).encode())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "simulator"


@pytest.fixture
def book(folder: Path) -> Iterator[Book]:
    with closing(Book(folder)) as opened:
        yield opened


def read_book(folder: Path) -> dict[str, list[dict[str, Any]]]:
    content: dict[str, list[dict[str, Any]]] = json.loads("".join(BookReader(folder).fragments()))
    return content


def outcome_of(result: WorkResult) -> Outcome:
    assert isinstance(result, Result)
    assert result.outcome is not None
    return result.outcome


WAITING = {
    "tok_sim_requires_action": (("authorize", "purchase"), "requires_action"),
    "tok_sim_refund_requires_action": (("refund",), "requires_action"),
    "tok_sim_refund_pending": (("refund",), "pending"),
}


class Model:
    """What must be true, from the sentences of the README: identities, holds and sums, and no database."""

    def __init__(self) -> None:
        self.outcomes: dict[str, tuple[str, int]] = {}
        self.bodies: dict[str, bytes] = {}
        self.sends: Counter[str] = Counter()
        self.holds: dict[str, tuple[int, str]] = {}
        self.captures: dict[str, tuple[int, str]] = {}

    def expect(self, sent: Operation) -> tuple[str, int] | str:  # noqa: C901, PLR0912 - one branch for each sentence
        key, body = sent.operation_id, sent.body
        if self.bodies.setdefault(key, sent.fingerprint) != sent.fingerprint:
            return "key_reused"
        if key in self.outcomes:
            return self.outcomes[key]
        parents = self.captures if body.kind == "refund" else self.holds
        left, token = parents.get(body.parent or "", (0, "tok_sim_approve"))
        token = body.token or token
        self.sends[key] += 1
        if token == "tok_sim_error_before_commit" and self.sends[key] == 1:
            return "nothing"
        booked = body.amount + (1 if token == "tok_sim_wrong_amount" else 0)
        kinds, waiting = WAITING.get(token, ((), ""))
        if body.kind in kinds:
            outcome = waiting, body.amount
        elif body.kind in {"authorize", "purchase"}:
            outcome = {"authorize": "authorized", "purchase": "captured"}[body.kind], booked
            if token in {"tok_sim_decline", "tok_none"}:
                outcome = "declined", body.amount
            elif body.kind == "authorize":
                self.holds[provider_ref_for(key)] = booked, token
            else:
                self.captures[provider_ref_for(key)] = booked, token
        elif body.kind == "refund" and body.parent in self.captures:
            outcome = self.refund(body.parent, body.amount, booked)
        elif body.kind == "capture" and 0 < booked <= left:
            outcome = "captured", booked
            self.captures[provider_ref_for(key)] = booked, token
            self.holds[str(body.parent)] = (0 if body.final else left - booked), token
        elif body.kind == "increment" and left:
            outcome = self.increment(str(body.parent), body.amount, booked)
        elif body.kind == "void" and left:
            outcome = "voided", left
            self.holds[str(body.parent)] = 0, token
        else:
            outcome = "failed", body.amount
        self.outcomes[key] = outcome
        return outcome

    def increment(self, hold: str, asked: int, booked: int) -> tuple[str, int]:
        left, token = self.holds[hold]
        if token == "tok_sim_increment_declined":
            return "declined", asked
        self.holds[hold] = left + booked, token
        return "authorized", booked

    def refund(self, capture: str, asked: int, booked: int) -> tuple[str, int]:
        left, token = self.captures[capture]
        if booked > left:
            return "declined", asked
        self.captures[capture] = left - booked, token
        return "refunded", booked


new_money = st.builds(
    operation,
    key=st.sampled_from(KEYS),
    kind=st.sampled_from(["authorize", "authorize", "purchase"]),
    amount=st.sampled_from([1, 50, 51]),
    token=st.sampled_from([*modes.MODES, "tok_none"]),
)
follow_up = st.builds(
    operation,
    key=st.sampled_from(KEYS),
    kind=st.sampled_from(["capture", "capture", "increment", "void", "refund", "refund"]),
    amount=st.sampled_from([1, 20, 50]),
    parent=st.sampled_from([provider_ref_for(key) for key in KEYS]),
    final=st.booleans(),
)
batches = st.lists(st.lists(new_money | follow_up, min_size=1, max_size=6), max_size=8)


@settings(deadline=None)
@given(batches=batches, is_reopened=st.booleans())
def test_the_book_is_the_sum_of_its_effects(batches: list[list[Operation]], is_reopened: bool) -> None:
    """Random sends, replays and reused keys in random batches, over restarts: answers and totals are the model's."""
    model = Model()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        book = Book(folder)
        for batch in batches:
            for sent, result in zip(batch, book.commit(batch), strict=True):
                expected = model.expect(sent)
                if isinstance(result, errors.SimulatorError):
                    assert result.code == expected
                elif result.outcome is None:
                    assert expected == "nothing"
                else:
                    assert (result.outcome.status, result.outcome.amount) == expected
            if is_reopened:
                book.close()
                book = Book(folder)
        for key in KEYS:
            (found,) = book.commit([Query(key)])
            assert isinstance(found, errors.NotFound) is (key not in model.outcomes)
        book.close()
        entries = read_book(folder)
    for section in SECTIONS:
        expected_entries = {key: amount for key, (status, amount) in model.outcomes.items() if status == section}
        assert {entry["operation_id"]: entry["amount"] for entry in entries[section]} == expected_entries
        assert len(entries[section]) == len(expected_entries)


def test_a_replay_repeats_the_outcome_and_a_failed_one_stays_failed(book: Book) -> None:
    """Rule: a business failure is frozen, so that a retry cannot succeed later by surprise."""
    capture = operation("op_1", "capture")
    (before,) = book.commit([capture])
    book.commit([operation("op_0", "authorize", 100)])
    (after,) = book.commit([capture])
    assert outcome_of(before).status == "failed"
    assert outcome_of(after) == outcome_of(before)


def test_one_identity_twice_in_one_batch_has_one_effect(book: Book, folder: Path) -> None:
    sent = operation("op_1")
    first, second = book.commit([sent, sent])
    assert outcome_of(first) == outcome_of(second)
    assert len(read_book(folder)["captured"]) == 1


def test_an_identity_belongs_to_the_first_body_even_when_nothing_was_executed(book: Book) -> None:
    first = operation("op_1", token="tok_sim_error_before_commit")
    other = operation("op_1", amount=11)
    not_executed, reused, executed = book.commit([first, other, first])
    assert isinstance(not_executed, Result)
    assert not_executed.outcome is None
    assert isinstance(reused, errors.KeyReused)
    assert outcome_of(executed).amount == 10


def test_captures_and_voids_follow_the_card_of_their_authorization(book: Book) -> None:
    """A manual capture can be lost too."""
    authorize = operation("op_0", "authorize", 100, token="tok_sim_error_before_commit")
    book.commit([authorize, authorize])
    capture, void = operation("op_1", "capture", 40, final=False), operation("op_2", "void", 60)
    results = [result for _ in range(2) for result in book.commit([capture, void])]
    seen = [r.outcome and (r.outcome.status, r.outcome.amount) for r in results if isinstance(r, Result)]
    assert seen == [None, None, ("captured", 40), ("voided", 60)]


def test_a_refused_row_fails_alone(book: Book, folder: Path) -> None:
    """The neighbours of a row that the database refuses are committed in the same call."""
    bad = Operation(operation_id="op_2", fingerprint=b"short", body=operation("op_2").body)
    first, refused, last = book.commit([operation("op_1"), bad, operation("op_3")])
    assert isinstance(refused, errors.BookUnavailable)
    assert outcome_of(first).status == outcome_of(last).status == "captured"
    assert [entry["operation_id"] for entry in read_book(folder)["captured"]] == ["op_1", "op_3"]


def test_a_full_disk_refuses_and_changes_nothing(book: Book, folder: Path) -> None:
    """The whole batch is refused, and the same identities go through when there is room again."""
    connection = book._connection
    connection.execute("PRAGMA max_page_count = 1")  # as small as it is now: SQLite then says that the disk is full
    batch = [operation(f"op_{number}", reference="r" * 200) for number in range(200)]
    refused = book.commit(batch)
    assert {type(result) for result in refused} == {errors.BookUnavailable}
    assert "full" in str(refused[0])
    assert read_book(folder)["captured"] == []
    connection.execute("PRAGMA max_page_count = 100000")
    assert {outcome_of(result).status for result in book.commit(batch)} == {"captured"}


def test_a_locked_book_is_unavailable_and_recovers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SIMULATOR_LOCK_WAIT_MS", 1)
    with closing(Book(folder)) as book, closing(book_connect(folder / BOOK_FILE_NAME)) as other:
        other.execute("BEGIN IMMEDIATE")
        (refused,) = book.commit([operation("op_1")])
        assert isinstance(refused, errors.BookUnavailable)
        other.execute("ROLLBACK")
        assert outcome_of(book.commit([operation("op_1")])[0]).status == "captured"


def test_commits_are_on_disk_when_they_return(book: Book) -> None:
    """A killed process proves nothing about a power cut; the settings that SQLite promises it for do."""
    pragmas = [book._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    assert pragmas == ["wal", 2]  # 2 is FULL


@pytest.mark.parametrize("statement", ["UPDATE operation SET amount = 1", "DELETE FROM operation"])
def test_the_book_cannot_be_rewritten(book: Book, folder: Path, statement: str) -> None:
    book.commit([operation("op_1")])
    with (
        closing(book_connect(folder / BOOK_FILE_NAME)) as other,
        pytest.raises(sqlite3.IntegrityError, match="book"),
    ):
        other.execute(statement)


def test_the_book_reads_in_pages_and_only_up_to_its_start(
    book: Book, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is committed while it is read is not in it: one consistent state."""
    monkeypatch.setattr(limits, "SIMULATOR_BOOK_PAGE_ENTRIES", 3)
    book.commit([operation(f"op_{number}") for number in range(10)])
    fragments = BookReader(folder).fragments()
    start = [next(fragments), next(fragments)]
    book.commit([operation("op_late"), operation("op_held", "authorize")])
    content = json.loads("".join([*start, *fragments]))
    assert [entry["operation_id"] for entry in content["captured"]] == KEYS[:10]
    assert content["authorized"] == content["voided"] == []


def test_a_damaged_book_is_refused_with_advice(folder: Path) -> None:
    folder.mkdir()
    (folder / BOOK_FILE_NAME).write_bytes(b"no database at all " * 100)
    with pytest.raises(errors.BookUnavailable, match="move the file away"):
        Book(folder)


_FIRST_KIND = """
CREATE TABLE operation (
    sequence INTEGER PRIMARY KEY, operation_id TEXT NOT NULL UNIQUE, fingerprint BLOB NOT NULL, token TEXT,
    kind TEXT NOT NULL CHECK (kind IN ('authorize', 'purchase', 'capture', 'void')), status TEXT NOT NULL,
    reference TEXT NOT NULL, amount INTEGER NOT NULL, currency TEXT NOT NULL, parent TEXT, decline_code TEXT,
    booked_at_ms INTEGER NOT NULL
) STRICT;
CREATE TRIGGER operation_never_leaves BEFORE DELETE ON operation BEGIN SELECT RAISE(ABORT, 'never'); END;
"""


def test_a_book_of_the_first_kind_is_brought_up_to_date(folder: Path) -> None:
    """Identities, effects and order stay; what was captured can be refunded, disputed and settled from now on."""
    sent = operation("op_1", amount=1_250)
    folder.mkdir()
    with closing(book_connect(folder / BOOK_FILE_NAME)) as old:
        old.executescript(_FIRST_KIND)
        rows = [
            (
                1,
                "op_1",
                sent.fingerprint,
                "tok_sim_approve",
                "purchase",
                "captured",
                "pi_1",
                1_250,
                "USD",
                None,
                None,
                5,
            ),
            (2, "op_2", b"f" * 32, "tok_sim_decline", "purchase", "declined", "pi_2", 10, "USD", None, "poor", 6),
        ]
        old.executemany("INSERT INTO operation VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    for _ in range(2):  # opened again it is left as it is
        with closing(Book(folder)) as book:
            (replayed,) = book.commit([sent])
            assert replayed.is_replay
    refund = operation("op_r", "refund", 1_250, parent=provider_ref_for("op_1"))
    with closing(Book(folder)) as book:
        refunded, report = book.commit([refund, MakeReport(ReportBody())])
        assert outcome_of(refunded).status == "refunded"
    text = "".join(ReportReader(folder).download(report["report_id"]))
    lines = [line.split(",")[2:10] for line in text.splitlines()[1:]]
    assert [(line[0], line[1], line[5:8]) for line in lines[:2]] == [
        ("charge", "op_1", ["1250", "8", "1242"]),
        ("refund", "op_r", ["-1250", "0", "-1250"]),
    ]
    with closing(book_connect(folder / BOOK_FILE_NAME)) as other, pytest.raises(sqlite3.IntegrityError, match="book"):
        other.execute("DELETE FROM operation")


def test_a_refused_deed_changes_nothing_and_its_neighbours_stand(book: Book, folder: Path) -> None:
    """A lie that cannot be planted takes back what was planted before it in the same report."""
    faults = [Fault(kind="missing", reference="pi_1"), Fault(kind="short", reference="pi_none")]
    first, refused, report = book.commit(
        [operation("op_1"), MakeReport(ReportBody(faults=faults)), MakeReport(ReportBody())]
    )
    assert outcome_of(first).status == "captured"
    assert isinstance(refused, errors.InvalidOperation)
    assert "op_1" in "".join(ReportReader(folder).download(report["report_id"]))


@pytest.mark.parametrize(
    "statement", ["UPDATE settlement_line SET gross = 1, net = 1 - fee", "DELETE FROM settlement_line"]
)
def test_a_report_cannot_be_rewritten(book: Book, folder: Path, statement: str) -> None:
    book.commit([operation("op_1"), MakeReport(ReportBody())])
    with (
        closing(book_connect(folder / BOOK_FILE_NAME)) as other,
        pytest.raises(sqlite3.IntegrityError, match="report"),
    ):
        other.execute(statement)


def test_the_book_pages_over_refunds_that_failed(book: Book, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of nothing but failed refunds is no end; what fails while it is read stands as it stood."""
    monkeypatch.setattr(limits, "SIMULATOR_BOOK_PAGE_ENTRIES", 2)
    book.commit([operation("op_0", amount=100, token="tok_sim_refund_fails_later"), operation("op_last", amount=100)])
    book.commit([operation(f"op_{n}", "refund", 1) for n in range(1, 6)])
    assert book.commit([FailDueRefunds(now_ms() + 10**6, tells=False)]) == [5]
    book.commit([operation("op_6", "refund", 1, parent=provider_ref_for("op_last"))])
    assert [e["operation_id"] for e in read_book(folder)["refunded"]] == ["op_6"]
    book.commit([operation("op_7", "refund", 1)])
    fragments = BookReader(folder).fragments()
    start = [next(fragments)]
    book.commit([FailDueRefunds(now_ms() + 10**6, tells=False)])
    content = json.loads("".join([*start, *fragments]))
    assert [e["operation_id"] for e in content["refunded"]] == ["op_6", "op_7"]
