"""The routes of webhook endpoints: where a merchant wants to be told, and the log of what was told."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.http.parts import parts_of
from ingress.http.requests import reading, strict_json
from ingress.identity.signed_requests import SignedRequests
from ingress.payments import reads
from ingress.payments.active_policies import ActivePolicies
from ingress.payments.merchants.endpoints import Endpoints
from schemas import errors, limits
from schemas.payments.operations import WRITE

router: Final = APIRouter()


def _endpoints(request: Request) -> Endpoints:
    return parts_of(request).get(Endpoints)


async def _merchant(request: Request, scope: str) -> str:
    caller = await calling.caller_of(request, scope)
    return caller.merchant


async def _own(request: Request, scope: str, object_id: str) -> str:
    merchant = await _merchant(request, scope)
    calling.require_id(object_id)
    return merchant


async def _changing(request: Request, object_id: str) -> str:
    """The merchant that changes something of its own, signed where that has to be.

    These calls have nothing to say; an empty object is as good as nothing. Raises MalformedRequest.
    """
    merchant = await _own(request, WRITE, object_id)
    parts_of(request).get(ActivePolicies).require_new_work()
    raw = await reading.body(request, reading.JSON, limits.BODY_BYTES_MAX)
    if raw and strict_json.parse(raw) != {}:
        raise errors.MalformedRequest("This call takes no body.")
    await parts_of(request).get(SignedRequests).once(request, merchant, raw)
    return merchant


@router.post("/v1/webhook_endpoints")
async def create_endpoint(request: Request) -> Response:
    """Makes an endpoint and shows its secret, once. The URL is the identity: again, it is the same endpoint."""
    merchant = await _merchant(request, WRITE)
    parts_of(request).get(ActivePolicies).require_new_work()
    raw = await reading.body(request, reading.JSON, limits.BODY_BYTES_MAX)
    await parts_of(request).get(SignedRequests).once(request, merchant, raw)
    made, was_there = await _endpoints(request).create(merchant, strict_json.parse(raw))
    return calling.created({"result": made}, f"/v1/webhook_endpoints/{made['id']}", is_replayed=was_there)


@router.get("/v1/webhook_endpoints")
async def list_endpoints(request: Request) -> Response:
    """The caller's endpoints, newest first."""
    merchant = await _merchant(request, reads.READ)
    return calling.json(await _endpoints(request).page(merchant, *calling.place(request)))


@router.get("/v1/webhook_endpoints/{endpoint_id}")
async def get_endpoint(request: Request, endpoint_id: str) -> Response:
    """The endpoint: whether it is verified, or why it was disabled."""
    merchant = await _own(request, reads.READ, endpoint_id)
    return calling.json(await _endpoints(request).get(merchant, endpoint_id))


@router.delete("/v1/webhook_endpoints/{endpoint_id}")
async def delete_endpoint(request: Request, endpoint_id: str) -> Response:
    """Nothing is sent there any more."""
    merchant = await _changing(request, endpoint_id)
    await _endpoints(request).delete(merchant, endpoint_id)
    return Response(status_code=204, headers=calling.NO_STORE)


@router.post("/v1/webhook_endpoints/{endpoint_id}/rotate_secret")
async def rotate_secret(request: Request, endpoint_id: str) -> Response:
    """Shows a new secret, once; the one before signs too for a named time."""
    merchant = await _changing(request, endpoint_id)
    return calling.json({"result": await _endpoints(request).rotate(merchant, endpoint_id)})


@router.post("/v1/webhook_endpoints/{endpoint_id}/enable")
async def enable_endpoint(request: Request, endpoint_id: str) -> Response:
    """A disabled endpoint is sent to again, from now on."""
    merchant = await _changing(request, endpoint_id)
    return calling.json({"result": await _endpoints(request).enable(merchant, endpoint_id)})


@router.get("/v1/webhook_endpoints/{endpoint_id}/deliveries")
async def list_deliveries(request: Request, endpoint_id: str) -> Response:
    """What was sent there and what came of it, newest first."""
    merchant = await _own(request, reads.READ, endpoint_id)
    limit, cursor = calling.place(request)
    return calling.json(await _endpoints(request).deliveries(merchant, endpoint_id, limit, cursor))


@router.post("/v1/webhook_deliveries/{delivery_id}/resend")
async def resend_delivery(request: Request, delivery_id: str) -> Response:
    """Sends it again now, out of order, under the same webhook-id."""
    merchant = await _changing(request, delivery_id)
    return calling.json({"result": await _endpoints(request).resend(merchant, delivery_id)})
