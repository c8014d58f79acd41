"""Cases and repairs: propose, approve as a second person, reject, reverse. All through ``ingress.payments.repair``.

The page disables what the person may not do and says why; the database refuses it anyway.
"""

from __future__ import annotations

import json
import secrets
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.commands.envelope_fields import Fields
from ingress.console import visit as visits
from ingress.http.parts import parts_of
from ingress.operators.cases import Cases
from ingress.payments.console import decision
from ingress.payments.repair.closings import Closings
from ingress.payments.repair.outcomes import Outcomes
from ingress.payments.repair.repairs import Repairs
from schemas import limits
from schemas.payments import attempt_outcome, case_closing, repair

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingress.console.session import Session

_KEY_BYTES: Final = 16
_TIMES: Final = ("opened_at", "resolved_at", "proposed_at", "decided_at", "posted_at", "reopened_at", "recorded_at")
#: fields of the form that are passed on as they are, when they are not empty
_WORDS: Final = ("template", "account", "side", "reference", "processor", "currency")

router: Final = visits.router()


@router.get("/cases/{case_id}")
async def show_case(request: Request, case_id: str) -> Response:
    """A case with its evidence, what was proposed for it, and forms to propose something or to close it."""
    async with visits.reading_of(request, "case", case_id) as visit:
        calling.require_id(case_id)
        parts = parts_of(request)
        found = _readable(await parts.get(Cases).get(case_id))
        proposals = [_readable(one) for one in (await parts.get(Repairs).of_case(case_id))["data"]]
        closings = [_readable(one) for one in (await parts.get(Closings).of_case(case_id))["data"]]
        outcomes = [_readable(one) for one in (await parts.get(Outcomes).of_case(case_id))["data"]]
    return visit.page(
        "case.html",
        case=found,
        proposals=proposals,
        closings=closings,
        outcomes=outcomes,
        statuses=attempt_outcome.STATUSES,
        reasons=case_closing.REASONS,
        templates=repair.TEMPLATES,
        sides=repair.SIDES,
        key=secrets.token_hex(_KEY_BYTES),
        refusal=_why_not(visit.who),
        note_max=limits.NOTE_LENGTH_MAX,
    )


@router.post("/cases/{case_id}/proposals")
async def propose(request: Request, case_id: str) -> Response:
    """Proposes a repair."""
    async with decision.deciding(request, "repair.propose", case_id) as form:
        found, _ = await form.parts.get(Repairs).propose(
            case_id, form.proposal(form.payload(_WORDS)), Fields(), form.person
        )
    return decision.to("repairs", found["id"])


@router.get("/repairs/{repair_id}")
async def show_repair(request: Request, repair_id: str) -> Response:
    """A proposal with every balance before and after, and what this person may do about it."""
    async with visits.reading_of(request, "repair", repair_id) as visit:
        calling.require_id(repair_id)
        found = _readable(await parts_of(request).get(Repairs).get(repair_id))
    return visit.page(
        "repair.html",
        repair=found,
        refusal=_why_not(visit.who),
        refusal_to_approve=_why_not_approve(visit.who, found),
        key=secrets.token_hex(_KEY_BYTES),
        note_max=limits.NOTE_LENGTH_MAX,
    )


@router.post("/repairs/{repair_id}/approve")
async def approve(request: Request, repair_id: str) -> Response:
    """Approves as another person than the author, and posts."""
    await decision.approve(request, Repairs, "repair.approve", repair_id)
    return decision.to("repairs", repair_id)


@router.post("/repairs/{repair_id}/reject")
async def reject(request: Request, repair_id: str) -> Response:
    """Rejects a proposal, or withdraws one's own."""
    await decision.reject(request, Repairs, "repair.reject", repair_id)
    return decision.to("repairs", repair_id)


@router.post("/repairs/{repair_id}/reverse")
async def reverse(request: Request, repair_id: str) -> Response:
    """Proposes the mirror image of a posted repair, for two persons again."""
    async with decision.deciding(request, "repair.reverse", repair_id) as form:
        body = form.proposal({"note": form.fields.get("note", "")})
        found, _ = await form.parts.get(Repairs).reverse(repair_id, body, Fields(), form.person)
    return decision.to("repairs", found["id"])


def _why_not(session: Session) -> str | None:
    """Why this person may decide nothing; None when it may."""
    return None if session.may_decide else "Your session only reads: deciding needs a token with the scope operator."


def _why_not_approve(session: Session, found: Mapping[str, Any]) -> str | None:
    """Why this person may not approve this repair; None when it may. The database decides in any case."""
    if reason := _why_not(session):
        return reason
    if found["author"] == session.subject:
        return "You proposed it: a second person has to approve."
    return None


def _readable(found: dict[str, Any]) -> dict[str, Any]:
    """A rendered case or repair with its times and documents as values."""
    times = {name: datetime.fromisoformat(found[name]) for name in _TIMES if found.get(name)}
    documents = {name: json.loads(bytes(found[name])) for name in ("evidence", "entries", "preview") if name in found}
    return found | times | documents
