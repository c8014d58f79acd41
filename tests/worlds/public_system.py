"""The whole system as outsiders see it: one for all tests of the public surface of a run."""

from __future__ import annotations

import pickle
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from compose.settings.service_processes import PROCESSES
from compose.stack.ports import PortLeases
from compose.supervise import launch
from compose.supervise.state import read_state
from ingress import limits
from ingress.client import MillraceClient
from ingress.identity.issuer import SCOPES_DEFAULT, KeyFolder, issue_token
from ingress.identity.roles import STAFF
from tests import asked, run_folder, servers
from tests.eventually import patient
from tests.freezing import frozen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from compose.settings.settings import Settings

_ANSWER_WITHIN_S = limits.RESULT_WAIT_MAX_S + 30


@dataclass(frozen=True)
class PublicSystem:
    """Where it is, and how to become a merchant in it."""

    settings: Settings
    base_url: str

    def token(self, merchant: str, scopes: tuple[str, ...] = SCOPES_DEFAULT, **changes: Any) -> str:
        """A token of the development issuer; of staff, when a scope is staff's."""
        if not STAFF.isdisjoint(scopes):
            changes = {"kind": "staff"} | changes
        return issue_token(KeyFolder(self.settings.the_home().path / "keys"), merchant, scopes, **changes)

    def merchant(self, name: str | None = None, scopes: tuple[str, ...] = SCOPES_DEFAULT) -> Merchant:
        """A merchant that nobody used before, unless it is named."""
        name = name or f"m_{uuid.uuid4().hex[:12]}"
        return Merchant(name, self.base_url, self.token(name, scopes))

    def client(self, merchant: str | None = None, **changes: Any) -> MillraceClient:
        """The Python client of a merchant."""
        return MillraceClient(self.base_url, self.token(merchant or f"m_{uuid.uuid4().hex[:12]}"), **changes)

    def pids(self, service: str) -> list[int]:
        """The processes of a service, as they are now."""
        state = read_state(self.settings.the_home())
        assert state is not None
        return [p.pid for p in state.processes if p.pid and service in (p.name, p.name.rpartition("-")[0])]

    def serving(self) -> list[int]:
        """The ingress processes that are ready, as the supervisor sees them."""
        state = read_state(self.settings.the_home())
        assert state is not None
        ingresses = [p for p in state.processes if p.name.startswith("ingress-")]
        return [p.pid for p in ingresses if p.pid and p.condition == "ready"]

    def metrics(self, service: str) -> list[str]:
        """What each process of a service tells of itself; one that cannot be asked just now is a failed assertion."""
        state = read_state(self.settings.the_home())
        assert state is not None
        ops = launch.world(self.settings, state)["ops"]
        urls = [url for name, url in ops.items() if name.startswith(service)]
        try:
            return [httpx.get(url, timeout=patient(10), trust_env=False).text for url in urls]
        except httpx.TransportError as error:
            raise AssertionError(f"{service} says nothing: {error!r}") from error

    def in_flight(self) -> int:
        """Commands that calls wait for, over all ingress processes, by their metrics."""
        lines = [line for text in self.metrics("ingress") for line in text.splitlines()]
        return int(sum(float(x.split()[1]) for x in lines if x.startswith("millrace_ingress_commands_in_flight ")))

    @contextmanager
    def frozen(self, service: str) -> Iterator[None]:
        """All processes of a service stand still; shorter than any session timeout, please.

        Other tests wait meanwhile, and who would freeze it too has its turn afterwards. A service whose standstill
        changes answers is frozen by a test that is ``alone``.
        """
        with run_folder.locked(f"frozen-{service}"), frozen(self.pids(service)):
            yield

    @staticmethod
    def policies() -> AbstractContextManager[None]:
        """Risk, routing and fees are one document each for everybody: one test at a time publishes its own."""
        return run_folder.locked("policies")

    def rows(self, query: Any, *parameters: object) -> list[tuple[Any, ...]]:
        """What lies in Postgres, as an analyst sees it."""
        return asked.rows(self.settings.addresses().postgres_reader_dsn, query, *parameters)


class Merchant:
    """A caller with a token; every method gives the httpx response."""

    def __init__(self, name: str, base_url: str, token: str) -> None:
        self.name = name
        headers = {"Authorization": f"Bearer {token}"}
        hooks = {"request": [_wait_as_long_as_may_be]}
        self.http = httpx.Client(
            base_url=base_url, headers=headers, timeout=_ANSWER_WITHIN_S, trust_env=False, event_hooks=hooks
        )

    def create(self, key: str | None = None, headers: dict[str, str] | None = None, **payload: Any) -> httpx.Response:
        """POST /v1/payment_intents with the envelope."""
        return self.http.post("/v1/payment_intents", json=self.envelope(key, **payload), headers=headers)

    def act(self, intent_id: str, verb: str, key: str | None = None, **envelope: Any) -> httpx.Response:
        """POST /v1/payment_intents/{id}/{verb}."""
        body = {"idempotency_key": key or uuid.uuid4().hex, "payload": {}} | envelope
        return self.http.post(f"/v1/payment_intents/{intent_id}/{verb}", json=body)

    def fresh(self, path: str) -> httpx.Response:
        """A GET over a connection of its own: any ingress process may answer."""
        return self.http.get(path, headers={"Connection": "close"})

    @staticmethod
    def envelope(key: str | None = None, **payload: Any) -> dict[str, Any]:
        """A valid create, changed."""
        body = {"amount": 1_099, "currency": "USD", "payment_method": "tok_sim_approve"} | payload
        return {"idempotency_key": key or uuid.uuid4().hex, "payload": body}


def _wait_as_long_as_may_be(request: httpx.Request) -> None:
    """A busy machine decides later than a caller waits by default: 202 is then right, and not what tests are about."""
    if request.method == "POST":
        request.headers.setdefault("Prefer", f"wait={limits.RESULT_WAIT_MAX_S}")


def no_processes_but(*named: str) -> str:
    """What runs of the owners and workers that services declare: each costs a start, and what it asks for while it idles."""
    assert set(named) <= set(PROCESSES), named
    return " ".join(f"{name}=0" for name in PROCESSES if name not in named)


@contextmanager
def system_of_its_own(home: Path, *, processes: tuple[str, ...] = (), **changes: Any) -> Iterator[PublicSystem]:
    """Services with other settings than the public system's, in a world of their own on the servers of the run.

    Of the owners and workers that services in the tree declare run those ``processes``.
    """
    with servers.world(home, worker_processes=no_processes_but(*processes), **changes) as made:
        where = launch.world(made.settings, servers.up(made.settings))
        try:
            yield PublicSystem(made.settings, where["base_url"])
        finally:
            servers.end(made.settings)


@pytest.fixture(scope="session")
def public() -> PublicSystem:
    """The system of the run, started by whoever needs it first; it ends with the run."""
    with run_folder.locked("public-start"):
        known = run_folder.FOLDER / "public.settings"
        ports = PortLeases()
        if not known.exists():
            # Below what kernels give to outgoing connections: those do not take it before the gateway listens there.
            frames_port = ports.take_any()
            changes = {"owner_processes": 1, "ingress_processes": 2, "limiter_frames_port": frames_port}
            # a Valkey of its own: tests freeze it
            with servers.lasting_world(servers.PUBLIC_HOME, redis_url=None, **changes) as made:
                known.write_bytes(pickle.dumps(made.settings))
        settings = pickle.loads(known.read_bytes())
        ports.close()  # not before: servers of the run have chosen theirs; now the stack leases it for itself
        return PublicSystem(settings, launch.world(settings, servers.up(settings))["base_url"])


@pytest.fixture
def merchant(public: PublicSystem) -> Iterator[Merchant]:
    """A merchant without a past."""
    caller = public.merchant()
    yield caller
    caller.http.close()


@pytest.fixture
def stranger(public: PublicSystem) -> Iterator[Merchant]:
    """Another one."""
    caller = public.merchant()
    yield caller
    caller.http.close()
