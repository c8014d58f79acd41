"""The routes of signing keys: merchants' own, and the operators' for who lost every key. All changes are audited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.http.parts import Parts, parts_of
from ingress.http.requests import reading, strict_json
from ingress.identity.auth import Authenticator
from ingress.identity.caller import NAME
from ingress.identity.signed_requests import SignedRequests
from ingress.identity.signing_keys import SigningKeys
from ingress.operators import operating
from ingress.operators.audit import Audit
from ingress.payments import reads
from schemas import errors, limits
from schemas.fields import validation

if TYPE_CHECKING:
    from ingress.identity.caller import Caller
    from ingress.identity.signed_requests import Proof

#: a scope of its own: the token of every day's payments changes no key
MANAGE: Final = "signing_keys:write"
_REQUIREMENT: Final = "requirement"
_REASON: Final = "reason"

router: Final = APIRouter()


@router.post("/v1/signing_keys")
async def register_key(request: Request) -> Response:
    """Takes a public key of the caller. The key is the identity: again, it is the same one."""
    parts, caller = await _caller(request)
    async with parts.get(Audit).privileged(caller, (MANAGE,), "signing_key.register", "-", {}, audits_itself=True):
        body, proof = await _signed(request, parts, caller)
        found, was_there = await parts.get(SigningKeys).register(caller, body, proof)
    return calling.created({"result": found}, f"/v1/signing_keys/{found['id']}", is_replayed=was_there)


@router.get("/v1/signing_keys")
async def list_keys(request: Request) -> Response:
    """The caller's keys, newest first; revoked ones too."""
    parts = parts_of(request)
    caller = await calling.caller_of(request, reads.READ)
    return calling.json(await parts.get(SigningKeys).page(caller.merchant, *calling.place(request)))


@router.get("/v1/signing_keys/{key_id}")
async def get_key(request: Request, key_id: str) -> Response:
    """One key."""
    parts = parts_of(request)
    caller = await calling.caller_of(request, reads.READ)
    calling.require_id(key_id)
    return calling.json(await parts.get(SigningKeys).get(caller.merchant, key_id))


@router.post("/v1/signing_keys/{key_id}/revoke")
async def revoke_key(request: Request, key_id: str) -> Response:
    """From now on, everywhere within seconds, the key signs nothing new."""
    parts, caller = await _caller(request)
    async with parts.get(Audit).privileged(caller, (MANAGE,), "signing_key.revoke", key_id, {}, audits_itself=True):
        calling.require_id(key_id)
        body, proof = await _signed(request, parts, caller)
        if body != {}:
            raise errors.MalformedRequest("This call takes no body.")
        actor = validation.visible(caller.subject)
        found, was_so = await parts.get(SigningKeys).revoke(caller.merchant, key_id, actor, proof)
    return calling.decided({"result": found}, is_replayed=was_so)


@router.get("/v1/signature_requirement")
async def get_requirement(request: Request) -> Response:
    """Whether the caller's mutating calls have to be signed."""
    parts = parts_of(request)
    caller = await calling.caller_of(request, reads.READ)
    return calling.json(await parts.get(SigningKeys).requirement(caller.merchant))


@router.post("/v1/signature_requirement")
async def set_requirement(request: Request) -> Response:
    """Sets it, everywhere within seconds."""
    parts, caller = await _caller(request)
    name = caller.merchant
    async with parts.get(Audit).privileged(
        caller, (MANAGE,), "signature_requirement.set", name, {}, audits_itself=True
    ):
        body, proof = await _signed(request, parts, caller)
        requirement = _only(body, _REQUIREMENT)[_REQUIREMENT]
        actor = validation.visible(caller.subject)
        found, was_so = await parts.get(SigningKeys).require(caller.merchant, requirement, actor, proof)
    return calling.decided({"result": found}, is_replayed=was_so)


@router.get("/v1/accounts/{merchant}/signing_keys")
async def list_keys_of(request: Request, merchant: str) -> Response:
    """A merchant's keys, newest first."""
    parts = parts_of(request)
    async with parts.get(Audit).operator(request, "signing_key.list", merchant):
        _require_merchant(merchant)
        found = await parts.get(SigningKeys).page(merchant, *calling.place(request))
    return calling.json(found)


@router.post("/v1/accounts/{merchant}/signing_keys/{key_id}/revoke")
async def revoke_key_of(request: Request, merchant: str, key_id: str) -> Response:
    """Revokes a merchant's key, the last one too: for one that was lost or stolen."""
    parts = parts_of(request)
    async with parts.get(Audit).operator(request, "signing_key.revoke", key_id, audits_itself=True) as caller:
        _require_merchant(merchant)
        calling.require_id(key_id)
        reason = _reason(_only(await _body(request), _REASON))
        found, was_so = await parts.get(SigningKeys).revoke(merchant, key_id, operating.person(caller), reason=reason)
    return calling.decided({"result": found}, is_replayed=was_so)


@router.post("/v1/accounts/{merchant}/signature_requirement")
async def set_requirement_of(request: Request, merchant: str) -> Response:
    """Sets what a merchant requires: the way back in for one who can sign nothing any more."""
    parts = parts_of(request)
    async with parts.get(Audit).operator(request, "signature_requirement.set", merchant, audits_itself=True) as caller:
        _require_merchant(merchant)
        body = _only(await _body(request), _REQUIREMENT, _REASON)
        who, reason = operating.person(caller), _reason(body)
        found, was_so = await parts.get(SigningKeys).require(merchant, body[_REQUIREMENT], who, reason=reason)
    return calling.decided({"result": found}, is_replayed=was_so)


async def _caller(request: Request) -> tuple[Parts, Caller]:
    parts = parts_of(request)
    return parts, await parts.get(Authenticator).caller_in(request.scope)


async def _signed(request: Request, parts: Parts, caller: Caller) -> tuple[Any, Proof | None]:
    """The body and who signed it, which somebody must have while the merchant has an active key."""
    raw = await reading.body(request, reading.JSON, limits.BODY_BYTES_MAX)
    proof = await parts.get(SignedRequests).once(request, caller.merchant, raw, changes_keys=True)
    return strict_json.parse(raw) if raw else {}, proof


async def _body(request: Request) -> Any:
    raw = await reading.body(request, reading.JSON, limits.BODY_BYTES_MAX)
    return strict_json.parse(raw) if raw else {}


def _only(body: Any, *names: str) -> dict[str, Any]:
    """The body, which has these fields and no other. Raises MalformedRequest or InvalidCommand."""
    if not isinstance(body, dict):
        raise errors.MalformedRequest("The body must be a JSON object.")
    wrong = [{"field": name, "reason": "is missing"} for name in names if name not in body]
    wrong += [
        {"field": name[: limits.TEXT_LENGTH_MAX], "reason": "is not a field of this call"}
        for name in body.keys() - set(names)
    ]
    if wrong:
        raise errors.InvalidCommand(wrong)
    return body


def _reason(body: dict[str, Any]) -> str:
    """Why an operator acts. Raises InvalidCommand."""
    if fault := validation.said_text(body[_REASON], limits.TEXT_LENGTH_MAX):
        raise errors.InvalidCommand([{"field": _REASON, "reason": fault}])
    return str(body[_REASON])


def _require_merchant(text: str) -> None:
    if not NAME.match(text):
        raise errors.NotFound
