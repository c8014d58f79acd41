"""The moderation desk: the queue, one object, appeals, and how far decisions have come. For users with its scope.

Decisions are the API's own commands, in the moderator's name, audited before the answer leaves.
"""

from __future__ import annotations

import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from ingress import limits as ingress_limits
from ingress.commands.form_commands import carry_out
from ingress.console import visit as visits
from ingress.http.parts import parts_of
from ingress.operators.audit import Audit
from ingress.social.console import pictures
from ingress.social.console.pictures import Pictures
from ingress.social.desk import Desk
from ingress.social.moderation.moderation import Moderation
from ingress.social.users import Users
from schemas import errors, limits
from schemas.social.moderation_operations import DECISIONS
from schemas.social.value_types import USER_ID

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from ingress.console.visit import Visit

Json = dict[str, Any]
MODERATE: Final = "moderator"
DESK: Final = "/console/moderation"
_KEY_BYTES: Final = 16
_OPTIONAL: Final = ("label", "expires_at")
_VERSION_DIGITS_MAX: Final = 9
_REFUSALS: Final[dict[int, Callable[[str], errors.Rejected]]] = {
    403: errors.Forbidden,
    404: errors.NotFound,
    410: errors.Gone,
    422: lambda said: errors.InvalidCommand([], said),
}

router: Final = visits.router()


@router.get("/moderation")
async def queue(request: Request) -> Response:
    """What users report and nobody has decided, the most urgent first."""
    async with _moderating(request, "moderation.queue", "queue") as found:
        cursor = request.query_params.get("cursor") or None
        page = await _part(found, Moderation).queue(_user(found), ingress_limits.CONSOLE_ROWS_MAX, cursor)
    return found.page("desk_queue.html", rows=page["data"], next_cursor=page["next_cursor"], **_form(found))


@router.get("/moderation/objects/{object_id}")
async def one(request: Request, object_id: str) -> Response:
    """One object: what is said of it, what was decided, and the form to decide."""
    async with _moderating(request, "moderation.object", object_id) as found:
        if not USER_ID.fullmatch(object_id):
            raise errors.NotFound
        case = await _part(found, Desk).case(_user(found), object_id)
        asked = request.query_params.get("look", "")
        case["pictures"] = await _part(found, Pictures).of_object(object_id, _user(found), asked)
    return found.page("desk_object.html", object_id=object_id, decisions=DECISIONS, **case, **_form(found))


@router.get("/moderation/objects/{object_id}/pictures/{media_id}")
async def picture(request: Request, object_id: str, media_id: str) -> Response:
    """A picture that one has to judge, by the URL that its page gave: each look is a line of the audit log."""
    if not USER_ID.fullmatch(object_id) or not USER_ID.fullmatch(media_id):
        raise errors.NotFound
    async with _moderating(request, "moderation.look", media_id, {"case": object_id}) as found:
        query = dict(request.query_params)
        data, mime = await _part(found, Pictures).look(object_id, media_id, _user(found), query)
    return Response(data, headers=pictures.HEADERS, media_type=mime)


@router.get("/moderation/objects/{object_id}/text")
async def text(request: Request, object_id: str) -> Response:
    """The text of a post that one has to judge, whoever may see it: each look is a line of the audit log."""
    if not USER_ID.fullmatch(object_id):
        raise errors.NotFound
    async with _moderating(request, "moderation.look", object_id, {"case": object_id}) as found:
        texts = await _part(found, Desk).texts(_user(found), object_id)
    return found.page("desk_texts.html", object_id=object_id, texts=texts)


@router.get("/moderation/appeals")
async def appeals(request: Request) -> Response:
    """Appeals that wait, the oldest first."""
    async with _moderating(request, "moderation.appeals", "appeals") as found:
        rows = await _part(found, Desk).appeals()
    return found.page("desk_appeals.html", rows=rows, **_form(found))


@router.get("/moderation/decisions")
async def propagation(request: Request) -> Response:
    """The last decisions, and how far each has come; it looks again by itself while one is on its way."""
    async with _moderating(request, "moderation.propagation", "decisions") as found:
        rows = await _part(found, Desk).newest()
    pending = sum(one["state"] != "verified" for row in rows for one in row["consumers"])
    return found.page("desk_decisions.html", rows=rows, pending=pending)


@router.post("/moderation/objects/{object_id}/assign")
async def assign(request: Request, object_id: str) -> Response:
    """Takes a case to oneself. Raises StateConflict for another's."""
    async with _moderating(request, "moderation.assign", object_id) as found:
        await _decide(found, "assign_case", await found.form(), {}, object_id)
    return _to(f"/objects/{object_id}")


@router.post("/moderation/objects/{object_id}/decide")
async def decide(request: Request, object_id: str) -> Response:
    """Decides about an object: in force at once. Refused where another decision was made since the page was shown."""
    async with _moderating(request, "moderation.decide", object_id) as found:
        fields = await found.form()
        payload: Json = {"object_id": object_id, "decision": fields.get("decision", "")} | _said(fields)
        payload |= {name: word for name in _OPTIONAL if (word := fields.get(name, "").strip())}
        if fields.get("beside"):
            payload["beside"] = True
        if judged := fields.get("object_version", ""):
            payload["object_version"] = _number("object_version", judged)
        await _decide(found, "decide_case", fields, payload, version=fields.get("decision_version"))
    return _to("/decisions")


@router.post("/moderation/appeals/{appeal_id}")
async def decide_appeal(request: Request, appeal_id: str) -> Response:
    """Upholds or reverses; the owner refuses who decided before."""
    async with _moderating(request, "moderation.appeal", appeal_id) as found:
        fields = await found.form()
        payload = {"outcome": fields.get("outcome", "")} | _said(fields)
        await _decide(found, "decide_appeal", fields, payload, appeal_id)
    return _to("/appeals")


@asynccontextmanager
async def _moderating(
    request: Request, action: str, name: str, details: dict[str, str] | None = None
) -> AsyncIterator[Visit]:
    """A visit of a moderator, audited.

    Raises Unauthenticated without a session, Forbidden without the scope and to a moderator who is suspended.
    """
    found = await visits.visit(request)
    caller = found.who.caller()
    audit = parts_of(request).get(Audit)
    async with audit.privileged(caller, (MODERATE,), f"console.{action}", name, details or {}):
        await parts_of(request).get(Users).moderator(caller)
        yield found


async def _decide(
    found: Visit, name: str, fields: Json, payload: Json, path_id: str | None = None, version: str | None = None
) -> None:
    """Raises what the API answers, with the words of the refusal."""
    key, caller = fields.get("key", ""), found.who.caller()
    outcome = await carry_out(found.request, caller, name, key, payload, path_id, version)
    if outcome.refusal is not None:
        refusal = _REFUSALS.get(outcome.status, errors.StateConflict)
        raise refusal(outcome.refusal)


def _said(fields: Json) -> Json:
    """Why, and by which version of the policy. Raises InvalidCommand for what is no version."""
    version = _number("policy_version", fields.get("policy_version", "").strip())
    return {"reason": fields.get("reason", "").strip(), "policy_version": version}


def _number(field: str, said: str) -> int:
    if not said.isascii() or not said.isdecimal() or len(said) > _VERSION_DIGITS_MAX:
        raise errors.InvalidCommand([{"field": field, "reason": "must be the number of a version"}])
    return int(said)


def _form(found: Visit) -> Json:
    return {"key": secrets.token_hex(_KEY_BYTES), "moderator": _user(found), "note_max": limits.TEXT_LENGTH_MAX}


def _user(found: Visit) -> str:
    return found.who.caller().user


def _part(found: Visit, kind: type[Any]) -> Any:
    return parts_of(found.request).get(kind)


def _to(place: str) -> Response:
    return visits.go(f"{DESK}{place}")
