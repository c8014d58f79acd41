"""The limiter as outsiders meet it while its gateway is killed, its store is away and its keys change."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import grpc
import pytest
import redis

from compose.operator_access import check_settings
from compose.settings.valkey_access import KINDS
from reconciliation.check.run import run_check
from schemas.limiter import limits
from sinks.redis.user import user_name
from tests.eventually import becomes, eventually, patient
from tests.integration.operator_shell import Operator
from tests.worlds.limiter.limiter_public import OK, OVER_LIMIT, Envoy, envoy, metrics
from tests.worlds.public_system import merchant, public

if TYPE_CHECKING:
    import httpx

    from tests.worlds.public_system import Merchant

__all__ = ["envoy", "merchant", "public"]  # the fixtures of this module
pytestmark = [pytest.mark.servers, pytest.mark.alone]  # gateway, store and keys are everybody's


def test_a_killed_gateway_admits_nothing_twice(envoy: Envoy) -> None:
    """SIGKILL in the middle of leased spending; the supervisor starts another one, which counts on from the store."""
    envoy.in_force(capacity=400, consistency="leased")
    before = envoy.allowed(150)
    (pid,) = envoy.public.pids("limiter_gateway")
    os.kill(pid, signal.SIGKILL)

    def restarted() -> bool:
        assert envoy.public.pids("limiter_gateway") != [pid]
        try:
            return envoy.remaining("probe") == 400
        except grpc.RpcError:
            return False

    eventually(restarted, 40)
    assert 300 <= before + envoy.allowed(500) <= 400


@pytest.mark.parametrize(("mode", "code"), [("closed", OVER_LIMIT), ("open", OK), ("stale", OVER_LIMIT)])
def test_without_the_store_envoy_is_answered_in_time(envoy: Envoy, mode: str, code: int) -> None:
    envoy.in_force(failure_mode=mode)
    assert envoy.decided() == OK
    with envoy.public.frozen("redis"):
        since = time.monotonic()
        assert envoy.check() == code
        assert time.monotonic() - since < patient(2 * limits.LIMIT_STORE_TIMEOUT_S + 5)
        usage = envoy.operator.http.get("/v1/usage/" + quote(f"{envoy.tenant}:u:/r", safe=""))
        assert (usage.status_code, usage.json()["live"]) == (200, None)  # the stream's total is told all the same
    becomes(lambda: envoy.remaining("probe"), 10, 60)


def test_keys_are_rotated_under_a_running_gateway(envoy: Envoy) -> None:
    """Every check is answered by its policy, no snapshot is refused, and the next publication arrives."""
    first = envoy.in_force(capacity=1_000)
    path = "/v1/policy_snapshots/newest"
    before, refused = envoy.operator.http.get(path), metrics(envoy)["millrace_limiter_snapshots_refused_total"]
    operator = Operator.of(envoy.public.settings)
    rotated = operator.run("limiter", "keys", "rotate")
    assert rotated.returncode == 0, rotated.stderr
    signer = rotated.stdout.strip()

    def signed_anew() -> bool:
        assert envoy.check() == OK
        return envoy.operator.http.get(path).json()["key_id"] == signer

    eventually(signed_anew, 60)
    after = envoy.operator.http.get(path, headers={"If-None-Match": before.headers["etag"]})
    assert (after.status_code, after.json()["key_id"]) == (200, signer)
    removed = operator.run("limiter", "keys", "remove", before.json()["key_id"])
    assert removed.returncode == 0, removed.stderr
    assert operator.run("limiter", "keys", "list").stdout.split() == [signer, "signs"]
    assert operator.run("limiter", "keys", "remove", signer).returncode == 1
    envoy.in_force(policy_id=first["policy_id"], expected_version=1, capacity=77)
    assert metrics(envoy)["millrace_limiter_snapshots_refused_total"] == refused


def test_without_the_store_ingress_processes_share_an_open_quota_of_our_api(envoy: Envoy, merchant: Merchant) -> None:
    """Eight a day stay eight a day while nothing is counted: each process allows its part."""
    mine = {"tenant": merchant.name, "user": "*", "route": "*"}
    capacity, processes = 8, envoy.public.settings.ingress_processes
    assert processes > 1
    assert envoy.publish(scope=mine, per=["tenant"], capacity=capacity, failure_mode="open").status_code == 201
    path = "/v1/payment_intents/pi_nobodys"

    def asked(times: int) -> list[httpx.Response]:
        return [merchant.fresh(path) for _ in range(times)]

    # so many that hardly ever one process answers all of them: who does not know the policy yet allows everything
    eventually(lambda: all("ratelimit-policy" in answer.headers for answer in asked(20 * processes)), 60)
    allowed: list[httpx.Response] = []

    def used_up() -> bool:
        answers = asked(4 * processes)
        allowed.extend(answer for answer in answers if answer.status_code == 404)
        return all(answer.status_code == 503 for answer in answers)  # nobody knows whether they may

    with envoy.public.frozen("redis"):
        eventually(used_up, 60)
        assert 1 <= len(allowed) <= capacity, "a slow machine may have spent some before"


def test_check_finds_who_may_more_at_valkey_than_is_declared(envoy: Envoy) -> None:
    """And nothing while everybody is as declared, at a system whose processes are such users."""
    settings = envoy.public.settings

    def found() -> tuple[int, list[dict[str, Any]]]:
        (finding,) = run_check(check_settings(settings), only=["valkey_rules"]).invariants
        assert finding.note == f"compared {len(KINDS)} users at 1 servers"
        return finding.gaps, finding.sample

    assert found() == (0, [])
    with redis.Redis.from_url(settings.addresses().redis_url) as operator:
        operator.execute_command("ACL", "SETUSER", user_name("ingress"), "+flushall")
        try:
            gaps, (row,) = found()
        finally:
            operator.execute_command("ACL", "LOAD")
    assert gaps == 1
    assert (row["user"], row["difference"]) == (user_name("ingress"), "has: +flushall")
    assert found() == (0, [])
