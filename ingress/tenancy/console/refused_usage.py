"""Usage that programs wrote to Kafka and that does not count: an operator has it judged again, or gives it up."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ingress import limits
from ingress.commands import calling
from ingress.console import visit as visits
from ingress.http.parts import parts_of
from ingress.operators import operating
from ingress.tenancy.usage.sums import Usage
from schemas import errors
from schemas import limits as schemas_limits
from schemas.operators import decision_note
from schemas.tenancy.refused_usage import raise_unless

#: what a form says, and what the record is then
_DECISIONS: Final = {"send": "asked", "discard": "discarded"}

router: Final = visits.router()


@router.get("/refused_usage")
async def board(request: Request) -> Response:
    """What waits first, with as much of each as is kept."""
    async with visits.reading_of(request, "refused_usage", "usage") as visit:
        rows = await visit.console.records("refused_usage", limit=limits.CONSOLE_ROWS_MAX)
    return visit.page(
        "refused_usage.html", rows=rows, rows_max=limits.CONSOLE_ROWS_MAX, note_max=schemas_limits.NOTE_LENGTH_MAX
    )


@router.post("/refused_usage/{refused_id}")
async def decide(request: Request, refused_id: str) -> Response:
    """Sends again or discards; the database's function decides, once. Raises NotFound or StateConflict."""
    async with visits.deciding(request, "usage.decide", refused_id) as (visit, fields):
        calling.require_id(refused_id)
        decision = _DECISIONS.get(fields.get("decision", ""))
        if decision is None:
            raise errors.InvalidCommand([{"field": "decision", "reason": "must be one of send, discard"}])
        note = decision_note.note_in(fields)
        asked = {"refused_id": refused_id, "decision": decision, "note": note}
        person = operating.person(visit.who.caller())
        ((word,),) = await parts_of(request).get(Usage).store.rows("usage_refused_decide", asked | {"person": person})
        raise_unless(word, decision)
    return visits.go("/console/refused_usage")
