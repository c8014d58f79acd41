"""What a retry is told by: keyed for documents of a tenant's members, and never a reason to fail a whole list."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from ingress.commands.envelope import read_call
from ingress.commands.envelope_fields import Fields
from ingress.http.answers import failed
from ingress.identity.caller import Caller
from ingress.tenancy.admission import TenancyAdmission
from ingress.tenancy.callers import require_staff
from schemas import errors
from schemas.services import OPERATIONS


class Tenants:
    """One tenant, whose keyed hashes are told from plain ones."""

    def __init__(self, *, shredded: bool = False) -> None:
        self._known = SimpleNamespace(is_shredded=shredded)

    async def find(self, tenant_id: str) -> Any:
        return self._known if tenant_id == "tn_a" else None

    def keyed_hash(self, known: object, plain: bytes) -> bytes:
        assert known is self._known
        return b"keyed " + plain


def caller(principal: str) -> Caller:
    return Caller(principal=principal, subject="s", scopes=frozenset(["resources:write"]), expires_at=1e12)


def hashed(tenants: Tenants, principal: str, operation: str = "create_resource") -> tuple[bytes, bytes]:
    """The plain hash of a call, and the one that is stored."""
    payload = b'{"n": 1}' if operation == "create_resource" else b'{"name": "A"}'
    request = read_call(OPERATIONS[operation], None, payload, Fields(idempotency_key="k"), principal)
    admission: Any = TenancyAdmission(tenants, None)  # type: ignore[arg-type] # as far as hashes ask it
    (found,) = asyncio.run(admission.hashes(caller(principal), [request]))
    return request.request_hash, found


def test_the_hash_of_a_document_is_keyed_and_no_other() -> None:
    plain, found = hashed(Tenants(), "tenant:tn_a")
    assert found == b"keyed " + plain
    assert len(set(hashed(Tenants(), "m_staff", "create_tenant"))) == 1


@pytest.mark.parametrize("principal", ["m_staff", "user:u_1", "tenant:tn_never"])
def test_who_is_no_member_of_a_known_tenant_fails_nothing_here(principal: str) -> None:
    """The refusal says it, line by line: a list is not lost for one of its callers' scopes."""
    assert len(set(hashed(Tenants(), principal))) == 1


def test_whether_a_call_is_a_retry_ends_with_the_keys() -> None:
    """What was stored under a key that is gone is neither the same request nor another one: it is gone."""
    plain, found = hashed(Tenants(shredded=True), "tenant:tn_a")
    assert (len(plain), found) == (32, b"")
    request = read_call(OPERATIONS["create_resource"], None, b'{"n": 1}', Fields(idempotency_key="k"), "tenant:tn_a")
    admission: Any = TenancyAdmission(Tenants(shredded=True), None)  # type: ignore[arg-type] # as far as it is asked
    unknown = structs.replace(request, request_hash=found)
    (shown,) = asyncio.run(admission.shown(caller("tenant:tn_a"), [unknown], [failed(errors.KeyReused())]))
    assert (shown.status, shown.code) == (410, "key_shredded")


@pytest.mark.parametrize("principal", ["tenant:tn_a", "user:u_1"])
def test_a_caller_of_another_kind_is_no_staff_whatever_its_scopes_are(principal: str) -> None:
    scopes = frozenset(["tenants:admin", "support", "support:approve"])
    outsider = structs.replace(caller(principal), scopes=scopes)
    for scope in scopes:
        with pytest.raises(errors.Forbidden):
            require_staff(outsider, scope)
    for staff in ("m_ops", "staff:s_1"):
        require_staff(structs.replace(outsider, principal=staff), "tenants:admin")
    request = read_call(OPERATIONS["create_tenant"], None, b'{"name": "A"}', Fields(idempotency_key="k"), principal)
    admission = TenancyAdmission(Tenants(), None)  # type: ignore[arg-type] # as far as it is asked
    (refusal,) = asyncio.run(admission.refusals(outsider, [request]))
    assert isinstance(refusal, errors.Forbidden)
