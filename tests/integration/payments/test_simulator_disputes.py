"""Disputes at the simulator: funds withdrawn once, reinstated once, and never more than was taken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compose.simulator import limits
from tests.eventually import becomes
from tests.worlds.payments.simulator_process import SECRET, Simulator, key, running
from tests.worlds.payments.webhook_receiver import Received, receiving

__all__ = ["key"]


@pytest.fixture(scope="module")
def received() -> Iterator[Received]:
    with receiving(SECRET) as started:
        yield started


@pytest.fixture(scope="module")
def simulator(received: Received, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    with running(tmp_path_factory.mktemp("disputes"), webhook_url=received.url) as started:
        yield started


def opened(simulator: Simulator, reference: str, amount: int) -> Any:
    return simulator.client.post("/disputes", json={"reference": reference, "amount": amount})


def closed(simulator: Simulator, dispute_id: str, outcome: str) -> Any:
    return simulator.client.post(f"/disputes/{dispute_id}/close", json={"outcome": outcome})


@pytest.mark.parametrize(("outcome", "funds"), [("won", "reinstated"), ("lost", "withdrawn")])
def test_a_dispute_is_told_from_its_opening_to_its_end(
    simulator: Simulator, received: Received, key: str, outcome: str, funds: str
) -> None:
    """As Stripe does: created without funds, then the funds; closed, then the funds again when it is won."""
    reference = f"pi_{key}"
    taken = simulator.captured(key, 1_000, reference=reference)
    answer = opened(simulator, reference, 600)
    assert answer.status_code == 201
    dispute_id = answer.json()["id"]
    assert closed(simulator, dispute_id, outcome).json()["funds"] == funds
    told = [
        ("dispute.created", "needs_response", "none"),
        ("dispute.funds_withdrawn", "needs_response", "withdrawn"),
        ("dispute.closed", outcome, "withdrawn"),
        *([("dispute.funds_reinstated", "won", "reinstated")] if outcome == "won" else []),
    ]

    def events() -> list[dict[str, Any]]:
        return [e for e in received.of(reference) if e["type"].startswith("dispute.")]

    becomes(lambda: [(e["type"], e["data"]["status"], e["data"]["funds"]) for e in events()], told)
    for event in events():
        is_asked = event["data"]["status"] == "needs_response"
        due_by_ms = event["data"].pop("evidence_due_by_ms", None)
        assert due_by_ms == (answer.json()["evidence_due_by_ms"] if is_asked else None)
        assert event["data"] | {"status": "", "funds": ""} == {
            "dispute_id": dispute_id,
            "reference": reference,
            "operation_id": key,
            "provider_ref": taken,
            "amount": 600,
            "currency": "USD",
            "fee": limits.SIMULATOR_DISPUTE_FEE_MINOR,
            "reason": "fraudulent",
            "status": "",
            "funds": "",
        }
    (entry,) = [d for d in simulator.client.get("/book").json()["disputes"] if d["dispute_id"] == dispute_id]
    assert (entry["amount"], entry["status"], entry["funds"]) == (600, outcome, funds)


def test_a_verdict_is_spoken_once(simulator: Simulator, received: Received, key: str) -> None:
    """The same again is the same answer and tells nothing; another one is refused."""
    reference = f"pi_{key}"
    simulator.captured(key, reference=reference)
    dispute_id = opened(simulator, reference, 100).json()["id"]
    first = closed(simulator, dispute_id, "won")
    assert closed(simulator, dispute_id, "won").content == first.content
    refused = closed(simulator, dispute_id, "lost")
    assert (refused.status_code, refused.json()["code"]) == (409, "dispute_closed")
    becomes(lambda: len(received.of(reference)), 5)
    assert opened(simulator, reference, 100).json()["id"] != dispute_id  # reinstated funds may be disputed again


def test_what_is_refunded_cannot_be_disputed_and_the_other_way_round(simulator: Simulator, key: str) -> None:
    """Trap: a refund and a dispute of the same money are a double loss."""
    reference = f"pi_{key}"
    taken = simulator.captured(key, 100, reference=reference)
    simulator.post(f"{key}_r", "refund", 40, reference=reference, parent=taken)
    refused = opened(simulator, reference, 61)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_operation")
    dispute_id = opened(simulator, reference, 60).json()["id"]
    late = simulator.post(f"{key}_s", "refund", 1, reference=reference, parent=taken).json()
    assert (late["status"], late["decline_code"]) == ("declined", "charge_disputed")
    closed(simulator, dispute_id, "won")
    assert simulator.post(f"{key}_t", "refund", 60, reference=reference, parent=taken).json()["status"] == "refunded"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/disputes", {"reference": "pi_nobody", "amount": 1}, 404),
        ("/disputes", {"reference": "pi_nobody", "amount": 0}, 422),
        ("/disputes", {"reference": "pi_nobody"}, 422),
        ("/disputes", [], 422),
        ("/disputes/sdp_none/close", {"outcome": "won"}, 404),
        ("/disputes/sdp_none/close", {"outcome": "drawn"}, 422),
    ],
)
def test_bad_input_opens_and_closes_nothing(simulator: Simulator, path: str, body: Any, status: int) -> None:
    before = simulator.client.get("/book").content
    answer = simulator.client.post(path, json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert simulator.client.get("/book").content == before
