"""The levers of a processor simulator, pulled so that each takes effect once although it is killed now and then.

Its levers have no identities: after a lost answer its book tells whether the lever was pulled.
"""

from __future__ import annotations

import asyncio
import csv
import io
from typing import TYPE_CHECKING, Any

import httpx

from compose.proof import limits
from compose.proof.soak.waiting import Unexpected, answered

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager


class Processor:
    """One simulator. ``steady``: whoever holds it, for a while nobody kills the simulator."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.steady = asyncio.Lock()
        self._url = url

    async def dispute(self, reference: str, amount: int) -> str:
        """The id of the one dispute about this payment, opened unless it is there."""
        async with self._http() as http:
            while True:
                for found in (await self._json(http, "/book"))["disputes"]:
                    if found["reference"] == reference:
                        return str(found["dispute_id"])
                try:
                    answer = await http.post("/disputes", json={"reference": reference, "amount": amount})
                except httpx.TransportError:
                    await asyncio.sleep(limits.SOAK_POLL_MS / 1_000)
                    continue
                return str(_content(answer)["id"])

    async def close_dispute(self, dispute_id: str, outcome: str) -> None:
        """The verdict; the same again changes nothing."""
        async with self._http() as http:
            _content(await answered(lambda: http.post(f"/disputes/{dispute_id}/close", json={"outcome": outcome})))

    async def act(self, operation_id: str, outcome: str) -> None:
        """What the payer did; the same again changes nothing."""
        async with self._http() as http:
            _content(await answered(lambda: http.post(f"/actions/{operation_id}", json={"outcome": outcome})))

    async def settle(self, faults: Sequence[dict[str, Any]]) -> list[str]:
        """Settles all that is unsettled with these faults; the ids of the reports. Nobody kills it meanwhile."""
        async with self.steady, self._http() as http:
            await answered(lambda: http.get("/readyz"))
            made = _content(await http.post("/settlements", json={"faults": list(faults)}))
        return list(made["reports"])

    async def report(self, report_id: str) -> list[dict[str, str]]:
        """The lines of a report."""
        async with self._http() as http:
            answer = await answered(lambda: http.get(f"/settlements/{report_id}"))
        answer.raise_for_status()
        return list(csv.DictReader(io.StringIO(answer.text)))

    async def _json(self, http: httpx.AsyncClient, path: str) -> dict[str, Any]:
        return _content(await answered(lambda: http.get(path)))

    @asynccontextmanager
    async def _http(self) -> AsyncIterator[httpx.AsyncClient]:
        async with httpx.AsyncClient(base_url=self._url, timeout=limits.SOAK_CALL_WAIT_S, trust_env=False) as http:
            yield http


def _content(answer: httpx.Response) -> dict[str, Any]:
    if answer.is_error:
        raise Unexpected(f"{answer.request.url.path} answered {answer.status_code}: {answer.text[:200]}")
    return dict(answer.json())
