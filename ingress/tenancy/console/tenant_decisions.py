"""What operators decide about tenants: grants of support access, moves, bills, evidence, by the API's own commands.

Support decides grants, platform moves and evidence, finance bills (``ingress/identity/roles.py``). That another person
approves than asked is the owner's rule; the page disables what it would refuse.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.commands.commands import Commands
from ingress.commands.envelope import read_call
from ingress.commands.envelope_fields import Fields
from ingress.commands.form_commands import carry_out
from ingress.console import visit as visits
from ingress.http.parts import parts_of
from ingress.operators import operating
from ingress.operators.audit import Audit
from ingress.tenancy.billing import invoice_payment
from ingress.tenancy.billing.invoice_routes import as_biller, ensure_intent
from ingress.tenancy.billing.invoices import Billing
from ingress.tenancy.safe_mode import SafeMode
from ingress.tenancy.usage.sums import Usage
from schemas import errors
from schemas.operators import decision_note
from schemas.services import OPERATIONS
from schemas.tenancy.desk_operations import REQUEST_SUPPORT_GRANT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingress.console.visit import Visit

_GRANT_VERBS: Final = ("approve", "deny", "revoke", "review")
_MOVE_VERBS: Final = ("abort", "rollback", "complete")
_NUMBER_DIGITS_MAX: Final = 18

router: Final = visits.router()


@router.post("/tenants/{tenant_id}/grants")
async def ask_for_access(request: Request, tenant_id: str) -> Response:
    """Asks for support access, which others grant."""
    async with visits.deciding(request, "grant.ask", tenant_id) as (visit, fields):
        await _carry_out(visit, fields, REQUEST_SUPPORT_GRANT, "grant.ask", tenant_id, _asked(fields))
    return _to(f"/tenants/{tenant_id}")


@router.post("/tenants/{tenant_id}/grants/{grant_id}/{verb}")
async def decide_grant(request: Request, tenant_id: str, grant_id: str, verb: str) -> Response:
    """Approves, denies, revokes or reviews. Raises StateConflict for whom the owner refuses, such as the requester."""
    _require(verb, _GRANT_VERBS)
    action = f"grant.{verb}"
    async with visits.deciding(request, action, grant_id) as (visit, fields):
        said = {"grant_id": grant_id}
        if verb == "review":
            said["findings"] = fields.get("findings", "").strip()
        await _carry_out(visit, fields, f"{verb}_support_grant", action, tenant_id, said)
    return _to("/grants")


@router.post("/tenants/{tenant_id}/moves")
async def start_move(request: Request, tenant_id: str) -> Response:
    """Begins a move."""
    async with visits.deciding(request, "move.start", tenant_id) as (visit, fields):
        said: dict[str, Any] = {"placement": {"mode": fields.get("mode", "")}}
        if rate := fields.get("rows_per_second", "").strip():
            said["rows_per_second"] = _number(rate, "rows_per_second")
        found = await _carry_out(visit, fields, "start_migration", "move.start", tenant_id, said)
    return _to(f"/tenants/{tenant_id}/moves/{found['migration_id']}" if found else f"/tenants/{tenant_id}")


@router.post("/tenants/{tenant_id}/moves/{migration_id}/{verb}")
async def decide_move(request: Request, tenant_id: str, migration_id: str, verb: str) -> Response:
    """Aborts, rolls back or completes."""
    _require(verb, _MOVE_VERBS)
    action = f"move.{verb}"
    async with visits.deciding(request, action, migration_id) as (visit, fields):
        said = {"migration_id": migration_id}
        await _carry_out(visit, fields, f"{verb}_migration", action, tenant_id, said)
    return _to(f"/tenants/{tenant_id}/moves/{migration_id}")


@router.post("/tenants/{tenant_id}/billing_runs")
async def bill(request: Request, tenant_id: str) -> Response:
    """Bills a period."""
    async with visits.deciding(request, "invoice.bill", tenant_id) as (visit, fields):
        said = {name: fields.get(name, "").strip() for name in ("from", "to")}
        await _carry_out(visit, fields, "create_billing_run", "invoice.bill", tenant_id, said)
    return _to(f"/tenants/{tenant_id}")


@router.post("/invoices/{invoice_id}/void")
async def void(request: Request, invoice_id: str) -> Response:
    """Nobody can pay it any more; what is paid is refunded instead."""
    async with visits.deciding(request, "invoice.void", invoice_id) as (visit, fields):
        calling.require_id(invoice_id)
        note, caller = decision_note.note_in(fields), visit.who.caller()
        operating.person(caller)
        stored = await parts_of(request).get(Billing).invoice(invoice_id)
        audit = parts_of(request).get(Audit)
        await audit.append(caller, "invoice.void", invoice_id, "begun", {"note": note})
        biller = as_biller(caller)
        intent = await ensure_intent(request, biller, stored.tenant_id, json.loads(stored.document))
        key = invoice_payment.try_identity(invoice_id, invoice_payment.CANCEL, fields.get("key", ""))
        done = await carry_out(request, biller, invoice_payment.CANCEL, key, {}, intent)
        if done.is_refused:
            raise errors.StateConflict(done.refusal)
        await audit.append(caller, "invoice.void", invoice_id, "done", {"note": note})
    return _to(f"/invoices/{invoice_id}")


@router.post("/isolation/{number}")
async def resolve(request: Request, number: str) -> Response:
    """A person has looked at a violation, and says what it was. Raises NotFound and StateConflict."""
    async with visits.deciding(request, "isolation.resolve", number) as (visit, fields):
        asked = {"number": _number(number, "number"), "note": decision_note.note_in(fields)}
        person = operating.person(visit.who.caller())
        store = parts_of(request).get(Usage).store
        ((word,),) = await store.rows("isolation_resolve", asked | {"person": person})
        if word == "not_found":
            raise errors.NotFound
        if word != "resolved":
            raise errors.StateConflict("It was resolved before.")
    return _to("/isolation")


@router.post("/isolation/safe_mode/{verb}")
async def safe_mode(request: Request, verb: str) -> Response:
    """Closes, or lifts: that needs another person, who says so too. Raises FourEyesRequired and StateConflict."""
    _require(verb, ("close", "lift"))
    async with visits.deciding(request, f"isolation.{verb}", "tenancy") as (visit, fields):
        person, note = operating.person(visit.who.caller()), decision_note.note_in(fields)
        mode = parts_of(request).get(SafeMode)
        await (mode.close(person, note) if verb == "close" else mode.lift(person, note))
    return _to("/isolation")


async def _carry_out(
    visit: Visit,
    fields: Mapping[str, str],
    name: str,
    action: str,
    tenant_id: str,
    said: dict[str, Any],
) -> dict[str, Any] | None:
    """The result of a person's command on a tenant, audited; None while it is not decided. Raises StateConflict."""
    ids = [tenant_id, *(id_ for field, id_ in said.items() if field.endswith("_id"))]
    for id_ in ids:
        calling.require_id(id_)
    audited = ids[-1]
    parts, who, operation = parts_of(visit.request), visit.who.caller(), OPERATIONS[name]
    person = operating.person(who)
    raw = msgspec.json.encode({"payload": said})
    by_token = {"person": person} if "person" in operation.payload else {}
    call = read_call(operation, tenant_id, raw, Fields(idempotency_key=fields.get("key", "")), who.principal, by_token)
    # Before it is sent: what cannot be audited is not done. The outcome has a row of its own.
    audit = parts.get(Audit)
    await audit.append(who, action, audited, "begun", {"tenant_id": tenant_id, "payload": call.payload})
    as_staff = structs.replace(who, scopes=who.scopes | {str(operation.scope)})  # its role was looked at already
    terms, _ = calling.terms(visit.request)
    answer, request_id = await parts.get(Commands).one(as_staff, call, terms)
    outcome = "done" if answer.code is None else "refused"
    await audit.append(who, action, audited, outcome, {"request_id": request_id, "code": answer.code})
    body: dict[str, Any] = msgspec.json.decode(answer.body)
    if answer.code is not None:  # audited with the command: not once more
        raise errors.StateConflict(body["detail"])
    return None if answer.pending else body["result"]


def _asked(fields: Mapping[str, str]) -> dict[str, Any]:
    """What a grant shall be. An empty field is left to its default."""
    said: dict[str, Any] = {name: fields.get(name, "").strip() for name in ("reason", "ticket")}
    said |= {name: words for name in ("scopes", "masked_fields") if (words := fields.get(name, "").split())}
    if not_before := fields.get("not_before", "").strip():
        said["not_before"] = not_before
    if minutes := fields.get("minutes", "").strip():
        said["duration_s"] = 60 * _number(minutes, "minutes")
    return said | ({"break_glass": True} if fields.get("break_glass") else {})


def _require(verb: str, verbs: tuple[str, ...]) -> None:
    if verb not in verbs:
        raise errors.NotFound


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _NUMBER_DIGITS_MAX):
        raise errors.InvalidCommand([{"field": name, "reason": "must be a number"}])
    return int(text)


def _to(path: str) -> Response:
    return visits.go(f"{visits.HOME}{path}")
