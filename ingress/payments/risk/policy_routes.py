"""The routes of published policies, the same for every kind. A token needs the operator's scope; all is audited."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress import limits as ingress_limits
from ingress.commands import calling
from ingress.http.parts import parts_of
from ingress.http.requests import reading, strict_json
from ingress.operators import operating
from ingress.operators.audit import Audit
from ingress.payments.risk.policies import PolicyVersions
from schemas import errors
from schemas.payments import limits as payments_limits
from schemas.payments.policies import kinds

router: Final = APIRouter()


def _add_routes(kind: str) -> None:
    root, action = f"/v1/{kind}/policies", f"{kind}_policy"

    @router.post(root, name=f"publish_{kind}_policy")
    async def publish(request: Request) -> Response:
        """Makes the next version, in force everywhere within about a second; fees from the time that they say.

        Of what prices or moves money, when a second person says the same; 202 until then.
        """
        parts = parts_of(request)
        async with parts.get(Audit).operator(request, f"{action}.publish", kind, audits_itself=True) as caller:
            who = operating.person(caller)
            raw = await reading.body(request, reading.JSON, payments_limits.POLICY_BODY_BYTES_MAX)
            payload = strict_json.parse(raw)
            if not isinstance(payload, dict):
                raise errors.MalformedRequest("The body must be a JSON object.")
            found, replayed = await parts.get(PolicyVersions).publish(kind, payload, who)
        if found is None:
            waiting = {"object": f"{kind}_policy_proposal", "state": "proposed", "author": who}
            return calling.decided(waiting, is_replayed=replayed, status=202)
        return calling.created(found, f"{root}/{found['version']}", is_replayed=replayed)

    @router.get(root, name=f"list_{kind}_policies")
    async def history(request: Request) -> Response:
        """Every version, newest first."""
        parts = parts_of(request)
        async with parts.get(Audit).operator(request, f"{action}.list", kind):
            limit = reading.limit(
                request, payments_limits.POLICIES_PAGE_LIMIT_DEFAULT, ingress_limits.POLICIES_PAGE_LIMIT_MAX
            )
            found = await parts.get(PolicyVersions).page(kind, limit, reading.query(request, "cursor"))
        return calling.json(found)

    if kind in kinds.OF_TWO_PERSONS:

        @router.get(f"{root}/proposals", name=f"list_{kind}_policy_proposals")
        async def proposed(request: Request) -> Response:
            """What waits for a second person, who publishes it by saying the same."""
            parts = parts_of(request)
            async with parts.get(Audit).operator(request, f"{action}.list", kind):
                return calling.json(await parts.get(PolicyVersions).proposed(kind))

    @router.get(f"{root}/{{version}}", name=f"get_{kind}_policy")
    async def one(request: Request, version: str) -> Response:
        """One version as it was published."""
        parts = parts_of(request)
        async with parts.get(Audit).operator(request, f"{action}.read", f"{kind}:{version}"):
            found = await parts.get(PolicyVersions).get(kind, version)
        return calling.json(found)


for _kind in kinds.READERS:
    _add_routes(_kind)
