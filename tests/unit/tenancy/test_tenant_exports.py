"""A download of an export goes on only while its tenant may be shown whole: it lasts as long as its reader likes."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ingress.identity.auth import Authenticator
from ingress.identity.caller import Caller
from ingress.tenancy import life_routes
from ingress.tenancy.life_routes import Lives
from ingress.tenancy.safe_mode import SafeMode
from ingress.tenancy.tenants import Tenant, Tenants
from schemas import errors
from schemas.tenancy import limits
from sinks.tenancy import secrets_file
from sinks.tenancy.root_keys import RootKeys
from sinks.tenancy.seals import TenantKey

TENANT = "tn_a"
PARTS = (b'{"n": 1}\n', b'{"n": 2}\n', b'{"n": 3}\n')
STAFF = Caller(principal="m_ops", subject="s", scopes=frozenset({"tenants:admin"}), expires_at=1e12)
MEMBER = Caller(principal=f"tenant:{TENANT}", subject="s", scopes=frozenset({"tenant:admin"}), expires_at=1e12)


class Database:
    """What the routes ask for, of one tenant with an export of three parts."""

    def __init__(self, root_keys: RootKeys) -> None:
        root_key_id, wrapped = root_keys.new_wrapped(TENANT, 1)
        key = TenantKey(TENANT, 1, root_keys.unwrap(TENANT, 1, root_key_id, wrapped))
        self.sealed = [key.seal("exports", f"ex_1:{part}", text) for part, text in enumerate(PARTS)]
        self.key: tuple[Any, ...] = (1, root_key_id, wrapped, "active", None)
        self.safe_mode = False
        texts = dict.fromkeys(("name", "tier", "timezone", "home_currency", "placement_id", "key_ref", "region"), "x")
        counts = dict.fromkeys(("generation", "policy_version", "version", "created_at", "updated_at"), 1)
        left = dict.fromkeys(Tenant.__struct_fields__) | {"quotas": {}, "prices": {}}
        self.tenant = left | texts | counts | {"tenant_id": TENANT, "state": "active", "mode": "pooled"}

    async def records(self, query: str, named: dict[str, Any]) -> list[dict[str, Any]]:
        assert named["tenant_id"] == TENANT
        if query == "tenants_by_id":
            return [dict(self.tenant)]
        digest = hashlib.sha256(b"".join(PARTS)).hexdigest()
        return [{"export_id": "ex_1", "tenant_id": TENANT, "state": "ready", "sha256": digest}]

    async def rows(self, query: str, named: dict[str, Any]) -> list[tuple[Any, ...]]:
        if query == "tenant_export_part":
            return [(sealed,) for sealed in self.sealed[named["part"] :][:1]]
        found = {
            "key_lease_taken": [(0,)],
            "tenant_keys": [self.key],
            "isolation_safe_mode": [(self.safe_mode, [], None, None, None, None)],
        }
        return found.get(query, [])

    def shred(self) -> None:
        self.key = (1, self.key[1], None, "destroyed", None)

    def close(self) -> None:
        self.safe_mode = True

    def block(self) -> None:
        self.tenant |= {"state": "suspended", "suspension": "blocked"}


async def downloaded(database: Database, root_keys: RootKeys, caller: Caller, then: Callable[[], None]) -> list[bytes]:
    """The parts that the caller gets when ``then`` happens behind the first. Raises what cuts the line."""

    async def shows(_: str | None) -> Caller:
        return caller

    store: Any = database
    safe_mode = SafeMode(store, store)
    tenants = Tenants(store, store, root_keys, safe_mode)
    lives = Lives(store, tenants, None)  # type: ignore[arg-type] # no page is asked for
    parts: dict[type[Any], Any] = {SafeMode: safe_mode, Tenants: tenants, Lives: lives}
    parts[Authenticator] = SimpleNamespace(caller_in=shows)
    state = SimpleNamespace(parts=SimpleNamespace(get=parts.__getitem__))
    request: Any = SimpleNamespace(app=SimpleNamespace(state=state), headers={}, scope={})
    answer: Any = await life_routes.get_export_content(request, TENANT, "ex_1")
    got = [await anext(answer.body_iterator)]
    then()
    got += [part async for part in answer.body_iterator]
    return got


@pytest.mark.parametrize("caller", [STAFF, MEMBER], ids=["staff", "member"])
@pytest.mark.parametrize(
    ("happens", "refusal"),
    [
        (Database.shred, errors.KeyShredded),
        (Database.close, errors.SafeMode),
        (Database.block, errors.TenantNotActive),
        (lambda _: None, None),
    ],
    ids=["shred", "safe mode", "block", "nothing"],
)
def test_a_download_ends_with_what_would_refuse_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caller: Caller,
    happens: Callable[[Database], None],
    refusal: type[errors.PlatformError] | None,
) -> None:
    monkeypatch.setattr(limits, "TENANTS_CACHED_S", 0)  # what is known is of now
    root_keys = RootKeys(secrets_file.ensure(tmp_path))
    database = Database(root_keys)
    going = downloaded(database, root_keys, caller, lambda: happens(database))
    if refusal is None or (refusal is errors.TenantNotActive and caller is STAFF):
        assert asyncio.run(going) == list(PARTS)
    else:
        with pytest.raises(refusal):
            asyncio.run(going)
