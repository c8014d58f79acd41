"""The routes of the rate limiter: publishing and reading policies, the signed snapshot, and what a key has used."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress import calling
from schemas import limits
from schemas.operations import OPERATIONS

READ: Final = "limits:read"
WRITE: Final = "limits:write"

router: Final = APIRouter()


@router.post("/v1/policies")
async def publish(request: Request) -> Response:
    """Publishes a quota policy, or the next version of one."""
    return await calling.command(request, OPERATIONS["publish_policy"], None)


@router.get("/v1/policies")
async def list_policies(request: Request) -> Response:
    """The caller's policies, newest first."""
    ingress = calling.ingress_of(request)
    caller = await ingress.caller(request, READ)
    limit, cursor = calling.place(request)
    return calling.json(await ingress.quota_policies.page(caller.merchant, limit, cursor))


@router.get("/v1/policies/{policy_id}")
async def get_policy(request: Request, policy_id: str) -> Response:
    """The policy in force, with its versions."""
    ingress = calling.ingress_of(request)
    caller = await ingress.caller(request, READ)
    calling.require_id(policy_id)
    found = await ingress.quota_policies.get(caller.merchant, policy_id)
    return calling.json(found, calling.NO_STORE | {"ETag": f'"{found["version"]}"'})


@router.get("/v1/policy_snapshots/newest")
async def newest_snapshot(request: Request) -> Response:
    """What gateways decide by: signed, named by its digest, told only when it changed."""
    ingress = calling.ingress_of(request)
    await ingress.caller(request, READ)
    digest, document = await ingress.quota_policies.snapshot()
    etag = f'"{digest}"'
    headers = {"Cache-Control": f"private, max-age=0, stale-if-error={limits.LIMIT_SNAPSHOT_RENEW_S}", "ETag": etag}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return calling.json(document, headers)


@router.get("/v1/usage/{key:path}")
async def usage(request: Request, key: str) -> Response:
    """What a key has used, live and in the stream, each with its time."""
    ingress = calling.ingress_of(request)
    await ingress.caller(request, READ)
    return calling.json(await ingress.quota_policies.usage(key))
