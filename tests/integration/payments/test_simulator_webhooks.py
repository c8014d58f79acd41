"""What the simulator tells by itself: every effect, signed, at least once, whatever happens to either side."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from compose.simulator import limits as simulator_limits
from schemas.payments import limits as payments_limits
from tests.eventually import becomes, eventually, patient
from tests.worlds.payments.simulator_process import ANSWER_WITHIN_S, SECRET, Simulator, free_port, key, running
from tests.worlds.payments.webhook_receiver import Received, receiving

__all__ = ["key"]


@pytest.fixture(scope="module")
def received() -> Iterator[Received]:
    with receiving(SECRET) as started:
        yield started


@pytest.fixture(scope="module")
def simulator(received: Received, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    with running(tmp_path_factory.mktemp("telling"), webhook_url=received.url) as started:
        yield started


def test_every_effect_is_told_once_in_full(simulator: Simulator, received: Received, key: str) -> None:
    """Signed as Standard Webhooks, which the receiver verifies before it keeps anything."""
    reference = f"pi_{key}"
    hold = simulator.post(key, "authorize", 500, reference=reference).json()["provider_ref"]
    capture = simulator.post(f"{key}_c", "capture", 300, reference=reference, parent=hold, final=False).json()
    simulator.post(f"{key}_v", "void", 200, reference=reference, parent=hold)
    simulator.post(f"{key}_r", "refund", 300, reference=reference, parent=capture["provider_ref"])
    simulator.post(f"{key}_s", "refund", 1, reference=reference, parent=capture["provider_ref"])
    simulator.post(f"{key}_d", reference=reference, token="tok_sim_decline")
    told = {
        "charge.authorized",
        "charge.captured",
        "charge.voided",
        "refund.succeeded",
        "refund.failed",
        "charge.declined",
    }
    becomes(lambda: set(received.types(reference)), told)
    assert len(received.of(reference)) == len(received.ids(reference)) == len(told)
    (event,) = [e for e in received.of(reference) if e["type"] == "charge.captured"]
    assert abs(event.pop("created") - time.time()) < 60
    assert event.pop("id").startswith("evt_")
    assert event == {
        "type": "charge.captured",
        "data": {
            "operation_id": f"{key}_c",
            "reference": reference,
            "provider_ref": capture["provider_ref"],
            "kind": "capture",
            "status": "captured",
            "amount": 300,
            "currency": "USD",
            "error_code": None,
            "after_success": False,
            "redirect_url": None,
            "authorized_until_ms": None,
        },
    }
    refused = {e["type"]: e["data"]["error_code"] for e in received.of(reference) if e["data"]["error_code"]}
    assert refused == {"refund.failed": "amount_exceeds_refundable", "charge.declined": "insufficient_funds"}


def test_a_replay_and_a_query_tell_nothing_more(simulator: Simulator, received: Received, key: str) -> None:
    reference = f"pi_{key}"
    for _ in range(3):
        simulator.post(key, reference=reference)
        simulator.query(key)
    simulator.post(f"{key}_later", reference=f"{reference}_later")
    eventually(lambda: received.types(f"{reference}_later"))
    assert received.types(reference) == ["charge.captured"]


def test_a_receiver_that_refuses_is_asked_again_with_the_same_identity(
    simulator: Simulator, received: Received, key: str
) -> None:
    received.refusals = 2
    simulator.post(key, reference=f"pi_{key}")
    becomes(lambda: received.types(f"pi_{key}"), ["charge.captured"], within_s=15)
    assert received.refusals == 0


def test_webhook_only_answers_nothing_and_tells_everything(simulator: Simulator, received: Received, key: str) -> None:
    """Neither the sends nor any query says what happened; the capture is in the book once."""
    with pytest.raises(httpx.RemoteProtocolError):
        simulator.post(key, reference=f"pi_{key}", token="tok_sim_webhook_only")
    again = [simulator.post(key, reference=f"pi_{key}", token="tok_sim_webhook_only") for _ in range(2)]
    assert {answer.status_code for answer in [*again, *(simulator.query(key) for _ in range(4))]} == {500}
    becomes(lambda: received.types(f"pi_{key}"), ["charge.captured"])
    assert simulator.book(key)["captured"] == {key: 100}


def test_webhook_first_is_delivered_before_the_answer(simulator: Simulator, received: Received, key: str) -> None:
    sends = itertools.count()

    def delivered_first() -> tuple[list[str]] | None:
        one, began = f"{key}_{next(sends)}", time.monotonic()
        assert simulator.post(one, reference=f"pi_{one}", token="tok_sim_webhook_first").json()["status"] == "captured"
        types = received.types(f"pi_{one}")  # at once, without waiting
        waited_ms = (time.monotonic() - began) * 1_000
        slept = not types and waited_ms >= simulator_limits.SIMULATOR_WEBHOOK_FIRST_WAIT_MS
        return None if slept else (types,)  # an answer waits for its webhook within a bound: this machine slept longer

    (types,) = eventually(delivered_first)
    assert types == ["charge.captured"]


def test_a_storm_is_five_deliveries_of_two_events(simulator: Simulator, received: Received, key: str) -> None:
    """Repeats carry the id of what they repeat; one more event, with its own id, tells the same."""
    simulator.post(key, reference=f"pi_{key}", token="tok_sim_webhook_storm")
    becomes(lambda: len(received.of(f"pi_{key}")), simulator_limits.SIMULATOR_WEBHOOK_STORM_COPIES)
    assert sorted(received.ids(f"pi_{key}").values()) == [2, 3]
    data = [event["data"] for event in received.of(f"pi_{key}")]
    assert all(each == data[0] for each in data)


def test_a_refund_that_fails_later_is_told_twice(simulator: Simulator, received: Received, key: str) -> None:
    taken = simulator.captured(key, reference=f"pi_{key}", token="tok_sim_refund_fails_later")
    simulator.post(f"{key}_r", "refund", reference=f"pi_{key}", parent=taken)
    becomes(lambda: received.types(f"pi_{key}"), ["charge.captured", "refund.succeeded", "refund.failed"])
    failed = received.of(f"pi_{key}")[-1]["data"]
    assert (failed["operation_id"], failed["error_code"]) == (f"{key}_r", "expired_or_canceled_card")
    assert [e["data"]["after_success"] for e in received.of(f"pi_{key}")] == [False, False, True]


@pytest.mark.faults
def test_killed_between_effect_and_webhook_the_webhook_still_comes(tmp_path: Path) -> None:
    """The effect and its outbox row are one transaction; nobody was there to hear it, then the process was killed."""
    port = free_port()
    with running(tmp_path, webhook_url=f"http://127.0.0.1:{port}/hook") as simulator:
        keys = [f"op_{number}" for number in range(20)]
        for key in keys:
            simulator.post(key, reference=f"pi_{key}")
        simulator.kill_and_restart()
        with receiving(SECRET, port) as received:
            eventually(lambda: len(received.deliveries) >= len(keys), within_s=15)
            eventually(lambda: "simulator_webhooks_waiting 0.0" in simulator.client.get("/metrics").text)
            assert [received.types(f"pi_{key}") for key in keys] == [["charge.captured"]] * len(keys)


@pytest.mark.faults
def test_killed_while_it_tells_every_event_arrives_under_its_one_id(tmp_path: Path) -> None:
    """At least once: a delivery whose outcome was not booked yet is repeated, as the same event."""
    with receiving(SECRET) as received, running(tmp_path, webhook_url=received.url) as simulator:
        keys = [f"op_{number}" for number in range(300)]
        for number, key in enumerate(keys):
            simulator.post(key, reference=f"pi_{key}")
            if number in {100, 200}:
                simulator.kill_and_restart()
        eventually(lambda: all(received.of(f"pi_{key}") for key in keys), within_s=20)
        assert all(len(received.ids(f"pi_{key}")) == 1 for key in keys)


def test_webhook_first_does_not_wait_for_ever(tmp_path: Path) -> None:
    """With nobody to tell, the answer comes after a bounded wait."""
    with running(tmp_path, webhook_url=f"http://127.0.0.1:{free_port()}/hook") as simulator:
        started = time.monotonic()
        assert simulator.post("op_1", token="tok_sim_webhook_first").json()["status"] == "captured"
        waited_ms = (time.monotonic() - started) * 1_000
        assert simulator_limits.SIMULATOR_WEBHOOK_FIRST_WAIT_MS <= waited_ms < patient(ANSWER_WITHIN_S) * 1_000
        assert simulator_limits.SIMULATOR_WEBHOOK_FIRST_WAIT_MS < payments_limits.ATTEMPT_CALL_TIMEOUT_MS


def test_without_a_receiver_nothing_is_kept_to_be_told(tmp_path: Path) -> None:
    """An outbox that nobody empties would only grow; and no answer waits for a webhook then."""
    with running(tmp_path) as simulator:
        assert simulator.post("op_1", token="tok_sim_webhook_first").json()["status"] == "captured"
        assert "simulator_webhooks_waiting 0.0" in simulator.client.get("/metrics").text
