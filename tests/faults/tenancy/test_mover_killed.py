"""A mover that is killed after every single step of a move, of its way back and of its ends: each next one goes on."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.eventually import eventually, patient
from tests.gate import matrix
from tests.worlds.public_system import system_of_its_own
from tests.worlds.tenancy_world import Caller, Ledger, Tenancy, write

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.servers, pytest.mark.faults]
STEPS_MAX = 40  # of one way: more than any move has


@pytest.fixture(scope="module")
def tenancy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenancy]:
    home = tmp_path_factory.mktemp("killed")
    with system_of_its_own(home, services=("ingress",), ingress_processes=1, processes=("tenancy_owner",)) as made:
        found = Tenancy(made)
        yield found
        found.close()


def step_by_step(tenancy: Tenancy, at: str, *ends: str) -> list[str]:
    """The states that a move has after each step, none of whose movers lived for another one."""
    seen: list[str] = []
    while not seen or seen[-1] not in ends:
        assert len(seen) < STEPS_MAX, seen
        with tenancy.mover("move_after_step") as doomed:
            assert doomed.wait(timeout=patient(60)) == -signal.SIGKILL
        seen.append(tenancy.staff.get(at)["state"])
    return seen


def one_side_serves(tenancy: Tenancy, caller: Caller, ledger: Ledger, generation: int) -> None:
    """What was acknowledged is there, once; writes are taken; the generation is that of so many cutovers."""
    assert caller.resources() == ledger
    write(caller, ledger, 3)
    assert tenancy.staff.get(f"/v1/tenants/{caller.name}")["placement"]["generation"] == generation
    assert caller.resources() == ledger


@pytest.mark.parametrize("way", matrix(("rolled_back", "aborted", "completed"), "rolled_back".__eq__))
def test_a_mover_that_is_killed_after_each_step_brings_a_move_to_its_end(tenancy: Tenancy, way: str) -> None:
    caller, ledger = tenancy.tenant(), {}
    write(caller, ledger, 6)
    root = f"/v1/tenants/{caller.name}/migrations"
    move = tenancy.staff.done("POST", root, {"placement": {"mode": "partitioned"}})
    at = f"{root}/{move['migration_id']}"
    if way == "aborted":
        with tenancy.mover("move_before_fence") as doomed:
            assert doomed.wait(timeout=patient(60)) == -signal.SIGKILL
        tenancy.staff.done("POST", f"{at}/abort")
    else:
        states = step_by_step(tenancy, at, "soaking", "aborted")
        assert [*dict.fromkeys(states)] == [
            *("prepared", "copying", "catching_up", "verifying", "fencing", "committed", "soaking")
        ]
        one_side_serves(tenancy, caller, ledger, 2)
        tenancy.staff.done("POST", f"{at}/{'rollback' if way == 'rolled_back' else 'complete'}")
    step_by_step(tenancy, at, way)
    one_side_serves(tenancy, caller, ledger, {"aborted": 1, "completed": 2, "rolled_back": 3}[way])
    placed = tenancy.staff.get(f"/v1/tenants/{caller.name}")["placement_id"]
    assert placed == move["target" if way == "completed" else "source"]
    with tenancy.mover():  # brings the images of the last writes
        eventually(lambda: tenancy.broken_invariants() == {}, 60, what="no invariant is broken")
