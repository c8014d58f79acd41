"""Two operators: one spreads charges over all processors; together they repair what settlement left in suspense.

Nobody approves what he proposed; a rejected proposal changes nothing; a posted one can be taken back by two persons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import httpx

from compose.soak.caller import Unexpected, answered, until
from compose.soak.settlements import Books, finding
from schemas import limits

if TYPE_CHECKING:
    from collections.abc import Collection
    from types import TracebackType
    from typing import Self

    from reconciliation.settlement.run import Discrepancy

OPERATORS: Final = ("m_soak_ann", "m_soak_bob")
_NOTE: Final = "the processor confirmed it in writing"


class Operators:
    """The two persons and their tokens."""

    def __init__(self, base_url: str, tokens: tuple[str, str], books: Books) -> None:
        self._books = books
        self._ann, self._bob = (
            httpx.AsyncClient(
                base_url=base_url,
                headers={"Authorization": f"Bearer {token}"},
                timeout=limits.SOAK_CALL_WAIT_S,
                trust_env=False,
            )
            for token in tokens
        )
        self.posted = 0
        self.rejected = 0
        self.reversed = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._ann.aclose()
        await self._bob.aclose()

    async def spread(self, processors: Collection[str]) -> None:
        """Every processor serves as many charges as any other, and stands in for those that fail."""
        rule = {
            "name": "spread",
            "choose": "by_weight",
            "candidates": [{"processor": name, "weight": 1} for name in processors],
        }
        await self._post(self._ann, "/v1/routing/policies", {"rules": [rule], "expected_version": 0})

    async def repair(self) -> None:
        """Writes off one short line, rejects the same for one that is over, and takes a repair of a third one back."""
        by_class = {one.found_class: one for one in self._books.found if finding(one) not in self._books.repaired}
        if short := by_class.get("short"):
            await self._write_off(short, "loss")
            self._books.repaired.add(finding(short))
        if over := by_class.get("over"):
            made = await self._propose(over, "gain")
            await self._decide(self._bob, made, "reject", {"note": _NOTE}, until_state="rejected")
            self.rejected += 1
        if duplicate := by_class.get("duplicate"):
            made = await self._write_off(duplicate, "gain")
            back = await self._post(
                self._bob,
                f"/v1/repairs/{made}/reverse",
                {"idempotency_key": f"{made}-back", "payload": {"note": _NOTE}},
            )
            await self._decide(self._ann, str(back["id"]), "approve", None, until_state="posted")
            self.reversed += 1

    async def _write_off(self, one: Discrepancy, side: str) -> str:
        made = await self._propose(one, side)
        refused = await answered(lambda: self._ann.post(f"/v1/repairs/{made}/approve"))
        if refused.status_code != httpx.codes.FORBIDDEN:
            raise Unexpected(f"the author's own approval of {made} was answered {refused.status_code}")
        await self._decide(self._bob, made, "approve", None, until_state="posted")
        self.posted += 1
        return made

    async def _propose(self, one: Discrepancy, side: str) -> str:
        if one.case_id is None:
            raise Unexpected(f"{finding(one)} has no case")
        payload = {"template": "write_off", "amount": one.amount, "currency": one.currency, "side": side, "note": _NOTE}
        body = {"idempotency_key": f"{one.case_id}-{side}", "payload": payload}
        return str((await self._post(self._ann, f"/v1/cases/{one.case_id}/proposals", body))["id"])

    async def _decide(
        self, person: httpx.AsyncClient, made: str, verb: str, payload: dict[str, Any] | None, *, until_state: str
    ) -> None:
        async def decided() -> bool | None:
            answer = await answered(lambda: person.post(f"/v1/repairs/{made}/{verb}", json=payload))
            state = _content(answer)["state"] if not answer.is_error else await self._state(made)
            if answer.is_error and state != until_state:
                raise Unexpected(f"{verb} of {made} was answered {answer.status_code}: {answer.text[:200]}")
            return state == until_state or None

        await until(decided, f"{made} is not {until_state}")

    async def _state(self, made: str) -> str:
        return str(_content(await answered(lambda: self._ann.get(f"/v1/repairs/{made}")))["state"])

    async def _post(self, person: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return _content(await answered(lambda: person.post(path, json=body)))


def _content(answer: httpx.Response) -> dict[str, Any]:
    if answer.is_error:
        raise Unexpected(f"{answer.request.url.path} answered {answer.status_code}: {answer.text[:200]}")
    return dict(answer.json())
