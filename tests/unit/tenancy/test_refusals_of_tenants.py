"""A refusal tells its reader what may be done next, in each state."""

from __future__ import annotations

import pytest
from msgspec import structs

from dataflows.tenancy.domain import migration, tenant
from dataflows.tenancy.domain.tenant import Tenant
from schemas.errors import TenantNotActive
from schemas.records import Rejection
from tests.each import each
from tests.unit.tenancy.test_tenant_life import LIFE, made, move

AFTER_ITS_END = ("deleting", "deleted")


def deleted(state: str) -> str:
    refused = LIFE["delete"](made(state=state, suspension="blocked" if state == "suspended" else None))
    assert isinstance(refused, Rejection)
    return refused.detail


def test_who_may_not_delete_a_tenant_is_told_what_comes_before() -> None:
    for state in ("provisioning", "active", "suspended"):
        assert deleted(state) == f"The tenant is {state}: offboard it, and export it then."
    assert deleted("offboarding") == "The tenant is offboarding: export it first, and wait until it is exported."
    for state in AFTER_ITS_END:
        assert deleted(state) == f"The tenant is {state}: there is nothing left to delete."


@each(
    ("state", "verb", "told"),
    [
        ("copying", "rollback", "it may be aborted now"),
        ("fencing", "complete", "it may be aborted now"),
        ("soaking", "abort", "it may be rolled back or completed now"),
        ("committed", "abort", "wait for what it becomes"),
        ("aborting", "abort", "wait for what it becomes"),
        ("rolling_back", "complete", "wait for what it becomes"),
        ("completed", "rollback", "that is over"),
        ("aborted", "complete", "that is over"),
        ("rolled_back", "abort", "that is over"),
    ],
)
def test_who_may_not_do_something_with_a_move_is_told_what_it_takes(state: str, verb: str, told: str) -> None:
    refused = migration.told(move(state), f"{verb}_migration", 9)
    assert isinstance(refused, Rejection)
    assert refused.detail.startswith(f"The move is {state}: {told}")


@pytest.mark.parametrize("closing", [True, False])
def test_a_move_that_is_being_completed_does_not_say_that_it_may_be(closing: bool) -> None:
    found = migration.told(structs.replace(move("soaking"), closing=closing), "complete_migration", 9)
    if not closing:
        assert not isinstance(found, Rejection)
        return
    assert isinstance(found, Rejection)
    assert found.detail == "The move is soaking: it is being completed."


def test_a_member_of_a_tenant_that_is_not_served_is_told_what_that_means() -> None:
    """The same by an owner and by an ingress."""
    words = {
        state: TenantNotActive(state).public
        for state in ("unknown", "provisioning", "suspended", "offboarding", "exported", "deleting", "deleted")
    }
    assert len(set(words.values())) == len(words) - 2  # what leaves, and what is gone
    for state, told in words.items():
        found = tenant.why_no_writes(None if state == "unknown" else _tenant(state))
        assert found is not None
        assert (found.detail, found.extra) == (told, {"state": state})


def _tenant(state: str) -> Tenant:
    return made(state=state, suspension="blocked" if state == "suspended" else None)
