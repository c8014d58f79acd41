"""What commands of tenants need before they are sent: a caller who may ask, a served tenant, sealed payloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingress.commands.admission import Admission, Signals
from ingress.http.answers import failed
from ingress.tenancy import callers
from schemas import errors
from schemas.fields import validation
from schemas.tenancy.operations import PERSON, STAFF, WRITE, resource_of
from sinks.tenancy import seals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingress.commands.envelope import Request
    from ingress.http.answers import Answer
    from ingress.identity.caller import Caller
    from ingress.tenancy.safe_mode import SafeMode
    from ingress.tenancy.tenants import Known, Tenants

_encode: Final = msgspec.json.Encoder().encode
_sealed: Final = msgspec.json.Decoder(dict[str, Any])
_OF_TENANTS: Final = frozenset({WRITE})


class TenancyAdmission(Admission):
    """Nothing here is what decides: the owner refuses on its own what slips through."""

    def __init__(self, tenants: Tenants, safe_mode: SafeMode) -> None:
        self._tenants = tenants
        self._safe_mode = safe_mode

    async def refusals(self, caller: Caller, requests: Sequence[Request]) -> list[errors.PlatformError | None]:
        """Staff for tenants, a member of a served tenant for resources."""
        found: list[errors.PlatformError | None] = []
        for request in requests:
            try:
                await self._require(caller, request)
            except errors.Rejected as refusal:
                found.append(refusal)
            else:
                found.append(None)
        return found

    async def _require(self, caller: Caller, request: Request) -> None:
        if request.operation.scope not in _OF_TENANTS:
            if request.operation.scope == STAFF:
                callers.require_staff(caller, STAFF)
            return
        known = await self._tenants.active(caller, writes=True)
        if known.is_shredded:
            raise errors.KeyShredded

    async def signals(self, caller: Caller, requests: Sequence[Request]) -> list[Signals | None]:
        """Who acts, where a tenant's history shall name it. A subject that can be no person's is not told."""
        acts = {PERSON: caller.subject} if validation.is_person(caller.subject) else None
        return [acts if request.operation.signals is not None else None for request in requests]

    async def travelling(self, caller: Caller, requests: Sequence[Request]) -> list[dict[str, Any]]:
        """Documents sealed for the resource that they are of."""
        return [
            await self._closed(caller, request) if request.operation.document else request.payload
            for request in requests
        ]

    async def _closed(self, caller: Caller, request: Request) -> dict[str, Any]:
        known = await self._tenants.active(caller, writes=True)
        resource_id = request.payload.get("resource_id") or resource_of(caller.principal, request.idempotency_key)
        plain = _encode(request.payload["document"])
        key_version, sealed = self._tenants.seal(known, "resources", resource_id, plain)
        return {
            "resource_id": resource_id,
            "key_version": key_version,
            "size": len(plain),
            "sealed": seals.as_text(sealed),
        }

    async def hashes(self, caller: Caller, requests: Sequence[Request]) -> list[bytes]:
        """Of a document under the tenant's key: who reads the database tries no payloads, and a shred ends this too."""
        return [await self._hash(caller, r) if r.operation.document else r.request_hash for r in requests]

    async def _hash(self, caller: Caller, request: Request) -> bytes:
        known = await self._tenants.find(caller.tenant) if callers.is_member(caller) else None
        if known is None:
            return request.request_hash  # it is refused, and nothing of it is stored
        if known.is_shredded:
            return b""  # as well; whether it is a retry, nobody knows any more
        return self._tenants.keyed_hash(known, request.request_hash)

    async def require_reads(self, caller: Caller) -> None:
        """A tenant that is not served reads nothing, whatever it asks for."""
        if callers.is_member(caller):
            await self._safe_mode.require_off(caller.tenant)
            known = await self._tenants.find(caller.tenant)
            if known is not None and not known.tenant.serves_reads:
                raise errors.TenantNotActive(known.tenant.state)

    async def shown(
        self, caller: Caller, requests: Sequence[Request | None], answers: Sequence[Answer]
    ) -> list[Answer]:
        """Sealed payloads in the clear, for members of a tenant that is served."""
        return [await self._opened(caller, r, answer) for r, answer in zip(requests, answers, strict=True)]

    async def _opened(self, caller: Caller, request: Request | None, answer: Answer) -> Answer:
        if answer.code == errors.KeyReused.code and request is not None and not request.request_hash:
            return failed(errors.KeyShredded())
        if answer.code is not None or answer.pending is not None or not callers.is_member(caller):
            return answer
        known = await self._tenants.active(caller)
        return msgspec.structs.replace(answer, body=self.opened_body(known, answer.body))

    def opened_body(self, known: Known, body: bytes) -> bytes:
        """A stored answer with its payload in the clear; the same bytes every time. Raises KeyShredded."""
        answer = _sealed.decode(body)
        result = answer.get("result")
        if not isinstance(result, dict) or "sealed" not in result:
            return body
        sealed = seals.from_text(result.pop("sealed"))
        plain = self._tenants.open(known, "resources", result["resource_id"], sealed)
        result["payload"] = msgspec.Raw(plain)
        return _encode(answer)
