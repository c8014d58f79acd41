"""The routes of the rate limiter: publishing and reading policies, the signed snapshot, and what a key has used."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.http.parts import parts_of
from ingress.http.requests import preferences
from ingress.identity.auth import Authenticator
from ingress.limiter.admission import Reach
from ingress.limiter.quota_policies import QuotaPolicies
from ingress.operators.audit import Audit
from limiter.policy import keys
from schemas.limiter import limits
from schemas.limiter.operations import OPERATIONS

if TYPE_CHECKING:
    from ingress.identity.caller import Caller

READ: Final = "limits:read"
WRITE: Final = "limits:write"
_PUBLISH: Final = "policy.publish"
_WITHDRAW: Final = "policy.withdraw"
_POLICIES: Final = "policies"  # the object where no policy is named
_REFUSED: Final = 400
_FOR_EVER: Final = "private, max-age=31536000, immutable"  # private: it is told to whoever has the scope

router: Final = APIRouter()


@router.post("/v1/policies")
async def publish(request: Request) -> Response:
    """Publishes a quota policy, or the next version of one; who did it stands in the audit log."""
    return await _changed(request, "publish_policy", _PUBLISH, None)


@router.post("/v1/policies/{policy_id}/withdraw")
async def withdraw(request: Request, policy_id: str) -> Response:
    """Takes a quota policy out of force, for good; who did it stands in the audit log."""
    return await _changed(request, "withdraw_policy", _WITHDRAW, policy_id)


async def _changed(request: Request, operation: str, action: str, policy_id: str | None) -> Response:
    parts, named = parts_of(request), policy_id or _POLICIES
    caller = await parts.get(Authenticator).caller_in(request.scope)
    async with parts.get(Audit).privileged(caller, (WRITE,), action, named, {}, audits_itself=True):
        await parts.get(Audit).append(caller, action, named, "begun", {})  # what cannot be audited is not done
        response = await calling.command(request, OPERATIONS[operation], policy_id)
    name, outcome, details = _became(response, named)
    await parts.get(Audit).append(caller, action, name, outcome, details)
    return response


@router.get("/v1/policies")
async def list_policies(request: Request) -> Response:
    """The caller's policies, newest first."""
    parts = parts_of(request)
    async with _audited(request, "policy.list", _POLICIES) as caller:
        limit, cursor = calling.place(request)
        found = await parts.get(QuotaPolicies).page(caller.principal, limit, cursor)
    return calling.json(found)


@router.get("/v1/policies/{policy_id}")
async def get_policy(request: Request, policy_id: str) -> Response:
    """The policy in force, with its versions."""
    parts = parts_of(request)
    async with _audited(request, "policy.read", policy_id) as caller:
        calling.require_id(policy_id)
        found = await parts.get(QuotaPolicies).get(caller.principal, policy_id)
    return calling.json(found, calling.NO_STORE | {"ETag": f'"{found["version"]}"'})


@router.get("/v1/policy_snapshots/newest")
async def newest_snapshot(request: Request) -> Response:
    """What gateways decide by: signed, named by its digest, told when it changed; with Prefer: wait=N, as soon."""
    parts = parts_of(request)
    await _gateway(request)
    known = request.headers.get("if-none-match", "").strip('"')
    asked = preferences.parse(request.headers.getlist("prefer"))
    found = await parts.get(QuotaPolicies).newer_within(known, min(asked.wait_s or 0, limits.LIMIT_SNAPSHOT_WAIT_S))
    digest = known if found is None else found[0]
    headers = {
        "Cache-Control": f"private, max-age=0, stale-if-error={limits.LIMIT_SNAPSHOT_RENEW_S}",
        "ETag": f'"{digest}"',
        "Content-Location": f"/v1/policy_snapshots/{digest}",
    }
    if asked.wait_s is not None:
        headers["Preference-Applied"] = f"wait={asked.wait_s}"
    return Response(status_code=304, headers=headers) if found is None else calling.json(found[1], headers)


@router.get("/v1/policy_snapshots/{digest}")
async def snapshot(request: Request, digest: str) -> Response:
    """The snapshot of a digest: never another one, so that whoever may read it never asks for it again."""
    parts = parts_of(request)
    await _gateway(request)
    document = await parts.get(QuotaPolicies).snapshot_of(digest)
    headers = {"Cache-Control": _FOR_EVER, "ETag": f'"{digest}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return calling.json(document, headers)


@router.get("/v1/usage/{key:path}")
async def usage(request: Request, key: str) -> Response:
    """What a key has used, live and in the stream, each with its time; from a client's network, with ``network``."""
    parts = parts_of(request)
    client = request.query_params.get("network")
    async with _audited(request, "usage.read", key, {} if client is None else {"network": client}) as caller:
        if (refusal := parts.get(Reach).why_not(caller, keys.parts_of(key, client)["tenant"])) is not None:
            raise refusal
        found = await parts.get(QuotaPolicies).usage(key, client)
    return calling.json(found)


async def _gateway(request: Request) -> None:
    """Raises Forbidden for who may not read the policies of all tenants."""
    caller = await calling.caller_of(request, READ)
    if (refusal := parts_of(request).get(Reach).why_no_snapshot(caller)) is not None:
        raise refusal


@asynccontextmanager
async def _audited(
    request: Request, action: str, name: str, details: dict[str, Any] | None = None
) -> AsyncIterator[Caller]:
    """Who reads what concerns others' tenants; in the audit log before the answer is given, refusals too."""
    parts = parts_of(request)
    caller = await parts.get(Authenticator).caller_in(request.scope)
    async with parts.get(Audit).privileged(caller, (READ,), action, name, details or {}):
        yield caller


def _became(response: Response, named: str) -> tuple[str, str, dict[str, Any]]:
    """Of which policy, what became of it, and the details: the version as it was published, or why not."""
    body = msgspec.json.decode(response.body)
    details: dict[str, Any] = {"status": response.status_code}
    if response.status_code >= _REFUSED:
        return named, "refused", details | {"code": body.get("code")}
    policy = body.get("result") or {}  # none while it is not decided
    return policy.get("policy_id", named), "done", details | {"policy": policy}
