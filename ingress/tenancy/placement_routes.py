"""Where tenants may be placed, for staff; operators of the platform empty a schema, and use it again."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from dataflows.tenancy.domain.capacity import DRAINING, OPEN, Store
from ingress.commands import calling
from ingress.http.parts import parts_of
from ingress.operators import decisions
from ingress.tenancy import callers
from ingress.tenancy.tenants import Tenants
from schemas.operators import decision_note
from schemas.tenancy.instants import instant
from schemas.tenancy.operations import STAFF
from schemas.tenancy.placement_decision import ACTIVATE, DRAIN

router: Final = APIRouter()
#: why one is not, by the database's word
_CONFLICTS: Final = {
    "store_not_shared": "Only a schema that tenants share is drained: move those with a store of their own yourself.",
    "store_last": "No other schema that tenants share is open: its tenants could go nowhere. Add one first.",
}


@router.get("/v1/placements")
async def list_placements(request: Request) -> Response:
    """Where tenants may be placed, and what room there is; for staff, who may be refused with ``placement_full``."""
    caller = await calling.caller_of(request, STAFF)
    callers.require_staff(caller, STAFF)
    stores = await parts_of(request).get(Tenants).stores()
    return calling.json({"data": [placement(*row) for row in stores]})


@router.post("/v1/placements/{store}/drain")
async def drain(request: Request, store: str) -> Response:
    """It takes nobody from now on, and its tenants are moved away, some at a time; empty, it is retired."""
    async with decisions.deciding(request, "placement.drain", store) as asked:
        said = decision_note.read_decision(DRAIN, asked.body)
        return await _stands(asked, store, DRAINING, said["note"], said["soak_s"])


@router.post("/v1/placements/{store}/activate")
async def activate(request: Request, store: str) -> Response:
    """Tenants may come again. Moves that were begun go on."""
    async with decisions.deciding(request, "placement.activate", store) as asked:
        note = decision_note.read_decision(ACTIVATE, asked.body)["note"]
        return await _stands(asked, store, OPEN, note, None)


async def _stands(asked: decisions.Decision, store: str, stands: str, note: str, soak_s: int | None) -> Response:
    tenants = asked.parts.get(Tenants)
    word = await tenants.stand(store, stands, soak_s, asked.person, note)
    decisions.require(word, "opened" if stands == OPEN else DRAINING, _CONFLICTS)
    (found,) = [row for row in await tenants.stores() if row[0] == store]
    return calling.json({"result": placement(*found)})


def placement(store: str, mode: str, is_made: bool, *counted: Any) -> dict[str, Any]:
    """One as it is told, of the columns of its row."""
    tenants_max, bytes_max, tenants, size, standing, measured_at, moving, soaking = counted
    held = Store(
        store=store,
        mode=mode,
        tenants_max=tenants_max,
        bytes_max=bytes_max,
        tenants=tenants,
        bytes=size,
        standing=standing,
    )
    return {
        "store": store,
        "mode": mode,
        "state": held.state if is_made else "provisioning",
        "tenants": tenants,
        "tenants_max": held.places,
        "bytes": size,
        "bytes_max": bytes_max,
        "measured_at": None if measured_at is None else instant(measured_at),
        "moving": moving,
        "soaking": soaking,
    }
