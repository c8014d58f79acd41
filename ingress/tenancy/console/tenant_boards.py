"""Boards of the platform: a move with the sums of both sides, noisy callers, room of stores, what the monitor found."""

from __future__ import annotations

import asyncio
import secrets
from datetime import UTC, datetime
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from dataflows.tenancy.domain.capacity import Store
from ingress import limits
from ingress.commands import calling
from ingress.console import visit as visits
from ingress.tenancy.console.tenant_routes import KEY_BYTES
from schemas import errors
from schemas import limits as schemas_limits
from schemas.tenancy import limits as tenancy_limits
from schemas.tenancy.service import SERVICE

_GATES: Final = ("planned", "prepared", "copying", "catching_up", "verifying", "fencing", "committed", "soaking")
_ENDED: Final = frozenset({"completed", "aborted", "rolled_back"})

router: Final = visits.router()


@router.get("/tenants/{tenant_id}/moves/{migration_id}")
async def move(request: Request, tenant_id: str, migration_id: str) -> Response:
    """A move: its gates, how far it is, what both sides come to. It looks again by itself. Raises NotFound."""
    async with visits.reading_of(request, "move", migration_id) as visit:
        calling.require_id(tenant_id)
        calling.require_id(migration_id)
        rows = await visit.console.records("tenant_moves", tenant=tenant_id, migration=migration_id, limit=1)
        if not rows:
            raise errors.NotFound("There is no such move.")
    found = rows[0]
    return visit.page(
        "move.html",
        move=found,
        gates=gates(found["state"]),
        ended=found["state"] in _ENDED,
        key=secrets.token_hex(KEY_BYTES),
    )


def gates(state: str) -> list[tuple[str, str]]:
    """The gates of a move in their order, each done, open or to come; none of one that goes back."""
    if state not in _GATES:
        return []
    at = _GATES.index(state)
    return [(name, "done" if n < at else "open" if n == at else "to come") for n, name in enumerate(_GATES)]


@router.get("/noisy")
async def noisy(request: Request) -> Response:
    """Who had others of its partition wait, and what is proposed."""
    async with visits.reading_of(request, "noisy", "noisy") as visit:
        rows = await visit.console.records("noisy", topic=SERVICE.commands_topic, limit=limits.CONSOLE_ROWS_MAX)
    return visit.page("noisy.html", rows=rows)


@router.get("/capacity")
async def capacity(request: Request) -> Response:
    """What each store of tenants' rows holds and may, and which kind of tenant is refused now."""
    async with visits.reading_of(request, "capacity", "capacity") as visit:
        rows = await visit.console.records("capacity", limit=limits.CONSOLE_ROWS_MAX)
    return visit.page("capacity.html", rows=[row | room_of(row) for row in rows], refusing=refusing(rows))


def room_of(row: dict[str, Any]) -> dict[str, Any]:
    """How many tenants a store may hold, and whether it takes another, as whoever makes or moves one decides it."""
    held = _store(row)
    if not row["is_made"]:
        return {"places": held.places, "state": "being made"}
    return {"places": held.places, "state": "has room" if held.has_room else held.state}


def refusing(rows: list[dict[str, Any]]) -> list[str]:
    """The modes of which no store takes another tenant."""
    takes = {row["mode"] for row in rows if row["is_made"] and _store(row).has_room}
    return sorted({row["mode"] for row in rows} - takes)


def _store(row: dict[str, Any]) -> Store:
    return Store(**{name: row[name] for name in Store.__struct_fields__})


@router.get("/isolation")
async def isolation(request: Request) -> Response:
    """What the monitor saw last, and the evidence that waits for a person."""
    async with visits.reading_of(request, "isolation", "isolation") as visit:
        console, bound = visit.console, {"limit": limits.CONSOLE_ROWS_MAX}
        rounds, modes, lints, rows = await asyncio.gather(
            console.records("isolation_state"),
            console.records("isolation_mode"),
            console.records("isolation_lints", **bound),
            console.records("isolation_evidence", **bound),
        )
    return visit.page(
        "isolation.html",
        round=rounds[0] if rounds else None,
        mode=modes[0],
        status=status_of(rounds, lints, rows, datetime.now(UTC)),
        lints=lints,
        rows=rows,
        key=secrets.token_hex(KEY_BYTES),
        note_max=schemas_limits.NOTE_LENGTH_MAX,
    )


def status_of(
    rounds: list[dict[str, Any]], lints: list[dict[str, Any]], rows: list[dict[str, Any]], now: datetime
) -> str:
    """As ``GET /v1/isolation`` says it."""
    if any(row["resolved_at"] is None for row in rows) or any(lint["gaps"] for lint in lints):
        return "violated"
    is_fresh = bool(rounds) and (now - rounds[0]["as_of"]).total_seconds() <= tenancy_limits.ISOLATION_STALE_S
    return "ok" if is_fresh else "stale"
