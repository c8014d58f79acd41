"""Over whose keys a token rules, by whom it names and where the platform runs."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ingress.http.parts import Parts
from ingress.identity.caller import Caller
from ingress.limiter.admission import Reach
from ingress.limiter.config import LimiterConfig
from ingress.limiter.quota_policies import QuotaPolicies
from ingress.limiter.service import LimiterHttp
from limiter.policy.shard_map import ONE_SHARD


def caller(principal: str, *scopes: str) -> Caller:
    return Caller(principal=principal, subject="s", scopes=frozenset(scopes), expires_at=0)


def may(caller: Caller, tenant: object, *, bound: bool) -> bool:
    request: Any = SimpleNamespace(payload={"scope": {"tenant": tenant}})
    coroutine = Reach(merchants_are_bound=bound).refusals(caller, [request])
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value == [None]
    raise AssertionError


@pytest.mark.parametrize("bound", [False, True])
def test_a_tenant_rules_over_itself(*, bound: bool) -> None:
    for scopes in ((), ("operator",)):
        one = caller("tenant:acme", *scopes)
        assert may(one, "acme", bound=bound)
        assert not any(may(one, tenant, bound=bound) for tenant in ("*", "acm", "tenant", "", "acme:x"))


@pytest.mark.parametrize("bound", [False, True])
def test_who_reads_the_policies_of_all_tenants(*, bound: bool) -> None:
    """In production a merchant is a tenant: what others are allowed is not its business."""
    reach = Reach(merchants_are_bound=bound)

    def reads(one: Caller) -> bool:
        return reach.why_no_snapshot(one) is None

    assert reads(caller("m_1", "limits:read")) is not bound
    assert not any(reads(caller(name, "limits:read")) for name in ("tenant:acme", "user:u_1"))
    assert [reads(caller("staff:ann", "limits:read", role)) for role in ("operator", "operator:platform")] == [True] * 2
    assert not reads(caller("staff:ann", "limits:read", "operator:support"))
    ours = Caller(principal="gateway", subject="s", scopes=frozenset(("limits:read",)), expires_at=0, is_service=True)
    assert reads(ours)


def test_a_merchant_rules_over_all_in_development_and_over_itself_in_production() -> None:
    one, operator = caller("m_1"), caller("staff:m_1", "operator:platform")
    assert all(may(one, tenant, bound=False) for tenant in ("m_1", "m_2", "*"))
    assert [may(one, tenant, bound=True) for tenant in ("m_1", "m_2", "*")] == [True, False, False]
    assert all(may(operator, tenant, bound=True) for tenant in ("m_1", "m_2", "*"))
    support = caller("staff:m_1", "operator:support")
    assert not any(may(support, tenant, bound=bound) for tenant in ("m_2", "*") for bound in (False, True))


def test_the_view_of_usage_tells_no_shard_our_password_in_the_clear() -> None:
    async def test() -> None:
        parts = Parts()
        parts.add(LimiterConfig(merchants_are_bound=True, encrypted=True))
        config = SimpleNamespace(redis_url="redis://ann:secret@127.0.0.1:1/0")
        platform: Any = SimpleNamespace(parts=parts, config=config, store=None, cursors=None)
        service = LimiterHttp(platform)
        counters: Any = parts.get(QuotaPolicies)._counters
        counters.use(ONE_SHARD.with_shard("b", "redis://10.0.0.5:6379/0", ()))
        assert [store.url for store in counters.stores.values()] == [config.redis_url, "redis://10.0.0.5:6379/0"]
        await service.close()

    asyncio.run(test())
