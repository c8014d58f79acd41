"""A parked command: an operator has it tried again or gives it up, with a note that is kept with the name."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ingress.console import visit as visits
from ingress.http.parts import parts_of
from ingress.operators import operating
from ingress.operators.parked import ParkedCommands, Place
from schemas import errors, limits
from schemas.fields import validation
from schemas.operators import decision_note

_QUEUE: Final = "/console/queues/parked"
_PARTITION_MAX: Final = 2**31 - 1
_OFFSET_MAX: Final = 2**63 - 1
_DIGITS_MAX: Final = len(str(_OFFSET_MAX))

router: Final = visits.router()


@router.post("/queues/parked/{topic}/{partition}/{offset}")
async def decide(request: Request, topic: str, partition: str, offset: str) -> Response:
    """Retries or discards; the database's function decides, once. Raises NotFound or StateConflict."""
    name = f"{topic}/{partition}/{offset}"
    async with visits.deciding(request, "parked.decide", name) as (visit, fields):
        place = _place(topic, partition, offset)
        note = decision_note.note_in(fields)
        person = operating.person(visit.who.caller())
        await parts_of(request).get(ParkedCommands).decide(place, fields.get("decision", ""), person, note)
    return visits.go(_QUEUE)


def _place(topic: str, partition: str, offset: str) -> Place:
    """Raises NotFound for what can be no record's place."""
    are_numbers = all(n.isascii() and n.isdecimal() and len(n) <= _DIGITS_MAX for n in (partition, offset))
    if validation.clean_text(topic, limits.TEXT_LENGTH_MAX) is not None or not are_numbers:
        raise errors.NotFound
    if int(partition) > _PARTITION_MAX or int(offset) > _OFFSET_MAX:
        raise errors.NotFound
    return Place(topic=topic, partition=int(partition), offset=int(offset))
