"""One route for each operation that clients call, made from its declaration. Audited operations have own routes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from schemas.operation import Operation


def path_of(operation: Operation) -> str:
    """The route of an operation, with the name of its path parameter."""
    return operation.path.replace("{id}", f"{{{operation.id_name}}}")


def router_of(operations: Iterable[Operation]) -> APIRouter:
    """The routes of these operations; bodies are read raw, because digests cover the exact bytes."""
    router = APIRouter()
    for operation in operations:
        if operation.scope and not operation.audited:
            router.add_api_route(path_of(operation), _endpoint(operation), methods=[operation.method])
    return router


def _endpoint(operation: Operation) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    async def carry_out(request: Request) -> Response:
        others = dict(request.path_params)
        path_id = others.pop(operation.id_name, None)
        return await calling.command(request, operation, path_id, others)

    return carry_out
