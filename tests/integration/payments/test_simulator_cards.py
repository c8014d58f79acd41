"""Cards of the simulator: what each token does, and that an identity has one effect."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from compose.simulator import limits
from tests.eventually import becomes, eventually
from tests.worlds.payments.simulator_process import (
    ANSWER_WITHIN_S,
    HOLD_MS,
    UNREADABLE,
    Simulator,
    content_of,
    key,
    simulator,
)

__all__ = ["key", "simulator"]


def test_approve_books_and_answers_in_full(simulator: Simulator, key: str) -> None:
    response = simulator.post(key, amount=1_099)
    assert response.status_code == 200
    assert "idempotency-replayed" not in response.headers
    answer = response.json()
    assert answer.pop("provider_ref").startswith("sim_")
    assert answer == {
        "operation_id": key,
        "kind": "purchase",
        "status": "captured",
        "reference": "pi_1",
        "amount": 1_099,
        "currency": "USD",
        "decline_code": None,
    }
    assert simulator.book(key) == {"captured": {key: 1_099}, "authorized": {}, "voided": {}, "refunded": {}}


@pytest.mark.parametrize(("token", "code"), [("tok_sim_decline", "insufficient_funds"), ("tok_none", "invalid_token")])
@pytest.mark.parametrize("kind", ["purchase", "authorize"])
def test_a_decline_is_an_outcome_and_moves_nothing(
    simulator: Simulator, key: str, kind: str, token: str, code: str
) -> None:
    answer = simulator.post(key, kind, token=token).json()
    assert (answer["status"], answer["decline_code"]) == ("declined", code)
    assert simulator.query(key).json() == simulator.post(key, kind, token=token).json() == answer
    assert simulator.book(key) == {"captured": {}, "authorized": {}, "voided": {}, "refunded": {}}


def test_slow_books_at_once_and_answers_late(simulator: Simulator, key: str) -> None:
    """A query during the delay already tells the truth: a 404 then would be a lie."""
    sends = itertools.count()

    def told_before_its_answer() -> tuple[Any, Any, float] | None:
        one, started = f"{key}_{next(sends)}", time.monotonic()
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(simulator.post, one, token="tok_sim_slow")
            becomes(lambda: simulator.query(one).status_code, 200, ANSWER_WITHIN_S)
            is_under_way = not answer.done()  # else this machine slept through the delay, and another send shows it
            found = answer.result().json(), simulator.query(one).json(), time.monotonic() - started
        return found if is_under_way else None

    answered, told, took_s = eventually(told_before_its_answer)
    assert answered == told
    assert took_s >= limits.SIMULATOR_SLOW_ANSWER_MS / 1_000


def test_timeout_after_commit_breaks_without_a_byte(simulator: Simulator, key: str) -> None:
    """The first answer is lost in a bounded time, the effect is there, and the retry hears it at once."""
    started = time.monotonic()
    with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
        simulator.post(key, token="tok_sim_timeout_after_commit")
    assert time.monotonic() - started >= HOLD_MS / 1_000
    retried = simulator.post(key, token="tok_sim_timeout_after_commit")
    assert retried.headers["idempotency-replayed"] == "true"
    assert retried.json()["status"] == "captured"
    assert simulator.book(key)["captured"] == {key: 100}


def test_timeout_after_commit_is_found_while_the_first_send_hangs(simulator: Simulator, key: str) -> None:
    sends = itertools.count()

    def found_before_its_end() -> dict[str, Any] | None:
        one = f"{key}_{next(sends)}"
        with ThreadPoolExecutor(1) as pool:
            lost = pool.submit(simulator.post, one, amount=7, token="tok_sim_timeout_after_commit")
            becomes(lambda: simulator.query(one).status_code, 200, ANSWER_WITHIN_S)
            hangs = not lost.done()  # else this machine slept until the connection broke, and another send shows it
            found: dict[str, Any] = simulator.query(one).json()
            with pytest.raises(httpx.RemoteProtocolError):
                lost.result()
        return found if hangs else None

    assert eventually(found_before_its_end)["amount"] == 7


def test_error_before_commit_leaves_nothing_then_succeeds(simulator: Simulator, key: str) -> None:
    assert simulator.post(key, token="tok_sim_error_before_commit").status_code == 500
    assert simulator.query(key).status_code == 404
    assert simulator.book(key)["captured"] == {}
    assert simulator.post(key, amount=101).json()["code"] == "key_reused"
    assert simulator.post(key, token="tok_sim_error_before_commit").json()["status"] == "captured"
    assert simulator.book(key)["captured"] == {key: 100}


def test_error_after_commit_has_booked(simulator: Simulator, key: str) -> None:
    assert simulator.post(key, token="tok_sim_error_after_commit").status_code == 500
    assert simulator.book(key)["captured"] == {key: 100}
    assert simulator.query(key).json() == simulator.post(key, token="tok_sim_error_after_commit").json()
    assert simulator.book(key)["captured"] == {key: 100}


def test_wrong_amount_really_does_something_else(simulator: Simulator, key: str) -> None:
    """Answer and book agree with each other and not with the request: only an integrity check finds it."""
    assert simulator.post(key, token="tok_sim_wrong_amount").json()["amount"] == 101
    assert simulator.query(key).json()["amount"] == 101
    assert simulator.book(key)["captured"] == {key: 101}


def test_garbage_is_found_out_by_the_third_query(simulator: Simulator, key: str) -> None:
    posts = [content_of(simulator.post(key, token="tok_sim_garbage")) for _ in range(2)]
    queries = [content_of(simulator.query(key)) for _ in range(4)]
    assert posts == [UNREADABLE] * 2
    assert queries[:2] == [UNREADABLE] * 2
    assert queries[2] == queries[3]
    assert queries[3]["status"] == "captured"
    assert content_of(simulator.post(key, token="tok_sim_garbage")) == UNREADABLE
    assert simulator.book(key)["captured"] == {key: 100}


# --- identity --------------------------------------------------------------------------------------------


def test_the_same_identity_repeats_and_another_body_is_refused(simulator: Simulator, key: str) -> None:
    first = simulator.post(key)
    replay = simulator.post(key)
    assert (replay.status_code, replay.content) == (200, first.content)
    assert replay.headers["idempotency-replayed"] == "true"
    for change in ({"amount": 101}, {"currency": "EUR"}, {"reference": "pi_2"}, {"token": "tok_sim_slow"}):
        reused = simulator.post(key, **change)
        assert (reused.status_code, reused.json()["code"]) == (409, "key_reused")
    assert simulator.book(key)["captured"] == {key: 100}


@pytest.mark.parametrize("token", ["tok_sim_approve", "tok_sim_error_before_commit"])
def test_one_identity_from_fifty_threads_has_one_effect(simulator: Simulator, key: str, token: str) -> None:
    barrier = threading.Barrier(50)

    def send(_: int) -> httpx.Response:
        barrier.wait()
        return simulator.post(key, token=token)

    with ThreadPoolExecutor(50) as pool:
        responses = list(pool.map(send, range(50)))
    statuses = Counter(response.status_code for response in responses)
    assert statuses == ({200: 50} if token == "tok_sim_approve" else {200: 49, 500: 1})
    answers = {response.content for response in responses if response.status_code == 200}
    assert len(answers) == 1
    assert simulator.book(key)["captured"] == {key: 100}
