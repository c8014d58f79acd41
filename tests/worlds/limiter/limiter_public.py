"""The limiter from outside: an operator of policies, and a proxy that asks for one tenant."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import grpc
import httpx
import pytest
from envoy.service.ratelimit.v3 import rls_pb2, rls_pb2_grpc

from tests.eventually import eventually, patient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.worlds.public_system import PublicSystem

OK, OVER_LIMIT = rls_pb2.RateLimitResponse.OK, rls_pb2.RateLimitResponse.OVER_LIMIT
SCOPES = ("limits:read", "limits:write")


class Envoy:
    """What a proxy sends, for one tenant that nobody used before; and the operator of its policies."""

    def __init__(self, system: PublicSystem) -> None:
        self.public = system
        self.tenant = f"t_{uuid.uuid4().hex[:8]}"
        self.operator = system.merchant(scopes=SCOPES)
        self.channel = grpc.insecure_channel(f"127.0.0.1:{system.settings.addresses().rls_port}")
        self.service = rls_pb2_grpc.RateLimitServiceStub(self.channel)

    def publish(self, key: str | None = None, expected_version: int | None = None, **changes: Any) -> httpx.Response:
        """POST /v1/policies: ten a day, exact, for every key of the tenant, changed."""
        payload = {
            "scope": {"tenant": self.tenant, "user": "*", "route": "*"},
            "algorithm": "fixed_window",
            "capacity": 10,
            "window_ms": 86_400_000,  # one that hardly ends while a test runs
            "consistency": "exact",
            "failure_mode": "closed",
        } | changes
        body: dict[str, Any] = {"idempotency_key": key or uuid.uuid4().hex, "payload": payload}
        if expected_version is not None:
            body["expected_version"] = expected_version
        return self.operator.http.post("/v1/policies", json=body)

    def in_force(self, **changes: Any) -> dict[str, Any]:
        """Publishes, and waits until the gateway decides by it."""
        answer = self.publish(**changes)
        assert answer.status_code == 201, answer.text
        eventually(lambda: self.remaining(f"probe-{uuid.uuid4().hex}") == changes.get("capacity", 10), 60)
        found: dict[str, Any] = answer.json()["result"]
        return found

    def remaining(self, user: str) -> int:
        """What is left of a key, without taking any."""
        answer = self.ask({"tenant": self.tenant, "user": user, "route": "/r"}, descriptor_cost=0)
        return int(answer.statuses[0].limit_remaining)

    def ask(
        self, entries: dict[str, str], cost: int = 0, identity: str | None = None, descriptor_cost: int | None = None
    ) -> Any:
        """One call of one descriptor."""
        request = rls_pb2.RateLimitRequest(domain="millrace", hits_addend=cost)
        descriptor = request.descriptors.add()
        for key, value in entries.items():
            descriptor.entries.add(key=key, value=value)
        if descriptor_cost is not None:
            descriptor.hits_addend.value = descriptor_cost
        metadata = [("x-request-id", identity)] if identity else []
        # a gateway that was killed may take one more connection and reset it: the call waits for one that holds
        return self.service.ShouldRateLimit(request, timeout=patient(30), metadata=metadata, wait_for_ready=True)

    def check(self, user: str = "u", route: str = "/r", **asked: Any) -> int:
        """The code for one request, whoever gives it: the failure mode too, where the store is late."""
        return int(self.ask({"tenant": self.tenant, "user": user, "route": route}, **asked).overall_code)

    def decided(self, user: str = "u", route: str = "/r", identity: str | None = None, **asked: Any) -> int:
        """The code for one request that a quota governs, of the store or of a lease: asked again under its identity."""
        entries, identity = {"tenant": self.tenant, "user": user, "route": route}, identity or uuid.uuid4().hex

        def answered() -> Any:
            answer = self.ask(entries, identity=identity, **asked)
            assert is_known(answer), answer
            return answer

        return int(eventually(answered, 60).overall_code)

    def allowed(self, count: int, **asked: Any) -> int:
        """How many of so many were allowed."""
        return sum(self.decided(**asked) == OK for _ in range(count))

    def undisturbed(self, count: int) -> tuple[str, list[int]]:
        """A user who asked so often, and the codes: each was decided at once, so that all totals are exact."""

        def asked() -> tuple[str, list[int]]:
            user = f"u-{uuid.uuid4().hex[:8]}"
            entries = {"tenant": self.tenant, "user": user, "route": "/r"}
            answers = [self.ask(entries) for _ in range(count)]
            assert all(map(is_known, answers)), answers
            return user, [int(answer.overall_code) for answer in answers]

        return eventually(asked, 120, what="a store that answers in time")


def by_store(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """The first answer of our API that does not say that the store was late."""

    def asked() -> httpx.Response:
        answer = ask()
        assert answer.status_code != 503, answer.text
        return answer

    return eventually(asked, 60)


def is_known(answer: Any) -> bool:
    """Whether it says what the policy's limit is: nobody does without the store."""
    return bool(answer.statuses[0].HasField("current_limit"))


def metrics(envoy: Envoy) -> dict[str, float]:
    """What the gateway tells its operator now."""
    (text,) = envoy.public.metrics("limiter_gateway")
    lines = text.splitlines()
    return {name: float(value) for name, _, value in (x.rpartition(" ") for x in lines if x[:1] != "#")}


@pytest.fixture
def envoy(public: PublicSystem) -> Iterator[Envoy]:
    found = Envoy(public)
    yield found
    found.channel.close()
    found.operator.http.close()
