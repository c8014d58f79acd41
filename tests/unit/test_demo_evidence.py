"""The comparisons of the demo find what differs, and nothing else."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from compose.proof.kit.evidence import BookLine, Effect, compare_books, compare_volumes, unbalanced
from compose.proof.kit.journal import CURRENT, Journal, LossyTransport

HOUR = datetime(2026, 1, 1, 12, tzinfo=UTC)
CAPTURE = Effect("captured", "pi_1", "GBP", 100)


def volume(**changes: Any) -> dict[str, Any]:
    counts = dict.fromkeys(("intents", "intents_succeeded", "intents_refused", "intents_canceled", "intents_open"), 1)
    row = {"merchant_id": "m", "currency": "GBP", "hour": HOUR, **counts, "requested_minor": 10, "received_minor": 5}
    return row | changes


def test_equal_books_agree():
    lines, apart = compare_books({"op_1": CAPTURE}, {"op_1": CAPTURE})
    assert apart == []
    assert lines == {("captured", "GBP"): BookLine(1, 100, 1, 100)}


@pytest.mark.parametrize(
    ("book", "ledger"),
    [
        ({"op_1": CAPTURE}, {}),
        ({}, {"op_1": CAPTURE}),
        ({"op_1": CAPTURE}, {"op_1": Effect("captured", "pi_1", "GBP", 101)}),
        ({"op_1": CAPTURE}, {"op_1": Effect("captured", "pi_1", "JPY", 100)}),
        ({"op_1": CAPTURE}, {"op_1": Effect("captured", "pi_2", "GBP", 100)}),
        ({"op_1": CAPTURE}, {"op_1": Effect("authorized", "pi_1", "GBP", 100)}),
    ],
)
def test_one_operation_apart_is_found(book: dict[str, Effect], ledger: dict[str, Effect]):
    """Lost here, doubled there, or another amount, currency, payment or effect: one difference each."""
    assert len(compare_books(book, ledger)[1]) == 1


def test_equal_sums_of_different_operations_are_found():
    """Two wrongs that add up to the same total are still two differences."""
    book = {"op_1": CAPTURE, "op_2": Effect("captured", "pi_2", "GBP", 50)}
    ledger = {"op_1": Effect("captured", "pi_1", "GBP", 50), "op_2": Effect("captured", "pi_2", "GBP", 100)}
    lines, apart = compare_books(book, ledger)
    assert lines["captured", "GBP"] == BookLine(2, 150, 2, 150)
    assert len(apart) == 2


def test_volumes_are_compared_row_by_row():
    assert compare_volumes([volume()], [volume()]) == []
    assert len(compare_volumes([volume()], [volume(received_minor=6)])) == 1
    assert len(compare_volumes([volume()], [])) == 1
    assert len(compare_volumes([], [volume()])) == 1
    assert len(compare_volumes([volume()], [volume(currency="JPY")])) == 2


def test_a_ledger_off_balance_is_named_by_currency():
    rows = [
        {"account": "a", "currency": "GBP", "debits": 5, "credits": 0},
        {"account": "b", "currency": "GBP", "debits": 0, "credits": 4},
        {"account": "a", "currency": "JPY", "debits": 7, "credits": 7},
    ]
    assert unbalanced(rows) == ["the ledger is 1 minor units off balance in GBP"]


async def lossy(journal: Journal, method: str) -> httpx.Response:
    CURRENT.set(journal)
    inner = httpx.MockTransport(lambda _: httpx.Response(201, json={}))
    async with httpx.AsyncClient(transport=LossyTransport(inner), base_url="http://millrace") as client:
        return await client.request(method, "/v1/payment_intents")


def test_a_lost_answer_was_given_and_is_not_heard():
    """The service has answered; the caller hears a broken connection, once."""
    journal = Journal(answers_to_lose=1)
    with pytest.raises(httpx.ReadError):
        asyncio.run(lossy(journal, "POST"))
    assert asyncio.run(lossy(journal, "POST")).status_code == 201
    assert [(exchange.status, exchange.was_lost) for exchange in journal.exchanges] == [(201, True), (201, False)]


def test_only_commands_lose_their_answers():
    journal = Journal(answers_to_lose=1)
    assert asyncio.run(lossy(journal, "GET")).status_code == 201
    assert journal.answers_to_lose == 1
