"""The soak of tenants: lives beside their models, one of them noisy, while every process is killed in turn.

A life moves between placements, is suspended, rotates and shreds its keys, meters everything twice, and has schemas
emptied that all of them share. After each step all that is served is compared; in the end nothing lies under keys of
before a rotation, usage and invoices are exact, tenants are apart, nothing is a gap.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import httpx

from compose.proof import limits
from compose.proof.kit.patient_caller import NotInTime, PatientCaller
from compose.proof.soak.histories import Histories, Told
from compose.proof.soak.proof import Proof
from compose.proof.tenancy.life import Life
from compose.proof.tenancy.shared_stores import declared, moved
from compose.settings.service_processes import PROCESSES
from ingress.identity.issuer import KeyFolder, issue_token
from schemas.tenancy.operations import SERVICE_NAME

if TYPE_CHECKING:
    from compose.proof.kit.narrator import Narrator
    from compose.proof.kit.own_stack import OwnStack
    from compose.proof.soak.proof import Verdict

#: what tenants need, and whose book is checked; their owners, movers, meters and the monitor come by themselves
SERVICES: Final = ("simulator", "clickhouse_sink", "ingress")
#: of other services, which have soaks of their own
ELSEWHERE: Final = " ".join(f"{name}=0" for name in PROCESSES if not name.startswith(SERVICE_NAME))
_OWNER: Final = "tenancy_owner"


def soak(stack: OwnStack, *, minutes: float, rate: float, seed: int, narrator: Narrator) -> Verdict:
    """Runs the whole soak on a stack that is ready. ``rate``: how many lives go on at once, beside the noisy one."""
    histories = Histories(stack, count=int(rate) + 1, seed=seed, frozen=(_OWNER,), narrator=narrator)
    others: dict[str, str] = {}
    bills: list[str] = []
    declared(stack)
    histories.run(minutes * 60, lambda told: _live(histories, told, others, bills))
    missing = [] if len(bills) >= len(histories.told) else [f"{len(bills)} lives came to their bills, not all"]
    billed = Proof(name="usage and invoices are exact in the end", says=f"{len(bills)} tenants", problems=missing)
    own = [billed, _drained(stack), _apart(stack)]
    return histories.verdict("what is served is what was acknowledged", {"tenants": len(others)}, own)


def _live(histories: Histories, told: Told, others: dict[str, str], bills: list[str]) -> None:
    """One life from its first tenant to its peace. The first of all is the noisy one."""
    keys, base_url = KeyFolder(histories.stack.home / "keys"), histories.stack.world["base_url"]
    noisy = told is histories.told[0]
    with httpx.Client(base_url=base_url, timeout=limits.SOAK_CALL_WAIT_S, trust_env=False) as http:
        life = Life(http, keys, told.seed, others, noisy=noisy)
        told.has_begun.set()
        while not histories.is_calm.is_set():
            sent_at = time.monotonic()
            told.step = life.step()
            histories.answered(sent_at)
            told.kinds[told.step] += 1
            _compare(told, life, whole=not noisy)
        told.step = "peace"
        life.make_peace()
        _compare(told, life, whole=True)
        bills += [tenant_id for tenant_id, _, _ in life.past] + [life.tenant_id]


def _compare(told: Told, life: Life, *, whole: bool) -> None:
    told.compared += 1
    for what in life.differs(whole=whole):
        told.differs(f"{life.tenant_id}: {what}")


def _drained(stack: OwnStack) -> Proof:
    ended, is_open = moved(stack)
    problems = [] if ended else [f"no drain moved a tenant to its end, {is_open} are on their way"]
    return Proof(name="drains moved tenants", says=f"{ended} moves", problems=problems)


def _apart(stack: OwnStack) -> Proof:
    """The monitor's own verdict, once it has made a whole round."""
    said = "ok"
    with httpx.Client(base_url=stack.world["base_url"], timeout=limits.SOAK_CALL_WAIT_S, trust_env=False) as http:
        token = issue_token(KeyFolder(stack.home / "keys"), "m_soak_staff", ("tenants:admin",), subject="s_soak")
        staff = PatientCaller(http, token, persist_s=limits.SOAK_CALL_WAIT_S, wait_s=limits.SOAK_SETTLE_WAIT_S)
        try:
            staff.becomes("isolation", lambda: staff.read("/v1/isolation")["status"], said)
        except NotInTime as error:
            said = str(error)
    return Proof(name="tenants are apart", says=said, problems=[] if said == "ok" else [said])
