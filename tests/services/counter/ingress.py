"""Counters in the ingress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.http.openapi import elements
from ingress.http.openapi.shared import OBJECT_ID, a_schema
from ingress.http.pages import NewestFirst
from ingress.http.parts import parts_of
from ingress.http.store import Store
from ingress.http_service import HttpService, Json
from schemas import errors
from tests.services.counter.domain import Counter, rendered
from tests.services.counter.service import SERVICE

if TYPE_CHECKING:
    from ingress.http_service import Platform

router: Final = APIRouter()


class Counters:
    """Reads of one process."""

    def __init__(self, store: Store, pages: NewestFirst) -> None:
        self.store = store
        self._pages = pages

    async def get(self, owner: str, counter_id: str) -> Counter:
        rows = await self.store.rows("counters_by_id", {"id": counter_id})
        if not rows or rows[0][1] != owner:
            raise errors.NotFound
        return _read(rows[0])

    async def page(self, owner: str, limit: int, cursor: str | None) -> Json:
        return await self._pages.page(
            "counters_of_owner", "counters", owner, {}, limit, cursor, _read, lambda c: (c.created_at, c.id), rendered
        )


def _read(row: tuple[Any, ...]) -> Counter:
    return Counter(**dict(zip(Counter.__struct_fields__, row, strict=True)))


@router.get("/v1/counters/{counter_id}")
async def get(request: Request, counter_id: str) -> Response:
    """One of the caller's own."""
    caller = await calling.caller_of(request, SERVICE.read_scope)
    calling.require_id(counter_id)
    found = await parts_of(request).get(Counters).get(caller.principal, counter_id)
    return calling.json(rendered(found), calling.NO_STORE | {"ETag": f'"{found.version}"'})


@router.get("/v1/counters")
async def page(request: Request) -> Response:
    """The caller's own, newest first."""
    caller = await calling.caller_of(request, SERVICE.read_scope)
    return calling.json(await parts_of(request).get(Counters).page(caller.principal, *calling.place(request)))


class CounterHttp(HttpService):
    """Routes, and a store of its own for their queries."""

    declared = SERVICE
    routers = (router,)
    shows_events = True

    def __init__(self, platform: Platform) -> None:
        super().__init__(platform)
        self._store = Store(platform.config.postgres_dsn, packages=("tests.services.counter",), pool_max=2)
        platform.parts.add(Counters(self._store, NewestFirst(self._store, platform.cursors)))

    async def start(self) -> None:
        await self._store.open()

    async def close(self) -> None:
        await self._store.close()

    @staticmethod
    def paths() -> Json:
        answer = {"200": elements.answer("The counter", elements.JSON, "Counter")}
        one = {"parameters": [elements.object_id("counter_id")], "responses": answer, "operationId": "get_counter"}
        many = {"parameters": [elements.limit(), elements.CURSOR], "responses": answer, "operationId": "list_counters"}
        secured = {"security": [{"bearer": [SERVICE.read_scope]}]}
        return {"/v1/counters/{counter_id}": {"get": one | secured}, "/v1/counters": {"get": many | secured}}

    @staticmethod
    def components() -> Json:
        counter = a_schema({"id": OBJECT_ID, "value": {"type": "integer"}, "version": {"type": "integer"}})
        return {"Counter": counter, "CommittedCounter": a_schema({"result": counter})}


HTTP: Final = CounterHttp
