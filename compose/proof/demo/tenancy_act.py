"""The act of tenants: a metered day, a move under writes whose mover is killed, an attempt at another's resource."""

from __future__ import annotations

import json
import os
import signal
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import httpx

from compose.proof import limits as proof_limits
from compose.proof.demo.beside import beside, take
from compose.proof.kit.patient_caller import PatientCaller
from ingress.identity.issuer import SCOPES_TENANT, KeyFolder, issue_token
from schemas import limits

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from compose.proof.kit.own_stack import OwnStack

_HOURS: Final = 24
_AN_HOUR: Final = 10  # events
_RESOURCES: Final = 40  # of the tenant that is moved, before the move
_BATCH: Final = "application/cloudevents-batch+json"
_MISSING, _REFUSED_QUERY, _TAKEN = 404, 400, 202


@dataclass(slots=True)
class TenancyPlay:
    """What the act came to; ``problems`` empty: everything was as it must be."""

    events: int = 0
    writes: int = 0  # acknowledged while the tenant was moved
    steps: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def is_ok(self) -> bool:
        """Whether every step was taken and held."""
        return not self.problems and bool(self.events) and bool(self.writes)

    def pairs(self) -> dict[str, int]:
        """The figures for the demo's last line."""
        return {"tenancy_events": self.events, "tenancy_writes_moved": self.writes, "tenancy_steps": len(self.steps)}


def tenancy_playing(stack: OwnStack) -> AbstractContextManager[Callable[[], TenancyPlay]]:
    """Plays beside the block, which asks for what came of it."""
    return beside("tenancy-act", lambda: _play(stack))


def _play(stack: OwnStack) -> TenancyPlay:
    play = TenancyPlay()
    with httpx.Client(base_url=stack.world["base_url"], timeout=proof_limits.DEMO_ACT_WAIT_S, trust_env=False) as http:
        stage = _Stage(stack, http, play)
        take((stage.make_tenants, stage.meter_a_day, stage.move_under_writes, stage.refuse_a_leak), play, "tenants")
    return play


class _Stage:
    """The steps, in their order. What is not as it must be becomes a problem of the play."""

    def __init__(self, stack: OwnStack, http: httpx.Client, play: TenancyPlay) -> None:
        self._stack, self._http, self._play = stack, http, play
        self._keys = KeyFolder(stack.home / "keys")
        self._staff = self._caller("m_demo_staff", ("tenants:admin",))
        self._tenants: list[str] = []
        self._members: list[PatientCaller] = []

    def make_tenants(self) -> None:
        """Two tenants in the pool, active."""
        for n in range(2):
            made = self._staff.do("POST", "/v1/tenants", {"name": f"Demo {n} {uuid.uuid4().hex[:6]}"})["tenant_id"]
            self._staff.becomes("a tenant", lambda made=made: self._tenant(made)["state"], "active")  # type: ignore[misc]
            self._tenants.append(made)
            self._members.append(self._caller(made, SCOPES_TENANT, kind="tenant"))

    def meter_a_day(self) -> None:
        """Every event of a day is sent twice, and counts once."""
        day = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
        events = [_usage(day + timedelta(hours=hour), n) for hour in range(_HOURS) for n in range(_AN_HOUR)]
        for _ in range(2):
            answer = self._members[0].hand_in("/v1/usage/events", json.dumps(events), _BATCH)
            self._require("events taken", answer.status_code, _TAKEN)
        asked = {"dimension": "tokens", "from": _zulu(day), "to": _zulu(day + timedelta(days=1)), "window": "hour"}

        def counted() -> list[tuple[int, int]]:
            return [(hour["quantity"], hour["events"]) for hour in self._members[0].read("/v1/usage", **asked)["data"]]

        wanted = [(sum(range(_AN_HOUR)), _AN_HOUR)] * _HOURS
        self._staff.becomes("usage by the hour", counted, wanted)
        self._play.events = len(events)

    def move_under_writes(self) -> None:
        """A tenant gets a schema of its own while it writes, and its mover is killed: no write is lost or doubled."""
        tenant, member = self._tenants[0], self._members[0]
        written = {member.do("POST", "/v1/resources", {"n": n})["resource_id"]: n for n in range(_RESOURCES)}
        generation = self._tenant(tenant)["placement"]["generation"]
        over, writer = threading.Event(), self._caller(tenant, SCOPES_TENANT, kind="tenant")
        with ThreadPoolExecutor(1) as thread:
            writing = thread.submit(_write_until, over, writer, written)
            try:
                said = {"placement": {"mode": "partitioned"}, "rows_per_second": _RESOURCES}
                move = self._staff.do("POST", f"/v1/tenants/{tenant}/migrations", said)["migration_id"]
                where = f"/v1/tenants/{tenant}/migrations/{move}"
                self._staff.becomes("the move", lambda: self._staff.read(where)["state"] != "planned", wanted=True)
                for pid in self._stack.pids("tenancy_mover-").values():
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                self._staff.becomes("the move", lambda: self._staff.read(where)["state"], "soaking")
            finally:
                over.set()
            self._play.writes = writing.result()
        self._require("the generation", self._tenant(tenant)["placement"]["generation"], generation + 1)
        found = {one["resource_id"]: one["payload"]["n"] for one in member.walk("/v1/resources")}
        self._require("what was written", found, written)

    def refuse_a_leak(self) -> None:
        """Another tenant's resource is as one that never was; a tenant in the query is refused; the monitor is well."""
        thief = self._members[1]
        owned = self._members[0].walk("/v1/resources")[0]["resource_id"]
        never = f"rs_{uuid.uuid4().hex}"
        answers = [thief.get(f"/v1/resources/{one}") for one in (owned, never)]
        self._require("another's resource", [answer.status_code for answer in answers], [_MISSING] * 2)
        told = [_but_ids(answer.json()) for answer in answers]
        self._require("what is told of it", told[0], told[1])
        named = thief.get(f"/v1/resources/{owned}", tenant=self._tenants[0])
        self._require("a tenant in the query", named.status_code, _REFUSED_QUERY)
        self._staff.becomes("isolation", lambda: self._staff.read("/v1/isolation")["status"], "ok")

    def _tenant(self, tenant_id: str) -> dict[str, Any]:
        return self._staff.read(f"/v1/tenants/{tenant_id}")

    def _caller(self, name: str, scopes: tuple[str, ...], kind: Any = "merchant") -> PatientCaller:
        token = issue_token(self._keys, name, scopes, kind=kind, ttl_s=limits.TOKEN_TTL_MAX_S)
        patience_s = proof_limits.DEMO_PERSISTENCE_S
        return PatientCaller(self._http, token, persist_s=patience_s, wait_s=patience_s)

    def _require(self, what: str, found: object, wanted: object) -> None:
        if found != wanted:
            self._play.problems.append(f"tenants: {what}: {found!r}, must be {wanted!r}")


def _write_until(over: threading.Event, writer: PatientCaller, written: dict[str, int]) -> int:
    """Writes one after the other; each that is acknowledged is in ``written`` before the next begins."""
    count = 0
    while not over.is_set():
        n = _RESOURCES + count
        written[writer.do("POST", "/v1/resources", {"n": n})["resource_id"]] = n
        count += 1
    return count


def _usage(at: datetime, n: int) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "type": "millrace.usage",
        "source": "/demo",
        "id": f"{at:%H}-{n}",
        "time": _zulu(at + timedelta(minutes=n)),
        "data": {"dimension": "tokens", "quantity": n},
    }


def _zulu(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _but_ids(problem: dict[str, Any]) -> dict[str, Any]:
    """What differs between any two calls is left out."""
    return {name: value for name, value in problem.items() if name not in ("instance", "request_id", "trace_id")}
