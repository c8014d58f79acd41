"""Where tenants are, how a map changes, and what a process does with a map that is newer, older or not for it."""

from __future__ import annotations

import asyncio
import random

import pytest

from limiter.decide.bucket_migration import lost_at_most
from limiter.policy.level import Level
from limiter.policy.policies import PolicySet
from limiter.policy.shard_map import (
    ONE_SHARD,
    Layout,
    Shard,
    ShardMap,
    ShardsRefused,
    decoded,
    encoded,
    plain_address,
    url_of,
)
from limiter.spending.buckets import Bucket
from limiter.store.shard_changes import keeps_all
from limiter.store.shard_health import judged
from limiter.store.shard_server import Seen
from limiter.store.sharded_store import ShardedStore
from limiter.store.store import StoreNotAsked
from schemas.limiter import limits
from schemas.limiter.limit_policy import spans_tenants
from schemas.limiter.limit_terms import Terms
from tests.seeds import seeds
from tests.worlds.limiter.counter_server import policy

TENANTS = [f"t{n}" for n in range(2_000)]


def with_shards(*names: str) -> ShardMap:
    found = ONE_SHARD
    for port, name in enumerate(names):
        found = found.with_shard(name, f"redis://127.0.0.1:{7_000 + port}/0", found.layout.shards)
    return found


def test_a_further_shard_takes_its_share_and_moves_nobody_else() -> None:
    three, four = with_shards("b", "c"), with_shards("b", "c", "d")
    was, now = ({t: m.layout.home_of(t) for t in TENANTS} for m in (three, four))
    moved = {t for t in TENANTS if was[t] != now[t]}
    assert {now[t] for t in moved} == {"d"}
    assert 0.2 < len(moved) / len(TENANTS) < 0.3
    assert all(0.22 < share < 0.28 for share in four.shares().values())


def test_a_pin_wins_over_the_hash_until_it_is_taken_away() -> None:
    found = with_shards("b")
    tenant = next(t for t in TENANTS if found.layout.home_of(t) == "main")
    assert found.losing_by_pin(tenant, "b") == ("main",)
    pinned = found.with_pin(tenant, "b", ("main",))
    assert (pinned.layout.home_of(tenant), pinned.former_of(tenant)) == ("b", ("main",))
    assert pinned.losing_by_pin(tenant, "b") == ()
    assert pinned.losing_by_pin(tenant, None) == ("b",)
    back = pinned.with_pin(tenant, None, ("b",))
    assert (back.layout.home_of(tenant), back.former_of(tenant)) == ("main", ("b",))
    assert all(pinned.layout.home_of(t) == found.layout.home_of(t) for t in TENANTS if t != tenant)


@pytest.mark.parametrize("seed", seeds(3))
def test_any_changes_keep_epochs_rising_and_remember_where_tenants_were(seed: int) -> None:
    random_ = random.Random(seed)
    found = with_shards("b", "c")
    for n in range(limits.LIMIT_SHARD_LAYOUTS_MAX):
        name, tenant = random_.choice(found.layout.shards), random_.choice(TENANTS[:5])
        losing = found.losing_by_pin(tenant, name)
        taken = found.with_reserved({of: found.shard(of).reserved + 1 for of in (*losing, name)})
        assert {s.state for s in taken.shards if s.name in (*losing, name)} == {"changing"}
        changed = taken.with_pin(tenant, name, losing) if n % 2 else taken.with_primary(name, f"redis://h:{n}/0", n)
        fenced = set(losing) if n % 2 else {name}
        assert {s.name for s in changed.shards if s.epoch > found.shard(s.name).epoch} == fenced
        assert changed.version == found.version + 2
        for of in TENANTS[:50]:
            was, now = found.layout.home_of(of), changed.layout.home_of(of)
            assert was == now or was in changed.former_of(of)
        assert decoded(encoded(changed)) == changed
        found = changed


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("redis://10.0.0.5", "redis://10.0.0.5:6379/0"),
        ("rediss://cache:7000/3", "rediss://cache:7000/3"),
        ("redis://[::1]:7000/", "redis://[::1]:7000/0"),
    ],
)
def test_an_address_has_one_form(text: str, address: str) -> None:
    assert plain_address(text) == address
    own = "rediss://ann:p%40ss@store:1/2"
    scheme, _, place = address.partition("://")
    assert url_of(address, own) == f"{scheme}://ann:p%40ss@{place}"
    assert url_of(None, own) == own


def test_in_production_no_password_is_told_where_it_can_be_read_on_the_way() -> None:
    """A shard is refused there; one that is in the map of before is asked without the password, and is away."""
    own = "redis://ann:p%40ss@127.0.0.1:1/2"
    for safe in ("rediss://cache:7000/3", "redis://127.0.0.1:7000/0", "redis://[::1]:7000/0", "redis://localhost:1/0"):
        assert plain_address(safe, encrypted=True) == safe
        assert "p%40ss" in url_of(safe, own, encrypted=True)
    for plain in ("redis://10.0.0.5:6379/0", "redis://cache:7000/3"):
        with pytest.raises(ShardsRefused, match="in the clear"):
            plain_address(plain, encrypted=True)
        assert url_of(plain, own, encrypted=True) == plain
    assert url_of(None, own, encrypted=True) == own


def test_a_published_map_leads_no_password_over_a_network_in_the_clear() -> None:
    async def test() -> None:
        store = ShardedStore("redis://ann:secret@127.0.0.1:1/0", encrypted=True)
        store.use(ONE_SHARD.with_shard("b", "redis://10.0.0.5:6379/0", ()))
        assert "secret" in store.stores["main"].url
        assert store.stores["b"].url == "redis://10.0.0.5:6379/0"

    asyncio.run(test())


@pytest.mark.parametrize(
    "text", ["", "10.0.0.5:6379", "http://h:1/0", "redis://h:x/0", "redis:///0", "redis://h:1/0?db=1", "redis://h:1/a"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ShardsRefused, match="no address"):
        plain_address(text)


def test_an_address_with_a_secret_is_refused_without_saying_it() -> None:
    with pytest.raises(ShardsRefused) as refused:
        plain_address("redis://ann:hunter2@h:1/0")
    assert "hunter2" not in refused.value.public
    assert "MILLRACE_REDIS_URL" in refused.value.public


@pytest.mark.parametrize(
    ("name", "address", "why"),
    [
        ("Main", "redis://h:1/0", "begins with"),
        ("main", "redis://h:1/0", "already"),
        ("c", "redis://127.0.0.1:7000/0", "is a shard"),
    ],
)
def test_a_shard_that_cannot_be_added(name: str, address: str, why: str) -> None:
    with pytest.raises(ShardsRefused, match=why):
        with_shards("b").check_new(name, address)


def test_a_shard_or_pin_that_is_not_there_is_named() -> None:
    with pytest.raises(ShardsRefused, match="there are: main, b"):
        with_shards("b").losing_by_pin("t", "c")
    with pytest.raises(ShardsRefused, match="'t' is not pinned"):
        with_shards("b").losing_by_pin("t", None)


def bucket(**changes: object) -> Bucket:
    (level,) = PolicySet([policy(**changes)], 1).all_levels()
    assert isinstance(level, Level)
    return Bucket(level, level.counted_by({"tenant": "t1", "user": "u", "route": "/r"}))


@pytest.mark.parametrize(
    ("per", "scope", "tenant"),
    [
        (["tenant", "user"], {}, "t1"),
        (["tenant"], {"tenant": "t1"}, "t1"),
        (["user"], {"tenant": "t1"}, "t1"),
        (["user"], {}, ""),
        (["route"], {"user": "u"}, ""),
    ],
)
def test_a_counter_is_of_one_tenant_or_of_none(per: list[str], scope: dict[str, str], tenant: str) -> None:
    found = bucket(per=per, scope=scope)
    assert found.tenant == tenant
    assert spans_tenants(found.level.policy) == (tenant == "")


def test_the_buckets_of_a_decision_are_on_one_shard_or_nobody_is_asked() -> None:
    async def test() -> None:
        store = ShardedStore("redis://127.0.0.1:1/0")
        one, all_tenants = bucket(), bucket(per=["user"])
        assert store.store_of((all_tenants, one)) is store.store_of((one,))
        store.use(with_shards("b", "c"))
        assert store.store_of((one,)).shard.name == store.map.layout.home_of("t1")
        with pytest.raises(StoreNotAsked) as refused:
            store.store_of((one, all_tenants))
        assert "counts over tenants" in str(refused.value.context)

    asyncio.run(test())


def test_only_a_newer_map_is_used_and_only_what_changed_is_connected_to_anew() -> None:
    async def test() -> None:
        store = ShardedStore("redis://127.0.0.1:1/0")
        two = with_shards("b")
        store.use(two)
        main, b = store.stores["main"], store.stores["b"]
        store.use(ONE_SHARD)
        assert store.map is two
        promoted = two.with_reserved({"b": 2}).with_primary("b", "redis://127.0.0.1:7009/0", 5)
        store.use(promoted)
        assert store.stores["main"] is main
        assert (b.replaced, store.stores["b"].epoch, main.learning_until_ns) == (True, 2, 0)
        until_ns = store.stores["b"].learning_until_ns
        assert until_ns > 0
        store.use(promoted.with_reserved({"b": 3}).with_pin("t1", "main", ("b",)))  # fenced, and it lost nothing
        assert (store.stores["b"].epoch, store.stores["b"].learning_until_ns) == (3, until_ns)

    asyncio.run(test())


def test_what_may_be_lost_is_ten_seconds_of_the_own_rate() -> None:
    assert lost_at_most(Terms(0, 1_000, 7, 1_000, 1, 1_000, strict=False)) == 70
    assert lost_at_most(Terms(2, 100, 100, 3_600_000, 1, 1_000, strict=False)) == 1
    assert lost_at_most(Terms(2, 100, 100, 1_000, 1, 1_000, strict=False)) == 100


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (Seen(True, 2, "noeviction", 1, 0), "ok"),
        (Seen(True, 2, "noeviction", 0, 0), "ok, without a replica"),
        (Seen(True, 2, "allkeys-lru", 1, 0), "maxmemory-policy allkeys-lru"),
        (Seen(False, 2, "noeviction", 0, 3), "is a replica"),
        (Seen(True, 3, "noeviction", 1, 0), "the store is at epoch 3, the map says 2"),
    ],
)
def test_how_a_shard_is_in_words(seen: Seen, said: str) -> None:
    found = judged(Shard(name="a", address=None, epoch=2, reserved=2), seen)
    assert found == said or (said in found and not found.startswith("ok"))


def test_a_change_that_did_not_end_says_so() -> None:
    changing = Shard(name="a", address=None, epoch=2, reserved=3)
    assert judged(changing, Seen(True, 2, "noeviction", 1, 0)) == "a change began and did not end: run it again"


@pytest.mark.parametrize(
    ("map_epoch", "epoch", "is_primary", "may"),
    [
        (2, 2, False, True),
        (2, 3, False, True),  # a promotion began before
        (2, 0, False, False),  # it followed a store that lost everything
        (2, 1, True, False),  # from an older copy
        (2, 2, True, True),
        (0, 0, False, True),
        (0, 0, True, False),  # nobody knows
    ],
)
def test_what_lost_its_epoch_lost_its_counters(map_epoch: int, epoch: int, *, is_primary: bool, may: bool) -> None:
    shard = Shard(name="a", address=None, epoch=map_epoch, reserved=map_epoch)
    assert keeps_all(shard, Seen(is_primary, epoch, "noeviction", 1, 0)) is may


def test_a_layout_of_one_shard_holds_everybody() -> None:
    assert {Layout(("a",), {}).home_of(t) for t in TENANTS} == {"a"}
