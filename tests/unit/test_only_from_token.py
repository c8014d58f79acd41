"""A request that names a tenant beside its token is refused before anything of it is read, however the name is written."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from ingress.http import problems
from ingress.identity.only_from_token import TenantOnlyFromToken
from schemas.fields.validation import TENANT_NAMES
from tests.each import each

if TYPE_CHECKING:
    from schemas import errors


def status(query: bytes, *fields: tuple[bytes, bytes]) -> int:
    """What the request is answered with; 204 is the route's."""
    statuses: list[int] = []

    async def send(message: Any) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    def refusal(error: errors.PlatformError) -> Response:
        return Response(error.public, problems.row(error.code).status)

    door = TenantOnlyFromToken(Response(status_code=204), refusal)
    scope = {"type": "http", "path": "/v1/resources", "query_string": query, "headers": list(fields)}
    asyncio.run(door(scope, None, send))  # type: ignore[arg-type] # nothing is read
    return statuses[0]


@each("name", TENANT_NAMES)
def test_no_tenant_is_named_in_a_query(name: str) -> None:
    coded = f"%{ord(name[0]):02x}{name[1:]}"
    for said in (name, coded, name[:-1] + f"%{ord(name[-1]):02X}"):
        for query in (f"{said}=tn_1", f"limit=5&{said}=", f"{said}"):
            assert status(query.encode()) == 400, query


@each("query", [b"", b"limit=5", b"reference=tenant", b"name=a%20tenant", b"metadata%5Btenant%5D=x", b"tenants=1"])
def test_what_only_looks_like_it_is_the_routes_matter(query: bytes) -> None:
    assert status(query) == 204


@each("field", [b"x-tenant", b"X-Tenant-Id"])
def test_no_tenant_is_named_in_a_header_field(field: bytes) -> None:
    assert status(b"", (field, b"tn_1")) == 400
    assert status(b"", (b"x-tenants", b"tn_1")) == 204
