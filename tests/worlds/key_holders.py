"""A shred over which an ingress stands still or dies, with a key in its hand and an answer that waits for its row."""

from __future__ import annotations

import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import httpx
import psycopg

from tests.eventually import becomes, eventually
from tests.freezing import freeze

if TYPE_CHECKING:
    from tests.worlds.tenancy_world import Caller, Tenancy

_LEASED: Final = (
    "select holder_id from key_holder where kind = %s and lease_until > now() order by lease_until desc limit 1"
)
_WAITS: Final = "select from pg_locks where relation = 'tenancy_pool.resource'::regclass and not granted"
_SHRED: Final = """update tenant_key set state = 'destroyed', wrapped = null,
    destroyed_at = (extract(epoch from clock_timestamp()) * 1000000)::bigint where tenant_id = %s"""
_SIGNED: Final = """select h.lease_until < clock_timestamp(), c.document from tenant_certificate c, key_holder h
    where c.tenant_id = %s and h.holder_id = %s"""


class Seen(NamedTuple):
    """What became of it."""

    lease_had_ended: bool  # of the ingress, when the certificate was there
    holders: tuple[int, int]  # that acknowledged, and whose leases had ended, as it says
    answers: list[httpx.Response]  # to reads: one that was under way, and one of afterwards


def over_a_shred(tenancy: Tenancy, mark: str, holder: Literal["frozen", "killed"]) -> Seen:
    """The mover stands still until the ingress does, so that nobody acknowledges before; an owner's commit is ours."""
    caller, system = tenancy.tenant(), tenancy.system
    made: Any = ("POST", "/v1/resources", {"mark": mark})
    one = f"/v1/resources/{caller.done(*made, key='kept')['resource_id']}"
    dsn = system.settings.addresses().postgres_superuser_dsn
    with (
        psycopg.connect(dsn, autocommit=True) as watching,
        psycopg.connect(dsn) as rows,
        tenancy.mover() as mover,
        ThreadPoolExecutor(1) as pool,
        ExitStack() as standing,
    ):
        eventually(lambda: watching.execute(_LEASED, ("millrace_tenancy_mover",)).rowcount, what="a lease of the mover")
        freeze(mover.pid)
        ((leased,),) = watching.execute(_LEASED, ("millrace_ingress",)).fetchall()
        rows.execute("lock table tenancy_pool.resource in access exclusive mode")
        reading = pool.submit(_read, caller, one)
        eventually(lambda: watching.execute(_WAITS).rowcount, what="a read that waits for its row")
        assert caller.send(*made, "kept").headers["Idempotency-Replayed"]  # opens the key that the read has in hand
        pids = system.pids("ingress")
        if holder == "frozen":
            standing.enter_context(system.frozen("ingress"))
        else:
            os.kill(pids[0], signal.SIGKILL)
        rows.rollback()  # the row is read before the shred: it lies in the socket of who stands still
        becomes(lambda: watching.execute(_WAITS).rowcount, 0, what="the end of the read")
        watching.execute(_SHRED, (caller.name,))
        os.kill(mover.pid, signal.SIGCONT)
        signed: Any = eventually(lambda: watching.execute(_SIGNED, (caller.name, leased)).fetchone(), 40)
        standing.close()
        answers = [found for found in (reading.result(),) if found is not None]
        becomes(lambda: _status(caller, one), 410, 30, what="reads of a shredded tenant")
        assert (system.pids("ingress") == pids) == (holder == "frozen")
    answers += [caller.http.get(one) for _ in range(2 - len(answers))]
    proof = re.search(r"(\d+) acknowledged the shred, the leases of (\d+) had ended", signed[1])
    assert proof, signed[1]
    return Seen(signed[0], (int(proof[1]), int(proof[2])), answers)


def _read(caller: Caller, path: str) -> httpx.Response | None:
    try:
        return caller.http.get(path)
    except httpx.TransportError:
        return None  # who was to answer is dead


def _status(caller: Caller, path: str) -> int:
    found = _read(caller, path)
    return 0 if found is None else found.status_code
