"""The life of one tenant at a time: each step is taken by the service and by the model, and compared."""

from __future__ import annotations

import json
import random
import time
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from compose.proof import limits
from compose.proof.kit.patient_caller import CallRefused, PatientCaller
from compose.proof.tenancy.accounts import DIMENSION, OLD, bill_is_exact, usage_is_exact
from compose.proof.tenancy.model import ENDED, Move, TenantModel
from compose.proof.tenancy.shared_stores import SharedStores
from ingress.identity.issuer import issue_token
from schemas import limits as schemas_limits

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    import httpx

    from ingress.identity.issuer import KeyFolder

Json = dict[str, Any]
MODES: Final = ("pooled", "partitioned", "dedicated")
_MEMBER: Final = ("resources:read", "resources:write", "usage:read", "usage:write", "tenant:admin")
_BATCH: Final = "application/cloudevents-batch+json"
_LINES: Final = "application/x-ndjson"
_MANY: Final = 25  # live resources: with more a delete is as likely as a create
_BURST: Final = 40
_REFUSED, _MISSING, _CONFLICT, _GONE = 403, 404, 409, 410


class Life:
    """What is done in the name of one tenant after another. ``others``: of every tenant of all lives one resource."""

    def __init__(
        self, http: httpx.Client, keys: KeyFolder, seed: int, others: MutableMapping[str, str], *, noisy: bool
    ) -> None:
        self.random = random.Random(seed)
        self._http, self._keys, self._others, self._noisy = http, keys, others, noisy
        self._staff = self._caller("m_soak_staff", "merchant", ("tenants:admin",))
        operator = self._caller("s_soak_platform", "staff", ("operator:platform",))
        self._stores = SharedStores(operator, self._staff, self.random)
        self.past: list[tuple[str, PatientCaller, TenantModel]] = []  # tenants whose keys are shredded
        self._begin()

    def _begin(self) -> None:
        """A new tenant."""
        payload = {
            "name": f"Soak {uuid.uuid4().hex[:8]}",
            "placement": {"mode": "pooled" if self._noisy else self.random.choice(MODES)},
            "prices": {DIMENSION: "1"},
        }
        self.tenant_id: str = self._staff.do("POST", "/v1/tenants", payload)["tenant_id"]
        self._path = f"/v1/tenants/{self.tenant_id}"
        self._becomes("active")
        self.member = self._caller(self.tenant_id, "tenant", _MEMBER)
        self.model = TenantModel()
        self.move: Move | None = None
        self.create()

    def _caller(self, name: str, kind: Any, scopes: tuple[str, ...]) -> PatientCaller:
        person = None if kind == "staff" else "s_soak"  # staff are the name itself
        token = issue_token(self._keys, name, scopes, schemas_limits.TOKEN_TTL_MAX_S, kind=kind, subject=person)
        patience_s = limits.SOAK_PERSISTENCE_S
        return PatientCaller(self._http, token, persist_s=patience_s, wait_s=patience_s)

    # --- steps -----------------------------------------------------------------------------------------------

    def step(self) -> str:
        """One of them, by name."""
        steps: dict[Callable[[], None], int] = {
            self.create: 6 if len(self.model.live) < _MANY else 2,
            self.replace: 4,
            self.delete: 2,
            self.retry: 2,
            self.meter: 3,
            self.relocate: 8,
            self.suspend: 1,
            self.rotate: 1,
            self.shred: 0 if self.move else 1,
            self._stores.step: 1,
        }
        if self._noisy:
            steps = {self.burst: 12, self.meter: 3, self.rotate: 1}
        (step,) = self.random.choices(list(steps), weights=list(steps.values()))
        step()
        return step.__name__ if step != self._stores.step else "drain"

    def create(self) -> None:
        """A resource under an identity that may be asked for again."""
        key, payload = uuid.uuid4().hex, self._payload()
        self.model.created(key, payload, self.member.do("POST", "/v1/resources", payload, key=key))
        self._others[self.tenant_id] = self.model.keys[-1][2]

    def replace(self) -> None:
        """Its next version."""
        if self.model.live:
            one, payload = self.random.choice(list(self.model.live)), self._payload()
            self.member.do("PUT", f"/v1/resources/{one}", payload, self.model.live[one][0])
            self.model.replaced(one, payload)

    def delete(self) -> None:
        """For good."""
        if self.model.live:
            one = self.random.choice(list(self.model.live))
            self.member.do("DELETE", f"/v1/resources/{one}", None, self.model.live[one][0])
            self.model.deleted(one)

    def retry(self) -> None:
        """An old create again, from before whatever move: the answer that was stored, and no second effect."""
        key, payload, made = self.random.choice(self.model.keys)
        again = self.member.do("POST", "/v1/resources", payload, key=key)
        if (again["resource_id"], again["version"]) != (made, 1):
            raise CallRefused(f"a retry of {made} made {again}")

    def burst(self) -> None:
        """Many at once, which are answered when they are: then each is asked for under its identity."""
        asked = {uuid.uuid4().hex: self._payload() for _ in range(_BURST)}
        lines = [
            json.dumps({"operation": "POST /v1/resources", "idempotency_key": key, "payload": payload})
            for key, payload in asked.items()
        ]
        self.member.hand_in("/v1/commands", "\n".join(lines), _LINES)
        for key, payload in asked.items():
            self.model.created(key, payload, self.member.do("POST", "/v1/resources", payload, key=key))

    def meter(self) -> None:
        """Usage twice over, and one event with another content."""
        at = (datetime.now(UTC) - OLD).strftime("%Y-%m-%dT%H:%M:%SZ")
        quantities = [self.random.randrange(100) for _ in range(self.random.randrange(1, 20))]
        events = [_usage(at, quantity) for quantity in quantities]
        other = events[0] | {"data": {"dimension": DIMENSION, "quantity": quantities[0] + 1}}
        for batch in (events, events, [other]):
            answer = self.member.hand_in("/v1/usage/events", json.dumps(batch), _BATCH)
            if answer.is_error:
                raise CallRefused(f"usage: {answer.status_code} {answer.text[:300]}")
        self.model.metered(DIMENSION, quantities)
        self.model.contradicted.add(events[0]["id"])

    def relocate(self) -> None:
        """Begins a move, or says something about the one that is open, or looks at how it ended."""
        if self.move is None:
            placed = self._staff.read(self._path)["placement"]
            mode = self.random.choice([mode for mode in MODES if mode != placed["mode"]])
            asked = {"placement": {"mode": mode}, "rows_per_second": self.random.choice((10, 10_000))}
            answer = self._staff.send("POST", f"{self._path}/migrations", asked)
            made = answer.json().get("result") if answer.is_success else self._drained_away(answer)
            if made is not None:
                self.move = Move(made["migration_id"], made["source"], made["target"], placed["generation"])
            return
        found = self._staff.read(self._move_path)
        if found["state"] in ENDED:
            self._judge(found)
        elif found["state"] == "soaking":
            self._say(self.random.choice(("complete", "rollback")))
        elif self.random.random() < limits.SOAK_ABORTS:
            self._say("abort")

    def _drained_away(self, answer: httpx.Response) -> Json | None:
        """The move that a drain began before, and is open; None where that is over by now."""
        if answer.status_code != _CONFLICT:
            raise CallRefused(f"a move: {answer.status_code} {answer.text[:300]}")
        newest = self._staff.read(f"{self._path}/migrations")["data"][:1]
        return next((one for one in newest if one["state"] not in ENDED), None)

    def suspend(self) -> None:
        """Refused while it lasts, by every process within a second or two; and then served as before."""
        mode = self.random.choice(("read_only", "blocked"))
        self._staff.do("POST", f"{self._path}/suspend", {"mode": mode, "reason": "soak"})
        self._refused("a write of a suspended tenant", lambda: self.member.send("POST", "/v1/resources", {}), _REFUSED)
        if mode == "blocked":
            self._refused("a read of a blocked tenant", lambda: self.member.get("/v1/resources"), _REFUSED)
        self._staff.do("POST", f"{self._path}/resume")
        self._becomes("active")
        self._staff.becomes("a read", lambda: self.member.get("/v1/quotas").status_code, 200)

    def rotate(self) -> None:
        """New payloads get a new key, old ones stay readable."""
        self._staff.do("POST", f"{self._path}/keys/rotate")

    def shred(self) -> None:
        """Nothing opens any more, whoever asks; another tenant goes on."""
        self._staff.do("POST", f"{self._path}/keys/shred", {"reason": "soak"})
        self._refused("a read after a shred", lambda: self.member.get("/v1/resources"), _GONE)
        self._refused("a write after a shred", lambda: self.member.send("POST", "/v1/resources", {}), _GONE)
        keys = f"{self._path}/keys"
        self._staff.becomes("the certificate", lambda: bool(self._staff.read(keys)["certificate_id"]), wanted=True)
        self.past.append((self.tenant_id, self.member, self.model))
        self._begin()

    # --- what must be so -------------------------------------------------------------------------------------

    def differs(self, *, whole: bool = True) -> list[str]:
        """What is not as the model says, of resources, the quota and other tenants."""
        problems = [self.model.differs(self.member.walk("/v1/resources"))] if whole else []
        used = {one["dimension"]: one["used"] for one in self.member.read("/v1/quotas")["data"]}
        if used.get("resources", 0) != len(self.model.live):
            problems.append(f"the quota counts {used}, there are {len(self.model.live)}")
        foreign = [id_ for name, id_ in list(self._others.items()) if name != self.tenant_id]
        problems += [
            f"{id_} of another tenant, or deleted, is a {status}"
            for id_ in (*foreign[-1:], *self.model.gone[-1:])
            if (status := self.member.get(f"/v1/resources/{id_}").status_code) != _MISSING
        ]
        return [one for one in problems if one]

    def make_peace(self) -> None:
        """The open move comes to its end, usage is exact, a bill over it is made once."""
        until = time.monotonic() + limits.SOAK_FINAL_WAIT_S
        while self.move is not None:
            if time.monotonic() > until:
                raise CallRefused(f"a move never ended: {self._staff.read(self._move_path)}")
            time.sleep(limits.SOAK_POLL_MS / 1_000)
            self.relocate()
        self._staff.becomes("keys of before a rotation that are not retired", self._not_retired, 0)
        for tenant_id, member, model in (*self.past, (self.tenant_id, self.member, self.model)):
            usage_is_exact(member, model)
            bill_is_exact(self._staff, tenant_id, model)

    def _not_retired(self) -> int:
        keys = self._staff.read(f"{self._path}/keys")["data"]
        return sum(key["state"] == "decrypt_only" and key["retired_at"] is None for key in keys)

    # --- what they share -------------------------------------------------------------------------------------

    @property
    def _move_path(self) -> str:
        assert self.move is not None  # noqa: S101 - whoever asks has looked
        return f"{self._path}/migrations/{self.move.migration_id}"

    def _say(self, word: str) -> None:
        """An operator's word; a move that has gone on meanwhile refuses it."""
        answer = self._staff.send("POST", f"{self._move_path}/{word}")
        if answer.is_success and self.move:
            self.move.word = word
        elif answer.status_code != _CONFLICT:
            raise CallRefused(f"{word}: {answer.status_code} {answer.text[:300]}")

    def _judge(self, found: Json) -> None:
        assert self.move is not None  # noqa: S101 - whoever asks has looked
        move, self.move = self.move, None
        if wrong := move.wrong_end(found, self._staff.read(self._path)["placement"]):
            raise CallRefused(f"move {move.migration_id}: {wrong}")

    def _refused(self, what: str, ask: Callable[[], httpx.Response], status: int) -> None:
        """What another process still allowed is part of the model: a write of that moment is one."""

        def asked() -> int:
            answer = ask()
            if answer.request.method == "POST" and answer.is_success:
                self.model.created(answer.request.headers["Idempotency-Key"], {}, answer.json()["result"])
            return answer.status_code

        self._staff.becomes(what, asked, status)

    def _becomes(self, state: str) -> None:
        self._staff.becomes("a tenant", lambda: self._staff.read(self._path)["state"], state)

    def _payload(self) -> Json:
        return {"n": self.random.randrange(10**6), "text": uuid.uuid4().hex, "word": "\u00e9 \u2028"}


def _usage(at: str, quantity: int) -> Json:
    named = {"specversion": "1.0", "type": "millrace.usage", "source": "/soak", "id": uuid.uuid4().hex, "time": at}
    return named | {"data": {"dimension": DIMENSION, "quantity": quantity}}
