"""Published risk rules on the running system, for tests: each test's rules are about its own merchant only."""

from __future__ import annotations

import itertools
import os
import signal
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from compose.supervise.state import read_state
from tests.eventually import eventually
from tests.freezing import freeze

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from tests.worlds.public_system import Merchant, PublicSystem

MINE = {"type": "in_list", "field": "merchant", "list": "mine"}
_windows = itertools.count(
    10
)  # of probes: each its own, so that a process which still goes by older rules is found out
_PROBES_IN_A_ROW = 8  # over new connections: every ingress process has answered some of them


class Rules:
    """Publishes as an operator, and waits until what was published is in force."""

    def __init__(self, public: PublicSystem, operator: Merchant) -> None:
        self.public = public
        self.operator = operator

    def active(self) -> int:
        newest = self.operator.http.get("/v1/risk/policies", params={"limit": 1}).json()["data"]
        return newest[0]["version"] if newest else 0

    def post(self, expected: int, **document: Any) -> httpx.Response:
        return self.operator.http.post("/v1/risk/policies", json={"expected_version": expected} | document)

    def publish(self, merchant: Merchant, *rules: dict[str, Any], **document: Any) -> int:
        """The version of rules that are about this merchant only, once owner and ingress go by it."""
        prober = self.public.merchant()
        own = [rule | {"when": [MINE, *rule["when"]]} for rule in rules]
        lists = {"mine": [merchant.name], "probes": [prober.name]} | document.pop("lists", {})
        answer = self.post(self.active(), rules=[*own, _probe()], lists=lists, **document)
        assert answer.status_code == 201, answer.text
        version: int = answer.json()["version"]
        with prober.http:
            eventually(lambda: self._probed(prober, version), 30, what=f"version {version} in force")
        return version

    def _probed(self, prober: Merchant, version: int) -> bool:
        for _ in range(_PROBES_IN_A_ROW):
            intent_id = created(prober)
            headers = {"Connection": "close", "Idempotency-Key": uuid.uuid4().hex}
            prober.http.post(f"/v1/payment_intents/{intent_id}/confirm", json={}, headers=headers)
            found = self.said(intent_id)
            if not found or found[0]["policy_version"] != version or not found[0]["reasons"]:
                return False
        return True

    def said(self, intent_id: str) -> list[dict[str, Any]]:
        """The assessments of a payment."""
        answer = self.operator.http.get(f"/v1/payment_intents/{intent_id}/risk")
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["data"]
        return found

    def case(self, intent_id: str) -> dict[str, Any]:
        """The newest review case of a payment."""
        data = self.operator.http.get("/v1/cases", params={"kind": "risk_review", "limit": 100}).json()["data"]
        return next(case for case in data if case["reference"] == intent_id)

    def review(self, intent_id: str, decision: str, key: str | None = None, **payload: Any) -> httpx.Response:
        body = {"idempotency_key": key or uuid.uuid4().hex, "payload": {"decision": decision} | payload}
        return self.operator.http.post(f"/v1/payment_intents/{intent_id}/review", json=body)


def _probe() -> dict[str, Any]:
    """A rule that says whether the process that took the confirm counts by these rules already."""
    counted = {"type": "velocity", "by": "merchant", "window_s": next(_windows), "more_than": 0}
    probed = {"type": "in_list", "field": "merchant", "list": "probes"}
    return {"name": "probe", "when": [probed, counted], "score": 1, "shadow": True, "when_unknown": "miss"}


def created(merchant: Merchant, **payload: Any) -> str:
    """The id of a new payment."""
    answer = merchant.create(**payload)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["result"]["id"])


def confirmed(merchant: Merchant, intent_id: str, **payload: Any) -> dict[str, Any]:
    """The payment as its confirm left it, over a connection of its own."""
    body = {"idempotency_key": uuid.uuid4().hex, "payload": payload}
    path, headers = f"/v1/payment_intents/{intent_id}/confirm", {"Connection": "close"}
    answer = merchant.http.post(path, json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["result"]
    return found


@contextmanager
def valkey_frozen(public: PublicSystem) -> Iterator[None]:
    """Valkey answers nothing; shorter than any health check that would start it again."""
    state = read_state(public.settings.the_home())
    assert state is not None
    (pid,) = [process.pid for process in state.processes if process.name == "redis" and process.pid]
    freeze(pid)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
