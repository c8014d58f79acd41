"""The rate limiter as outsiders meet it: policies over HTTP, Envoy's RateLimitService, and gateways that are killed."""

from __future__ import annotations

import json
import uuid
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import grpc
import httpx
import pytest
from envoy.service.rate_limit_quota.v3 import rlqs_pb2, rlqs_pb2_grpc

from schemas.limiter import limits
from tests.eventually import becomes, eventually, patient
from tests.integration.operator_shell import Operator
from tests.worlds.limiter.limiter_public import OK, OVER_LIMIT, SCOPES, Envoy, by_store, envoy, metrics
from tests.worlds.public_system import merchant, public, stranger

if TYPE_CHECKING:
    from tests.worlds.public_system import Merchant

__all__ = ["envoy", "merchant", "public", "stranger"]  # the fixtures of this module
pytestmark = pytest.mark.servers


@pytest.mark.parametrize(
    "changes",
    [
        {"capacity": -1},
        {"capacity": "10"},
        {"capacity": 2**52},
        {"window_ms": 0},
        {"algorithm": "magic"},
        {"calendar": {"unit": "month", "time_zone": "Europe/Berlin"}},
        {"calendar": {"unit": "month", "time_zone": "Europe/Bielefeld"}, "window_ms": None},
        {"algorithm": "concurrency", "consistency": "leased"},
        {"refill_rate": 5},
        {"scope": {}},
        {"scope": {"tenant": "t", "user": "*", "route": "*", "planet": "*"}},
        {"per": ["planet"]},
        {"failure_mode": "perhaps"},
        {"extra": 1},
        {"consistency": "durable", "per": ["user"], "scope": {"tenant": "*", "user": "*", "route": "*"}},
    ],
)
def test_a_bad_policy_is_refused(envoy: Envoy, changes: dict[str, Any]) -> None:
    answer = envoy.publish(**changes)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_command"), answer.text
    assert envoy.operator.http.get("/v1/policies").json()["data"] == []


def test_a_tenants_token_rules_over_its_own_keys_alone(envoy: Envoy) -> None:
    token = envoy.public.token(envoy.tenant, SCOPES, kind="tenant")
    ours, every = {"tenant": envoy.tenant, "user": "*", "route": "*"}, {"tenant": "*", "user": "*", "route": "*"}
    of_others = ours | {"tenant": f"{envoy.tenant}x"}
    with httpx.Client(base_url=envoy.public.base_url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as http:
        envoy.operator.http, operators = http, envoy.operator.http
        try:
            for scope in (of_others, every):
                answer = envoy.publish(scope=scope)
                assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
            assert envoy.publish(scope=ours).status_code == 201
            assert http.get(f"/v1/usage/{quote(f'{envoy.tenant}x:u:/r', safe='')}").status_code == 403
            assert http.get(f"/v1/usage/{quote(f'{envoy.tenant}:u:/r', safe='')}").status_code != 403
        finally:
            envoy.operator.http = operators


def test_a_publication_is_a_command(envoy: Envoy, merchant: Merchant) -> None:
    """Repeated by its key, compared by its version, with its history, and nobody else's."""
    first, again = (envoy.publish(key="once" + envoy.tenant) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["result"] == again.json()["result"]
    id_ = first.json()["result"]["policy_id"]
    assert envoy.publish(key="once" + envoy.tenant, capacity=11).status_code in (409, 422)
    assert envoy.publish(policy_id=id_, expected_version=1, capacity=12).json()["result"]["version"] == 2
    stale = envoy.publish(policy_id=id_, expected_version=1, capacity=13)
    assert (stale.status_code, stale.json()["code"]) == (409, "version_conflict")
    blind = envoy.publish(policy_id=id_, capacity=13)
    assert (blind.status_code, blind.json()["errors"][0]["field"]) == (422, "expected_version")
    shown = envoy.operator.http.get(f"/v1/policies/{id_}").json()
    assert (shown["version"], shown["capacity"]) == (2, 12)
    assert [(v["version"], v["capacity"]) for v in shown["versions"]] == [(2, 12), (1, 10)]
    assert [p["policy_id"] for p in envoy.operator.http.get("/v1/policies").json()["data"]] == [id_]
    assert envoy.publish(policy_id="pl_" + "0" * 26).status_code in (404, 422)

    other = envoy.public.merchant(scopes=SCOPES)
    assert other.http.get(f"/v1/policies/{id_}").status_code == 404
    theirs = {"policy_id": id_} | {k: shown[k] for k in ("scope", "algorithm", "capacity", "window_ms")}
    stolen = other.http.post("/v1/policies", json={"idempotency_key": uuid.uuid4().hex, "payload": theirs})
    assert stolen.status_code == 404, stolen.text
    other.http.close()
    assert merchant.http.get(f"/v1/policies/{id_}").status_code == 403  # without the scope


def test_a_withdrawn_policy_decides_nothing_any_more(envoy: Envoy) -> None:
    """Gateways forget it, what it said is still shown, and it does not come back; another publisher's is not there."""
    id_ = envoy.in_force(capacity=1)["policy_id"]
    assert (envoy.decided(), envoy.decided()) == (OK, OVER_LIMIT)
    path, identity = f"/v1/policies/{id_}/withdraw", {"Idempotency-Key": uuid.uuid4().hex}
    other = envoy.public.merchant(scopes=SCOPES)
    assert other.http.post(path, headers=identity).status_code == 404
    other.http.close()
    withdrawn = [envoy.operator.http.post(path, headers=identity) for _ in range(2)]
    assert [answer.status_code for answer in withdrawn] == [200, 200], withdrawn[0].text
    results = [answer.json()["result"] for answer in withdrawn]
    assert results[0] == results[1]
    assert (results[0]["version"], results[0]["withdrawn"], results[0]["capacity"]) == (2, True, 1)
    becomes(envoy.check, OK, 60, what="no policy governs the key")
    assert not any(envoy.check() == OVER_LIMIT for _ in range(3))
    shown = envoy.operator.http.get(f"/v1/policies/{id_}").json()
    assert (shown["withdrawn"], [v["version"] for v in shown["versions"]]) == (True, [2, 1])
    again = envoy.publish(policy_id=id_, expected_version=2)
    assert (again.status_code, again.json()["code"]) == (409, "state_conflict")


def test_the_snapshot_is_cached_by_its_digest(envoy: Envoy) -> None:
    envoy.in_force()
    path = "/v1/policy_snapshots/newest"
    found = envoy.operator.http.get(path)
    assert found.status_code == 200
    assert set(found.json()) == {"snapshot", "key_id", "signature"}
    unchanged = envoy.operator.http.get(path, headers={"If-None-Match": found.headers["etag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    assert httpx.get(envoy.public.base_url + path, trust_env=False).status_code == 401


def test_a_snapshot_is_for_no_token_of_one_tenant(envoy: Envoy) -> None:
    """It holds the policies of all tenants, whatever scopes the token has."""
    envoy.in_force()
    digest = envoy.operator.http.get("/v1/policy_snapshots/newest").headers["content-location"]
    for kind in ("tenant", "user"):
        token = envoy.public.token("acme", ("limits:read", "limits:write"), kind=kind)
        for path in ("/v1/policy_snapshots/newest", digest):
            answer = httpx.get(
                envoy.public.base_url + path, headers={"Authorization": f"Bearer {token}"}, trust_env=False
            )
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), path


def test_a_key_has_one_bucket_under_all_its_names(envoy: Envoy) -> None:
    envoy.in_force(capacity=3)
    names = ["/a b", "/a%20b", "//a%20b/", "/x/../a b", "/a%2520b", "/a b?q=1"]
    assert sum(envoy.decided(route=name) == OK for name in names) == 3


def test_lists_and_networks_are_published_like_quotas(envoy: Envoy) -> None:
    """A quota becomes a denial of one network, and then nothing that is counted; the public resource says so."""
    first = envoy.in_force()
    network = {"tenant": envoy.tenant, "user": "*", "route": "*", "network": "192.0.2.0/24"}
    no_quota = dict.fromkeys(("capacity", "window_ms"))
    denied = envoy.publish(scope=network, algorithm="deny", per=["network"], **no_quota)
    assert denied.status_code == 201, denied.text
    assert (denied.json()["result"]["scope"], denied.json()["result"]["capacity"]) == (network, None)
    here = {"tenant": envoy.tenant, "user": "u", "route": "/r", "remote_address": "::ffff:192.0.2.9"}
    becomes(lambda: envoy.ask(here, descriptor_cost=0).overall_code, OVER_LIMIT, 60)
    assert envoy.decided() == OK
    free = envoy.publish(policy_id=first["policy_id"], expected_version=1, algorithm="unlimited", **no_quota)
    assert free.status_code == 201, free.text
    becomes(lambda: envoy.check(cost=10_000), OK, 60)
    assert envoy.ask(here).overall_code == OVER_LIMIT
    usage = envoy.operator.http.get(f"/v1/usage/{quote(envoy.tenant + ':u:/r', safe='')}").json()
    assert (usage["policy_version"], usage["live"], usage["by_network"]) == (2, None, [])


def test_usage_is_live_and_streamed(envoy: Envoy) -> None:
    """And says what a policy in shadow mode would have refused."""
    shadow = envoy.publish(capacity=4, shadow=True).json()["result"]
    envoy.in_force()
    user, codes = envoy.undisturbed(14)
    assert codes == [OK] * 10 + [OVER_LIMIT] * 4
    path = "/v1/usage/" + quote(f"{envoy.tenant}:{user}:/r", safe="")

    def counted() -> dict[str, Any]:
        answer = envoy.operator.http.get(path)
        assert answer.status_code == 200, answer.text
        view: dict[str, Any] = answer.json()
        assert (view["stream"]["allowed"], view["stream"]["denied"]) == (10, 4)
        assert view["in_shadow"][0]["refused"] == 10  # it comes in messages of its own
        assert None not in (view["live"], view["in_shadow"][0]["live"]), "the store was late"
        return view

    view = eventually(counted, 60)
    assert (view["live"]["used"], view["live"]["remaining"]) == (10, 0)
    (would,) = view["in_shadow"]
    assert (would["policy_id"], would["live"]["used"]) == (shadow["policy_id"], 4)
    assert would["as_of"] == view["stream"]["as_of"]
    assert envoy.operator.http.get("/v1/usage/nokey").status_code == 422
    assert envoy.operator.http.get("/v1/usage/" + quote("nobody:u:/r", safe="")).status_code == 404


def test_what_is_no_key_is_said_and_consumes_nothing(envoy: Envoy) -> None:
    envoy.in_force()
    assert envoy.ask({}).overall_code == OK
    assert envoy.ask({"user": "u", "route": "/r"}).overall_code == OK  # without a tenant there is no key
    hostile = [("u", "x" * (limits.LIMIT_KEY_PART_LENGTH_MAX + 1)), ("u\x01", "/r"), ("%ff", "/r"), ("", "/r")]
    for user, route in hostile:
        with pytest.raises(grpc.RpcError) as refused:
            envoy.check(user, route)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    for cost in (2**31, 2**40, 2**64 - 1):
        with pytest.raises(grpc.RpcError) as refused:
            envoy.check(descriptor_cost=cost)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert envoy.check(cost=11) == OVER_LIMIT
    assert envoy.allowed(20) == 10


def test_an_identity_of_any_length_consumes_once(envoy: Envoy) -> None:
    envoy.in_force()
    for identity in ("a", "b" * 5_000):
        assert envoy.allowed(6, identity=identity) == 6
    assert envoy.allowed(20) == 8
    with pytest.raises(grpc.RpcError) as refused:
        envoy.check(identity="a", cost=2)
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_quota_is_lent_out_of_what_is_left(envoy: Envoy) -> None:
    """RateLimitQuotaService of a running gateway, on the counters that RateLimitService uses."""
    envoy.in_force()
    assert envoy.allowed(4) == 4
    report = rlqs_pb2.RateLimitQuotaUsageReports(domain="millrace")
    usage = report.bucket_quota_usages.add(num_requests_denied=100)
    usage.bucket_id.bucket.update({"tenant": envoy.tenant, "user": "u", "route": "/r"})
    reports: SimpleQueue[Any] = SimpleQueue()
    reports.put(report)
    service = rlqs_pb2_grpc.RateLimitQuotaServiceStub(envoy.channel)
    lent = 0
    for answer in service.StreamRateLimitQuotas(iter(reports.get, None), timeout=patient(60)):
        lent = answer.bucket_action[-1].quota_assignment_action.rate_limit_strategy.token_bucket.max_tokens
        if lent:  # a refusal, should the store be late, is followed by another answer
            break
    passed = envoy.allowed(20)
    reports.put(None)
    assert 0 < lent <= 5
    assert lent + passed <= 6


def expect_in_clickhouse(operator: Operator, key: str, policy_id: str) -> None:
    """``top`` shows the key by its name once the decisions have arrived; ``replay`` decides them again."""

    def busy() -> tuple[Any, ...]:
        looked = operator.run("limiter", "top", "--json", "--limit", "500")
        rows = {row["name"]: row for row in json.loads(looked.stdout)["data"]} if looked.returncode == 0 else {}
        assert key in rows, looked.stderr
        return tuple(rows[key][column] for column in ("allowed", "denied", "policy_id"))

    becomes(busy, (4, 0, policy_id), 90)  # they may come in several blocks
    again = json.loads(operator.run("limiter", "replay", "--without", policy_id, "--minutes", "5", "--json").stdout)
    assert again["still_allowed"] >= 4
    lost = operator.run("limiter", "replay", "--without", "pl_gone")
    assert (lost.returncode, "not in force" in lost.stderr) == (1, True)


def shown(operator: Operator, *words: str) -> str:
    """What ``key`` says, when the store is not late."""

    def told() -> str:
        ran = operator.run("limiter", "key", *words)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    return eventually(told, 60)


def test_an_operator_sees_policies_and_counters(envoy: Envoy) -> None:
    found = envoy.in_force()
    user, codes = envoy.undisturbed(4)
    name = f"{envoy.tenant}:{user}:/r"
    assert codes == [OK] * 4
    operator = Operator.of(envoy.public.settings)
    listed = json.loads(operator.run("limiter", "policies", "--json").stdout)["data"]
    assert found["policy_id"] in {policy["policy_id"] for policy in listed}
    key = json.loads(shown(operator, f"{name}/", "--json"))
    assert key["limit_key"] == name
    assert [(c["policy_id"], c["used"], c["remaining"]) for c in key["counters"]] == [(found["policy_id"], 4, 6)]
    assert found["policy_id"] in shown(operator, name)
    expect_in_clickhouse(operator, name, found["policy_id"])
    wrong = operator.run("limiter", "key", "no key")
    assert wrong.returncode == 1
    assert "key must be tenant:user:route" in " ".join(wrong.stderr.split())
    assert "Traceback" not in wrong.stderr


def test_durable_usage_is_shown_and_checked(envoy: Envoy) -> None:
    """Ten identities are charged in Postgres; one whose answer was late finds it by asking again."""
    found = envoy.publish(consistency="durable").json()["result"]
    becomes(lambda: envoy.remaining("probe"), 10, 60)
    for n in range(10):
        becomes(lambda n=n: envoy.check(identity=f"i{n}"), OK, 60)  # type: ignore[misc]  # bound at once
    assert envoy.check(identity="one more") == OVER_LIMIT
    view = envoy.operator.http.get("/v1/usage/" + quote(f"{envoy.tenant}:u:/r", safe="")).json()
    assert (view["policy_id"], view["live"]["used"], view["live"]["remaining"]) == (found["policy_id"], 10, 0)
    operator = Operator.of(envoy.public.settings)
    key = json.loads(shown(operator, f"{envoy.tenant}:u:/r", "--json"))
    assert [(c["policy_id"], c["consistency"], c["used"]) for c in key["counters"]] == [
        (found["policy_id"], "durable", 10)
    ]
    assert key["as_of"]
    checked = operator.run("check", "--only", "durable_quotas", "--json")
    assert (checked.returncode, json.loads(checked.stdout)["gaps"]) == (0, 0), checked.stderr


def test_publications_and_reads_are_in_the_audit_log(envoy: Envoy) -> None:
    published = envoy.publish().json()["result"]
    id_ = published["policy_id"]
    assert envoy.publish(policy_id=id_, expected_version=7).status_code == 409
    assert envoy.publish(capacity=0).status_code == 422
    assert envoy.operator.http.get(f"/v1/policies/{id_}").status_code == 200
    usage = f"/v1/usage/{quote(envoy.tenant + ':u:/r', safe='')}"
    becomes(lambda: envoy.operator.http.get(usage).status_code, 200, what="a policy that governs the key")
    reader = envoy.public.merchant(scopes=("limits:read",))
    assert reader.http.post("/v1/policies", json={}).status_code == 403
    reader.http.close()

    operator = Operator.of(envoy.public.settings)

    def done_by(caller: Merchant) -> list[dict[str, Any]]:
        listed = operator.run("audit", "list", "--json", "--actor", f"merchant:{caller.name}")
        found: list[dict[str, Any]] = json.loads(listed.stdout)["data"]
        assert {row["details"]["merchant"] for row in found} == {caller.name}
        return found

    mine = done_by(envoy.operator) + done_by(reader)
    mine = [row for row in mine if (row["action"], row["outcome"]) != ("usage.read", "refused")]
    assert [(row["action"], row["object"], row["outcome"]) for row in mine] == [
        ("policy.publish", "policies", "begun"),
        ("policy.publish", id_, "done"),
        ("policy.publish", "policies", "begun"),
        ("policy.publish", "policies", "refused"),
        ("policy.publish", "policies", "begun"),
        ("policy.publish", "policies", "refused"),
        ("policy.read", id_, "done"),
        ("usage.read", f"{envoy.tenant}:u:/r", "done"),
        ("policy.publish", "policies", "refused"),
    ]
    assert mine[1]["details"]["policy"]["capacity"] == 10
    codes = [row["details"]["code"] for row in mine if row["outcome"] == "refused"]
    assert codes == ["version_conflict", "invalid_command", "forbidden"]
    assert operator.run("audit", "verify").returncode == 0


def test_the_gateway_has_metrics(envoy: Envoy) -> None:
    envoy.in_force()
    envoy.allowed(12)

    def told() -> bool:
        values = metrics(envoy)
        assert values['millrace_limiter_decisions_total{outcome="allowed"}'] >= 10
        assert values['millrace_limiter_decisions_total{outcome="denied"}'] >= 2
        assert values["millrace_limiter_store_calls_total"] >= 12
        assert values["millrace_limiter_gap_total"] == 0
        for name in ("overshoot", "degraded_seconds", "lease_decisions"):  # a slow machine may degrade
            assert values[f"millrace_limiter_{name}_total"] >= 0
        return values["millrace_limiter_revision"] > 0

    eventually(told, 60)


def test_our_own_api_keeps_a_merchant_to_its_quota(envoy: Envoy, merchant: Merchant, stranger: Merchant) -> None:
    """Five requests a day over all ingress processes; others, probes and the way out of the policy stay open."""
    mine = {"tenant": merchant.name, "user": "*", "route": "*"}
    terms = {"scope": mine, "per": ["tenant"], "capacity": 5, "window_ms": 86_400_000}
    policy_id = envoy.publish(**terms).json()["result"]["policy_id"]
    path = "/v1/payment_intents/pi_nobodys"
    charged: list[httpx.Response] = []
    unknown = 0  # answers without the store, which was late and may have charged

    def used_up() -> bool:
        """Whether every process refuses; one that does not know the policy yet charges nothing."""
        nonlocal unknown
        answers = [merchant.fresh(path) for _ in range(8)]
        charged.extend(a for a in answers if a.status_code == 404 and "ratelimit" in a.headers)
        unknown += sum(answer.status_code == 503 for answer in answers)
        return all(answer.status_code == 429 for answer in answers)

    eventually(used_up, 60)
    assert len(charged) <= 5 <= len(charged) + unknown
    assert {a.headers["ratelimit-policy"] for a in charged} == {f'"{policy_id}";q=5;w=86400'}
    refused = by_store(merchant.create)
    assert (refused.status_code, refused.json()["code"]) == (429, "quota_exceeded")
    assert refused.json()["violated-policies"] == [policy_id]
    assert 1 <= int(refused.headers["retry-after"]) <= 86_400
    assert merchant.http.get("/healthz").status_code == 200
    assert stranger.create().status_code == 201

    locked_out = envoy.public.merchant(merchant.name, scopes=SCOPES)
    assert locked_out.http.get("/v1/policies").status_code == 200
    locked_out.http.close()
    assert envoy.publish(policy_id=policy_id, expected_version=1, **terms | {"capacity": 500}).status_code == 201
    eventually(lambda: all(merchant.fresh(path).status_code == 404 for _ in range(8)), 60)
