"""Bad input to the simulator: a clear problem, and nothing is changed."""

from __future__ import annotations

import json
from typing import Final

import pytest

from compose.simulator import limits
from tests.worlds.payments.simulator_process import Simulator, key, simulator

__all__ = ["key", "simulator"]


GOOD: Final = {"kind": "purchase", "reference": "pi_1", "amount": 5, "currency": "USD", "token": "tok_sim_approve"}


@pytest.mark.parametrize(
    ("content", "headers", "status", "code"),
    [
        (b"", {}, 400, "malformed_request"),
        (b'{"kind": ', {}, 400, "malformed_request"),
        (b'{"kind": "\xff"}', {}, 400, "malformed_request"),
        (b"[" * 5_000, {}, 422, "invalid_operation"),
        (b"[]", {}, 422, "invalid_operation"),
        (json.dumps(GOOD).encode(), {"Idempotency-Key": ""}, 400, "idempotency_key_required"),
        (json.dumps(GOOD).encode(), {"Idempotency-Key": "a b"}, 400, "idempotency_key_required"),
        (json.dumps(GOOD).encode(), {"Idempotency-Key": "x" * 256}, 400, "idempotency_key_required"),
        (json.dumps(GOOD).encode(), {"Content-Type": "text/plain"}, 415, "unsupported_media_type"),
        (b" " * (limits.SIMULATOR_BODY_BYTES_MAX + 1), {}, 413, "too_large"),
        *(
            (json.dumps(GOOD | change).encode(), {}, 422, "invalid_operation")
            for change in (
                {"amount": 0},
                {"amount": -5},
                {"amount": 5.5},
                {"amount": 2**53},
                {"amount": "5"},
                {"amount": True},
                {"currency": "usd"},
                {"kind": "refund"},
                {"kind": "gift"},
                {"card": 5, "token": None},
                {"token": None},
                {"reference": ""},
                {"colour": "red"},
                {"kind": "capture"},
                {"kind": "void", "token": None},
            )
        ),
    ],
)
def test_bad_input_is_a_problem_and_changes_nothing(
    simulator: Simulator, key: str, *, content: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    before = simulator.client.get("/book").content
    sent_headers = {"Idempotency-Key": key, "Content-Type": "application/json"} | headers
    response = simulator.client.post("/v1/operations", content=content, headers=sent_headers)
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert (response.status_code, problem["status"], problem["code"]) == (status, status, code)
    assert {"type", "title", "detail"} <= problem.keys()
    assert simulator.client.get("/book").content == before
    assert simulator.query(key).status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/v1/operations/never_seen", 404, "not_found"),
        ("GET", "/v1/operations/%ff%00", 404, "not_found"),
        ("GET", "/v1/operations/" + "x" * 1_000, 404, "not_found"),
        ("DELETE", "/book", 405, "not_allowed"),
    ],
)
def test_what_is_not_there_is_a_problem(simulator: Simulator, method: str, path: str, status: int, code: str) -> None:
    response = simulator.client.request(method, path)
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert response.headers["content-type"] == "application/problem+json"


def test_health_readiness_and_metrics(simulator: Simulator, key: str) -> None:
    assert simulator.client.get("/healthz").status_code == simulator.client.get("/readyz").status_code == 200

    def executed() -> float:
        lines = simulator.client.get("/metrics").text.splitlines()
        name = 'simulator_operations_executed_total{kind="purchase",status="captured"} '
        return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))

    before = executed()
    simulator.post(key)
    simulator.post(key)
    assert executed() == before + 1
