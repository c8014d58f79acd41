"""Two gateway processes of one stack: each with its own leases and sockets, one killed, clients that go on at the other.

Only what a gateway needs is started: no ClickHouse, no payments.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from compose.cli.limiter.gateways import look
from compose.stack.ports import PortLeases
from compose.supervise import launch
from limiter.frames.frame_client import FrameClient
from limiter.frames.frame_fleet import FrameFleet, Spread
from limiter.frames.frame_requests import Check, GatewayUnavailable
from limiter.frames.frames import APPROXIMATE, DEGRADED, DUPLICATE
from tests.eventually import becomes, eventually
from tests.integration.operator_shell import Operator
from tests.worlds.limiter.lease_world import WITHIN_S, Settled
from tests.worlds.limiter.limiter_public import OVER_LIMIT, Envoy
from tests.worlds.public_system import PublicSystem, system_of_its_own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from limiter.frames.frames import Answer

pytestmark = [pytest.mark.servers]
PATIENT_S = 30.0
MONTH_MS = 30 * 86_400_000
IDENTITY_BYTES = 16


def new_identity() -> bytes:
    return secrets.token_bytes(IDENTITY_BYTES)


def two_free_ports() -> int:
    """The first of two that nobody has, of what no kernel gives to outgoing connections; the stack takes them then."""
    ports = PortLeases()
    first = next(port for port in iter(ports.take_any, 0) if ports.take(port + 1))
    ports.close()
    return first


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    changes = {
        "services": ("limiter_owner", "limiter_leases", "limiter_gateway", "ingress"),
        "ingress_processes": 1,
        "limiter_gateway_processes": 2,
        "limiter_frames_port": two_free_ports(),
    }
    with system_of_its_own(tmp_path_factory.mktemp("gateways"), **changes) as made:
        yield made


class Gateways:
    """Both, and a tenant of the test's own."""

    def __init__(self, system: PublicSystem) -> None:
        self.envoy = Envoy(system)
        state = launch.up(system.settings)
        listed = launch.world(system.settings, state)["limiter_gateways"]
        self.names = [one["name"] for one in listed]
        self.sockets = [one["socket"] for one in listed]
        ports = [int(one["address"].rpartition(":")[2]) for one in listed]
        self.addresses = [("127.0.0.1", port) for port in ports]
        self.system = system

    def check(self, gateway: int, user: str, cost: int = 1, identity: bytes | None = None) -> Answer:
        with FrameClient(self.sockets[gateway], timeout_s=PATIENT_S) as client:
            return client.check(self.envoy.tenant, user, "/r", cost, identity)

    def decided(self, ask: Callable[[Sequence[Check]], list[Answer]], checks: Sequence[Check]) -> list[Answer]:
        """The store's answers: one that came without it, because it was late, is asked for again under its identity."""
        asked = [check if check.identity else check._replace(identity=new_identity()) for check in checks]

        def answered() -> list[Answer]:
            answers = ask(asked)
            assert not any(answer.flags & DEGRADED for answer in answers), answers
            return answers

        return eventually(answered, WITHIN_S)

    def in_force(self, capacity: int, **terms: Any) -> None:
        """Both decide by a policy of the tenant."""
        answer = self.envoy.publish(capacity=capacity, window_ms=MONTH_MS, **terms)
        assert answer.status_code == 201, answer.text
        for gateway in range(2):
            becomes(lambda n=gateway: self.check(n, "probe", 0).remaining, capacity, WITHIN_S)  # type: ignore[misc]

    def user_of(self, gateway: int) -> str:
        """One whose keys clients ask that gateway for first."""
        spread = Spread(self.addresses)
        return next(u for n in range(99) if spread.order(self.envoy.tenant, u := f"u{n}", "/r")[0] == gateway)

    def listed(self) -> list[dict[str, Any]]:
        return look(self.system.settings)

    def pid(self, gateway: int) -> int:
        return int(self.listed()[gateway]["pid"])


@pytest.fixture
def gateways(system: PublicSystem) -> Iterator[Gateways]:
    found = Gateways(system)
    yield found
    found.envoy.channel.close()
    found.envoy.operator.http.close()


def test_a_gateway_is_killed_and_clients_go_on_at_the_other(gateways: Gateways) -> None:
    """Under the same identities: what was counted at one is a repetition at the other, and nothing is charged again.

    Envoy's address is that of both. The next process of the killed one's place says what its leases had spent.
    """
    assert gateways.names == ["limiter_gateway-0", "limiter_gateway-1"]
    gateways.in_force(1_000, consistency="exact")
    tenant, mine = gateways.envoy.tenant, gateways.user_of(1)
    restarts = [row["restarts"] for row in gateways.listed()]
    with FrameFleet(gateways.addresses, timeout_s=PATIENT_S) as fleet:
        checks = [Check(tenant, f"u{n}", "/r") for n in range(40)]
        assert all(answer.allowed for answer in gateways.decided(fleet.check_many, checks))
        assert all(row["allowed"] > 0 for row in eventually(lambda: both_decided(gateways), WITHIN_S))
        once, first = eventually(lambda: charged_at_once(fleet, Check(tenant, mine, "/r", 5)), WITHIN_S)
        killed, other = gateways.pid(1), gateways.pid(0)
        os.kill(killed, signal.SIGKILL)
        again = gateways.decided(fleet.check_many, [once, *checks])
    assert (first.flags & DUPLICATE, again[0].flags & DUPLICATE) == (0, DUPLICATE)
    assert again[0].remaining == first.remaining
    assert all(answer.allowed for answer in again)
    assert gateways.envoy.allowed(5) == 5
    eventually(lambda: replaced(gateways, killed), WITHIN_S)
    told = Operator.of(gateways.system.settings).run("limiter", "gateways", "--json")
    shown = {row["name"]: (row["pid"], row["socket"], row["restarts"]) for row in json.loads(told.stdout)["data"]}
    assert shown == {
        "limiter_gateway-0": (other, gateways.sockets[0], restarts[0]),
        "limiter_gateway-1": (gateways.pid(1), gateways.sockets[1], restarts[1] + 1),
    }
    assert gateways.pid(0) == other
    with FrameClient(gateways.sockets[1], timeout_s=PATIENT_S) as client:
        (left,) = gateways.decided(client.check_many, [Check(tenant, mine, "/r", 0)])
    assert left.remaining == again[0].remaining - 1, "the new one knows what was counted"


def charged_at_once(fleet: FrameFleet, check: Check) -> tuple[Check, Answer]:
    """The check under an identity that is asked for once: its answer is no repetition."""
    once = check._replace(identity=new_identity())
    (answer,) = fleet.check_many([once])
    assert not answer.flags & DEGRADED, "the store was late"
    return once, answer


def both_decided(gateways: Gateways) -> list[dict[str, Any]]:
    """What both tell, when both have decided."""
    rows = gateways.listed()
    assert [row["state"] for row in rows] == ["ready", "ready"]
    assert all(row["allowed"] for row in rows)
    return rows


def replaced(gateways: Gateways, killed: int) -> bool:
    other, row = gateways.listed()
    return (row["pid"] != killed, row["state"], row["revision"]) == (True, "ready", other["revision"])


def test_a_killed_gateways_successor_takes_its_book_and_ring(gateways: Gateways) -> None:
    """What leases of that instance had spent is reported to the last decision: nothing is assumed, nothing is missing."""
    gateways.in_force(100_000, consistency="leased")
    leased = 0
    with FrameClient(gateways.sockets[1], timeout_s=PATIENT_S) as client:
        while leased < 200:
            found = client.check_many([Check(gateways.envoy.tenant, "u", "/r") for _ in range(20)])
            leased += sum(answer.allowed and bool(answer.flags & APPROXIMATE) for answer in found)
    killed = gateways.pid(1)
    os.kill(killed, signal.SIGKILL)
    stack = SimpleNamespace(addresses=gateways.system.settings.addresses())
    settled = Settled(stack, f"limiter-gateway-{socket.gethostname()}-{killed}-1")  # type: ignore[arg-type] # addresses
    becomes(lambda: settled.sums()[2], leased, WITHIN_S, what="every spend reported")
    eventually(lambda: settled.open() == 0, WITHIN_S, what="all leases settled")
    _, granted, reported, assumed, released = settled.sums()
    assert granted == reported + assumed + released
    assert settled.violations() == []
    eventually(lambda: replaced(gateways, killed), WITHIN_S)


def test_a_gateway_without_policies_listens_nowhere(gateways: Gateways) -> None:
    """It would let everything through. The others go on by what they have, and Envoy's address is theirs."""
    gateways.in_force(3, consistency="exact")
    killed = gateways.pid(1)
    with gateways.system.frozen("ingress"):
        os.kill(killed, signal.SIGKILL)
        eventually(lambda: "no policy snapshot" in gateways.listed()[1]["note"], WITHIN_S)
        with pytest.raises(GatewayUnavailable):
            gateways.check(1, "u")
        assert gateways.check(0, "u", 4).allowed is False
        assert {gateways.envoy.check(cost=4) for _ in range(5)} == {OVER_LIMIT}
    eventually(lambda: replaced(gateways, killed), WITHIN_S)
    assert gateways.check(1, "u", 4).allowed is False
