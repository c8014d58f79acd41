"""The owner's decision on who may write a resource, beside Cedar's over the same facts: they never differ.

Commands are what a hostile producer could put into the topic: any caller, any aggregate, any resource.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import cedarpy
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec import structs

from dataflows.owner.service import Committed
from dataflows.tenancy.changes import Changes
from dataflows.tenancy.desk import DeskWorkspace
from dataflows.tenancy.domain import migration, tenant
from dataflows.tenancy.domain.resource import Head
from dataflows.tenancy.known import Known
from dataflows.tenancy.owner_costs import OwnerCosts
from dataflows.tenancy.workspace import TenancyWorkspace
from schemas.records import Command
from schemas.tenancy import limits
from schemas.tenancy.operations import resource_of, scope_of
from schemas.topics import partition_for
from sinks.tenancy.contexts import Contexts
from sinks.tenancy.root_keys import RootKeys
from tests.gate import examples

POLICIES: Final = (Path(__file__).parent / "tenancy_policies.cedar").read_text()
TENANTS: Final = [name for n in range(100) if partition_for(name := f"tn_{n}", limits.TENANCY_PARTITIONS) == 0][:3]
STATES: Final = ("provisioning", "active", "suspended", "offboarding", "exported", "deleting", "deleted")
CREATE_KEYS: Final = ("k1", "k2")
_GIVEN: Final = {"name": "A", "tier": "standard", "timezone": "UTC", "home_currency": "USD", "quotas": {}, "prices": {}}

facts = st.fixed_dictionaries(
    {
        name: st.fixed_dictionaries(
            {
                "state": st.sampled_from((*STATES, "active", "active")),
                "shredded": st.integers(0, 4).map(lambda n: n == 0),
                "fenced": st.integers(0, 4).map(lambda n: n == 0),
                "has": st.sets(st.sampled_from(CREATE_KEYS)),
            }
        )
        for name in TENANTS
    }
)


def command(scope: str, aggregate: str, operation: str, resource_id: str, key: str) -> Command:
    payload = {"resource_id": resource_id, "key_version": 1, "size": 2, "sealed": "AAAAAAAAAAE="}
    return Command(
        operation=f"{operation}_resource",
        request_id="r",
        idempotency_key=key,
        aggregate_key=aggregate,
        expected_version=None,
        scope=scope,
        request_hash=b"",
        trace_id="t",
        issued_at=0,
        deadline_at=0,
        reply_to=-1,
        reply_id=0,
        payload=payload if operation != "delete" else {"resource_id": resource_id},
    )


def decided(known: dict[str, Any], sent: Command) -> bool:
    """Whether the owner carries it out."""
    tenants, placements, keys, heads, moves = [], [], [], [], []
    for name, fact in known.items():
        placement = tenant.placement_of({"mode": "pooled"}, name, "1")
        made = tenant.created(structs.replace(sent, aggregate_key=name, payload=_GIVEN), placement, 1)
        suspension = "blocked" if fact["state"] == "suspended" else None
        made = structs.replace(made, state=fact["state"], suspension=suspension)
        tenants.append(structs.astuple(made))
        placements.append(structs.astuple(placement))
        keys.append((name, 1, "destroyed" if fact["shredded"] else "active"))
        for key in fact["has"]:
            id_ = resource_of(scope_of(name), key)
            head = Head(tenant_id=name, resource_id=id_, version=1, deleted=False, size=1, created_at=1, updated_at=1)
            heads.append(structs.astuple(head))
        if fact["fenced"]:
            move = migration.planned(made, tenant.placement_of({"mode": "dedicated"}, name, "2"), f"mg_{name}", 1, 1)
            moves.append(structs.astuple(structs.replace(move, state="fencing", fenced=True)))
    found = Known(tenants, placements, keys, [(name, "resources", 9) for name in known], heads, moves, [])
    changes = Changes(0, Contexts(None), RootKeys(None))
    return isinstance(
        TenancyWorkspace(0, found, changes, DeskWorkspace(0, []), OwnerCosts()).decide(sent, 0, 2), Committed
    )


def permitted(known: dict[str, Any], sent: Command, operation: str) -> bool:
    """Whether Cedar does."""
    named = str(sent.payload["resource_id"])
    ids = {
        resource_of(scope_of(name), key): (name, key in fact["has"])
        for name, fact in known.items()
        for key in CREATE_KEYS
    }
    owner, exists = ids[named]
    entities: list[dict[str, Any]] = [
        {
            "uid": {"type": "Tenant", "id": name},
            "attrs": {
                "serves_writes": fact["state"] == "active",
                "is_shredded": fact["shredded"],
                "is_fenced": fact["fenced"],
            },
            "parents": [],
        }
        for name, fact in known.items()
    ]
    attrs = {"owner": {"__entity": {"type": "Tenant", "id": owner}}, "exists": exists}
    entities.append({"uid": {"type": "Resource", "id": named}, "attrs": attrs, "parents": []})
    asked = {
        "principal": f'Tenant::"{sent.scope.removeprefix("tenant:")}"',
        "action": f'Action::"{operation}"',
        "resource": f'Resource::"{named}"',
        "context": {"aggregate": {"__entity": {"type": "Tenant", "id": sent.aggregate_key}}},
    }
    answer = cedarpy.is_authorized(asked, POLICIES, entities)
    assert not answer.diagnostics.errors, answer.diagnostics.errors
    return bool(answer.allowed)


@settings(max_examples=examples(300, 2_000), deadline=None)
@given(
    known=facts,
    caller=st.sampled_from(TENANTS),
    aggregate=st.sampled_from(TENANTS),
    owner=st.sampled_from(TENANTS),
    key=st.sampled_from(CREATE_KEYS),
    operation=st.sampled_from(["create", "replace", "delete"]),
    own=st.booleans(),
)
def test_the_owner_and_cedar_agree_on_every_write(
    known: dict[str, Any], caller: str, aggregate: str, owner: str, key: str, operation: str, *, own: bool
) -> None:
    if own:
        aggregate = owner = caller
    sent = command(scope_of(caller), aggregate, operation, resource_of(scope_of(owner), key), key)
    allowed = permitted(known, sent, operation)
    event("allowed" if allowed else "refused")
    assert decided(known, sent) == allowed
