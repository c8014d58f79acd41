"""Whether tenants are apart: what the monitor saw last, for staff. What it has not looked at lately is stale.

Safe mode is lifted by two operators of the platform, when it is proved that they are apart again. By hand it is
switched on in the console alone: no program that tries every route of the document may leave all tenants unanswered.
"""

from __future__ import annotations

import time
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.http.pages import NewestFirst, Place
from ingress.http.parts import parts_of
from ingress.operators import decisions
from ingress.tenancy.callers import require_staff
from ingress.tenancy.safe_mode import SafeMode
from ingress.tenancy.usage.sums import Usage
from schemas.operators import decision_note
from schemas.tenancy import limits
from schemas.tenancy.desk_operations import STAFF
from schemas.tenancy.instants import instant

router: Final = APIRouter()
_SECOND_US: Final = 1_000_000


@router.get("/v1/isolation")
async def isolation(request: Request) -> Response:
    """The newest round of the monitor."""
    require_staff(await calling.caller_of(request, STAFF), STAFF)
    (row,) = await parts_of(request).get(Usage).store.rows("isolation", {})
    safe_mode = await parts_of(request).get(SafeMode).shown()
    return calling.json(_shown(row, time.time_ns() // 1_000) | {"safe_mode": safe_mode})


@router.get("/v1/isolation/evidence")
async def evidence(request: Request) -> Response:
    """All that the monitor ever found, newest first, and who has said what of it."""
    caller = await calling.caller_of(request, STAFF)
    require_staff(caller, STAFF)
    name, place = "isolation_evidence_page", calling.place(request)
    pages = parts_of(request).get(NewestFirst)
    found = await pages.page(name, "isolation_evidence", caller.principal, {}, *place, tuple, _place_of, _found)
    return calling.json(found)


@router.post("/v1/isolation/lift")
async def lift(request: Request) -> Response:
    """One person would lift it, another lifts it."""
    async with decisions.deciding(request, "isolation.lift", "tenancy") as asked:
        note = decision_note.read_decision(decision_note.REQUIRED, asked.body)["note"]
        word = await asked.parts.get(SafeMode).lift(asked.person, note)
    return calling.json({"result": {"state": word}})


def _shown(row: tuple[Any, ...], now_us: int) -> dict[str, Any]:
    as_of, probes, violations, lints = row
    is_stale = as_of is None or now_us - as_of > limits.ISOLATION_STALE_S * _SECOND_US
    is_violated = violations or any(lint["gaps"] for lint in lints)
    return {
        "status": "violated" if is_violated else "stale" if is_stale else "ok",
        "as_of": None if as_of is None else instant(as_of),
        "probes": probes or 0,
        "violations": violations,
        "lints": lints,
    }


def _place_of(row: tuple[Any, ...]) -> Place:
    return row[0], ""


def _found(row: tuple[Any, ...]) -> dict[str, Any]:
    number, seen_at, probe, said, resolved_at, resolved_by, note = row
    return {
        "object": "isolation_evidence",
        "number": number,
        "seen_at": instant(seen_at),
        "probe": probe,
        "evidence": said,
        "resolved_at": None if resolved_at is None else instant(resolved_at),
        "resolved_by": resolved_by,
        "note": note,
    }
