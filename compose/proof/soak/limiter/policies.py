"""The policies that a soak of the limiter asks under: each is published anew while gateways come and go.

Quotas are fixed windows that last longer than the soak, so that nothing refills and every token can be found again.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import TYPE_CHECKING, Any, Final

import httpx

from compose.proof import limits
from compose.proof.soak.limiter.ledger import COST_MAX, QUOTAS, Quota
from compose.proof.soak.limiter.load import SHARES
from compose.proof.soak.waiting import Unexpected, answered, until
from limiter.frames.frame_requests import Check, GatewayUnavailable

if TYPE_CHECKING:
    from compose.proof.soak.limiter.load import Clients

_DAY_MS: Final = 86_400_000
_CAPACITY_MIN: Final = 100
_TERMS: Final[dict[Quota, dict[str, str]]] = {
    "exact": {"consistency": "exact", "failure_mode": "closed"},
    "leased": {"consistency": "leased", "failure_mode": "stale"},
    "open": {"consistency": "exact", "failure_mode": "open"},
}
#: what each version makes of the first capacity: what leases hold outlives a smaller one
_STEPS: Final[dict[Quota, tuple[float, ...]]] = {
    "exact": (1.0, 1.15, 1.3, 1.45),
    "leased": (1.0, 0.8, 1.3, 1.1),
    "open": (1.0, 1.15, 1.3, 1.45),
}


class Policies:
    """One for each quota; ``versions`` is told the capacity of every version that a gateway may decide by."""

    def __init__(self, versions: dict[Quota, list[int]], is_calm: asyncio.Event, seconds: float, rate: float) -> None:
        self.ids: dict[Quota, str] = {}
        self._versions = versions
        self._is_calm = is_calm
        self._seconds = seconds
        self._window_ms = _window_ms(time.time(), seconds)
        # what is asked by a user who is as hot as the average: hotter ones find their quota used up
        self._capacities = {
            quota: max(_CAPACITY_MIN, int(rate * seconds * share * (1 + COST_MAX) / 2 / users))
            for quota, (share, users) in SHARES.items()
        }

    async def publish_all(self, http: httpx.AsyncClient) -> None:
        """The first versions."""
        for quota in QUOTAS:
            await self._publish(http, quota)

    async def _publish(self, http: httpx.AsyncClient, quota: Quota) -> None:
        """The next version of a quota's policy, once whatever is killed meanwhile."""
        versions = self._versions[quota]
        capacity = int(self._capacities[quota] * _STEPS[quota][len(versions) % len(_STEPS[quota])])
        payload: dict[str, Any] = {
            "scope": {"tenant": quota, "user": "*", "route": "*"},
            "per": ["tenant", "user"],
            "algorithm": "fixed_window",
            "capacity": capacity,
            "window_ms": self._window_ms,
            **_TERMS[quota],
        }
        body: dict[str, Any] = {"idempotency_key": uuid.uuid4().hex, "payload": payload}
        if versions:
            payload["policy_id"] = self.ids[quota]
            body["expected_version"] = len(versions)
        versions.append(capacity)  # from here on a gateway may decide by it

        async def published() -> str | None:
            answer = await answered(lambda: http.post("/v1/policies", json=body))
            if answer.is_error:
                raise Unexpected(f"a policy was not published: {answer.status_code} {answer.text[:200]}")
            if answer.status_code == httpx.codes.ACCEPTED:  # its owner is away: the same identity gets the answer later
                return None
            return str(answer.json()["result"]["policy_id"])

        self.ids[quota] = await until(published, f"the policy of {quota} was not published")

    async def are_followed(self, clients: Clients) -> None:
        """Every gateway decides by the first versions."""

        async def look() -> bool | None:
            try:
                for client in clients.gateways:
                    found = await client.check_many([Check(quota, "nobody", "/", 0) for quota in QUOTAS])
                    if any(answer.policy_version == 0 for answer in found):
                        return None
            except GatewayUnavailable:
                return None
            return True

        await until(look, "not every gateway has the policies")

    async def change(self, http: httpx.AsyncClient) -> None:
        """Every policy again and again, while gateways come and go."""
        while not self._is_calm.is_set():
            for quota in QUOTAS:
                try:
                    async with asyncio.timeout(self._seconds / (len(QUOTAS) * len(_STEPS[quota]))):
                        await self._is_calm.wait()
                except TimeoutError:
                    if len(self._versions[quota]) < len(_STEPS[quota]):
                        await self._publish(http, quota)


def _window_ms(now_s: float, seconds: float) -> int:
    """A fixed window of about a month that does not end before the soak has."""
    days = 30
    while (now_s * 1_000) % (days * _DAY_MS) > days * _DAY_MS - (seconds + limits.SOAK_SETTLE_WAIT_S * 4) * 1_000:
        days += 1
    return days * _DAY_MS
