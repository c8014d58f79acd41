"""Refunds at the simulator: capped per capture, once per identity, and some fail after they succeeded."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from compose.simulator import limits
from tests.eventually import becomes, eventually
from tests.worlds.payments.simulator_process import Simulator, key, running, simulator

__all__ = ["key", "simulator"]

_FAILS_WITHIN_S = limits.SIMULATOR_REFUND_FAILS_AFTER_MS / 1_000 + 5


def test_refunds_are_capped_by_their_capture(simulator: Simulator, key: str) -> None:
    """Several refunds share out what was taken; one cent more is declined, for good."""
    taken = simulator.captured(key, 1_000)
    first = simulator.post(f"{key}_a", "refund", 400, parent=taken).json()
    assert (first["status"], first["amount"], first["decline_code"]) == ("refunded", 400, None)
    over = simulator.post(f"{key}_b", "refund", 601, parent=taken).json()
    assert (over["status"], over["decline_code"]) == ("declined", "amount_exceeds_refundable")
    assert simulator.post(f"{key}_c", "refund", 600, parent=taken).json()["status"] == "refunded"
    assert simulator.post(f"{key}_b", "refund", 601, parent=taken).json() == over
    assert simulator.book(key, f"{key}_a", f"{key}_b", f"{key}_c") == {
        "captured": {key: 1_000},
        "authorized": {},
        "voided": {},
        "refunded": {f"{key}_a": 400, f"{key}_c": 600},
    }


def test_a_refund_has_one_effect(simulator: Simulator, key: str) -> None:
    taken = simulator.captured(key)
    first = simulator.post(f"{key}_r", "refund", 60, parent=taken)
    again = simulator.post(f"{key}_r", "refund", 60, parent=taken)
    assert (again.content, again.headers["idempotency-replayed"]) == (first.content, "true")
    assert simulator.post(f"{key}_r", "refund", 61, parent=taken).json()["code"] == "key_reused"
    assert simulator.query(f"{key}_r").content == first.content
    assert simulator.book(f"{key}_r")["refunded"] == {f"{key}_r": 60}


def test_refunds_race_for_one_capture_and_never_pass_it(simulator: Simulator, key: str) -> None:
    """Twenty refunds of 30 from a capture of 100: exactly three fit. Trap: two refunds race for the last cent."""
    taken = simulator.captured(key, 100)
    keys = [f"{key}_{number}" for number in range(20)]
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda k: simulator.post(k, "refund", 30, parent=taken).json(), keys))
    assert Counter(answer["status"] for answer in answers) == {"refunded": 3, "declined": 17}
    assert sum(simulator.book(*keys)["refunded"].values()) == 90


def test_a_refund_of_a_captured_hold_works_and_of_the_hold_does_not(simulator: Simulator, key: str) -> None:
    """The parent is the operation that took the money."""
    hold = simulator.post(key, "authorize", 500).json()["provider_ref"]
    taken = simulator.post(f"{key}_c", "capture", 300, parent=hold).json()["provider_ref"]
    assert simulator.post(f"{key}_r", "refund", 300, parent=taken).json()["status"] == "refunded"
    refused = simulator.post(f"{key}_h", "refund", 1, parent=hold).json()
    assert (refused["status"], refused["decline_code"]) == ("failed", "unknown_capture")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"parent": "sim_none"}, "unknown_capture"),
        ({"currency": "EUR"}, "currency_mismatch"),
        ({"reference": "pi_other"}, "reference_mismatch"),
    ],
)
def test_a_refund_of_something_else_fails(simulator: Simulator, key: str, changes: dict[str, str], code: str) -> None:
    taken = simulator.captured(key)
    answer = simulator.post(f"{key}_r", "refund", **({"parent": taken} | changes)).json()
    assert (answer["status"], answer["decline_code"]) == ("failed", code)
    assert simulator.book(f"{key}_r")["refunded"] == {}


def test_a_refund_follows_the_card_of_its_capture(simulator: Simulator, key: str) -> None:
    """Its answer can be lost as well; the effect is there once."""
    with pytest.raises(httpx.RemoteProtocolError):
        simulator.post(key, token="tok_sim_timeout_after_commit")
    taken = simulator.query(key).json()["provider_ref"]
    with pytest.raises(httpx.RemoteProtocolError):
        simulator.post(f"{key}_r", "refund", 40, parent=taken)
    assert simulator.query(f"{key}_r").json()["status"] == "refunded"
    assert simulator.post(f"{key}_r", "refund", 40, parent=taken).json()["status"] == "refunded"
    assert simulator.book(f"{key}_r")["refunded"] == {f"{key}_r": 40}


@pytest.mark.faults
def test_a_refund_that_fails_later_gives_the_money_back_even_after_kill_9(tmp_path: Path) -> None:
    """It stands in the book until then; afterwards nothing of it is left and the amount may be refunded again."""
    with running(tmp_path) as simulator:
        tries = itertools.count()

        def refunded() -> tuple[str, str, httpx.Response, dict[str, int], str] | None:
            """A refund, and what was to be seen before it failed; nothing where this machine slept through that."""
            one, began = f"op_{next(tries)}", time.monotonic()
            taken = simulator.captured(one, token="tok_sim_refund_fails_later")
            answer = simulator.post(f"{one}_r", "refund", parent=taken)
            booked = simulator.book(f"{one}_r")["refunded"]
            more = simulator.post(f"{one}_more", "refund", parent=taken).json()["status"]
            is_early = time.monotonic() - began < limits.SIMULATOR_REFUND_FAILS_AFTER_MS / 1_000
            return (one, taken, answer, booked, more) if is_early else None

        one, taken, answer, booked, more = eventually(refunded)
        assert answer.json()["status"] == "refunded"
        assert booked == {f"{one}_r": 100}
        assert more == "declined"
        simulator.kill_and_restart()
        becomes(lambda: simulator.book(f"{one}_r")["refunded"], {}, _FAILS_WITHIN_S)
        now = simulator.query(f"{one}_r").json()
        assert (now["status"], now["decline_code"], now["amount"]) == ("failed", "expired_or_canceled_card", 100)
        assert simulator.post(f"{one}_r", "refund", parent=taken).content == answer.content  # a send repeats its answer
        assert simulator.post(f"{one}_again", "refund", parent=taken).json()["status"] == "refunded"


@pytest.mark.parametrize(
    ("number", "status", "code"),
    [
        ("4242424242424242", "captured", None),
        ("4000000000000002", "declined", "card_declined"),
        ("5555555555554444", "captured", None),
    ],
)
def test_a_card_pays_by_its_number_and_the_book_forgets_it(
    simulator: Simulator, key: str, number: str, status: str, code: str | None
) -> None:
    """Neither the answer nor any file of the processor holds the number; a replay is still the same operation."""
    card = {"number": number, "exp_month": 12, "exp_year": 2035, "cvc": "999"}
    first = simulator.post(key, token=None, card=card)
    assert (first.json()["status"], first.json()["decline_code"]) == (status, code)
    assert simulator.post(key, token=None, card=card).content == first.content
    files = [file.read_bytes() for file in simulator.folder.iterdir()]
    assert files
    assert not any(number.encode() in content for content in files)
