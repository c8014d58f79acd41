"""The disk of a whole stack fills up: a small file system in memory as its home, filled to the last byte and freed again."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest

from compose.supervise import launch
from compose.supervise.state import read_state
from ingress import limits
from tests import servers
from tests.eventually import becomes, eventually
from tests.small_disk import small_disk
from tests.worlds.payments.repair_world import millrace
from tests.worlds.public_system import Merchant, PublicSystem, no_processes_but

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.servers, pytest.mark.proof]
_SIZE_MIB: Final = 3_072
_MIB: Final = 2**20


class Disk:
    """What is filled of it is one file beside the stack's own."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._file = folder, folder / "filled"

    def free_mib(self) -> int:
        return shutil.disk_usage(self._folder).free // _MIB

    def leave_mib(self, left: int) -> None:
        """Fills all but so much, whatever is given back meanwhile."""
        more = self.free_mib() - left
        if more > 0:
            with self._file.open("ab") as file:
                os.posix_fallocate(file.fileno(), file.tell(), more * _MIB)

    def empty(self) -> None:
        """Somebody deletes what filled it."""
        self._file.unlink()


@pytest.mark.timeout(900)
def test_a_disk_that_fills_closes_the_door_before_and_loses_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", _SIZE_MIB) as folder:
        changes: dict[str, Any] = {"owner_processes": 1, "ingress_processes": 1, "processors": ("simulator",)}
        services = ("simulator", "owner", "processor_worker", "webhook_worker", "ingress")
        changes |= {"services": services, "worker_processes": no_processes_but()}
        with servers.own_servers(folder / "home", servers_only=False, **changes) as settings:
            system = PublicSystem(settings, launch.world(settings, _state(settings))["base_url"])
            _fill_and_free(system, Disk(folder))


def _fill_and_free(system: PublicSystem, disk: Disk) -> None:
    supervisor = _state(system.settings).supervisor
    merchant = system.merchant()
    acknowledged = [_paid(merchant) for _ in range(5)]

    disk.leave_mib(limits.DISK_RESERVE_BYTES // _MIB // 2 - 32)
    refused = eventually(lambda: _refused(merchant), 60, what="nothing new is taken")
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
    assert merchant.http.get(f"/v1/payment_intents/{acknowledged[0]}").json()["state"] == "succeeded", "reads go on"
    assert disk.free_mib() > 0, "closed before it is full"

    for _ in range(4):  # to the last byte; what was held back is given back, and filled as well
        disk.leave_mib(0)
        eventually(lambda: _shut(merchant), 60, what="still nothing is taken")
    assert _state(system.settings).supervisor == supervisor
    assert supervisor.alive(), "the supervisor outlives a full disk"

    disk.empty()
    acknowledged.append(eventually(lambda: _created(merchant), 240, what="it serves again when there is room"))
    assert merchant.act(acknowledged[-1], "confirm").status_code == 200
    for intent_id in acknowledged:
        path = f"/v1/payment_intents/{intent_id}"
        becomes(lambda p=path: _state_of(merchant, p), "succeeded", 240, what=f"{intent_id} is there")
    assert _state(system.settings).supervisor == supervisor
    words = (word for number in ("1", "2", "6", "7", "9", "11", "19") for word in ("--only", number))
    done = millrace(system, "check", *words, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    merchant.http.close()


def _state(settings: Any) -> Any:
    state = read_state(settings.the_home())
    assert state is not None
    return state


def _paid(merchant: Merchant) -> str:
    made: str = merchant.create().json()["result"]["id"]
    assert merchant.act(made, "confirm").status_code == 200
    becomes(lambda: merchant.http.get(f"/v1/payment_intents/{made}").json()["state"], "succeeded", 60)
    return made


def _answer(merchant: Merchant) -> httpx.Response | None:
    try:
        return merchant.http.post("/v1/payment_intents", json=merchant.envelope(), headers={"Prefer": "wait=5"})
    except httpx.TransportError:
        return None


def _refused(merchant: Merchant) -> httpx.Response | None:
    answer = _answer(merchant)
    return answer if answer is not None and answer.status_code == 503 else None


def _shut(merchant: Merchant) -> bool:
    """A 503 or, where its process is just being started, nobody there: in no case an acknowledgement."""
    answer = _answer(merchant)
    return answer is None or answer.status_code == 503


def _created(merchant: Merchant) -> str | None:
    answer = _answer(merchant)
    return answer.json()["result"]["id"] if answer is not None and answer.status_code == 201 else None


def _state_of(merchant: Merchant, path: str) -> str | None:
    try:
        return str(merchant.http.get(path).json().get("state"))
    except httpx.TransportError:
        return None
