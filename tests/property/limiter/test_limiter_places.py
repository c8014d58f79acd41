"""Of two policies of equal scope that count by the same parts there is one, whatever arrives at once; and durable limits."""

from __future__ import annotations

import random
from importlib import resources
from typing import Any

import msgspec
import pytest

from dataflows.owner.batch import PartitionBatch
from dataflows.owner.transaction.commit import Share
from dataflows.owner.transaction.parking import commit_or_park, committed_together
from limiter.policy.policies import PolicySet
from limiter.store import durable_counters
from schemas import topics
from schemas.limiter import topics as limiter_topics
from schemas.limiter.limit_policy import further_limits_of, place_of
from schemas.limiter.operations import OPERATIONS
from schemas.records import Command
from tests.property.limiter.test_durable_quotas import Owner, owner, put
from tests.worlds.limiter.quota_world import LONG_WINDOW_MS, consume, durable, refund
from tests.worlds.payments import payment_cases as cases

pytestmark = pytest.mark.servers
__all__ = ["owner"]
#: of three bytes each, in no order that compresses
LONG_ROUTE = "/" + "".join(random.Random(1).sample([chr(c) for c in range(0x4E00, 0x9FA5)], 1_000))


def _statements(migration: str, begin: str, end: str = "") -> bytes:
    """A part of a migration, as it runs over what is there."""
    text = resources.files("sinks.postgres").joinpath("migrations", migration).read_text("utf-8")
    return text[text.index(begin) : text.index(end) if end else None].encode()


def publication(key: str, policy_id: str | None = None, expected: int | None = None, **changes: Any) -> Command:
    scope = {"tenant": "t", "user": "*", "route": "*"} | changes.pop("scope", {})
    payload = {"scope": scope, "algorithm": "fixed_window", "capacity": 10, "window_ms": 60_000} | changes
    found, wrong = OPERATIONS["publish_policy"].normalize(payload | {"policy_id": policy_id})
    assert not wrong
    named = policy_id or f"pl_{key}"
    command = cases.command("publish_policy", found, key=key, aggregate_key=named, expected_version=expected)
    return msgspec.structs.replace(command, reply_to=0)


def withdrawal(key: str, policy_id: str) -> Command:
    command = cases.command("withdraw_policy", {}, key=key, aggregate_key=policy_id, expected_version=None)
    return msgspec.structs.replace(command, reply_to=0)


def test_a_place_is_taken_left_and_taken_again(owner: Owner) -> None:
    first, second = owner.tell(publication("a"), publication("b"))
    assert (first[0], second[2]["code"]) == ("committed", "state_conflict")
    assert (second[2]["current_state"], second[2]["policy_id"]) == ("taken", "pl_a")
    other = msgspec.structs.replace(publication("c"), scope="m_other")
    assert "policy_id" not in owner.tell(other)[0][2]  # another's policy does not exist for it
    beside = [{"per": ["tenant"]}, {"shadow": True}, {"scope": {"network": "192.0.2.0/24"}}, {"scope": {"user": "u"}}]
    assert [told[0] for told in owner.tell(*(publication(f"d{n}", **one) for n, one in enumerate(beside)))] == [
        "committed"
    ] * len(beside)
    assert owner.tell(publication("e", "pl_a", 1, capacity=20))[0][0] == "committed"  # its own next version
    assert owner.tell(publication("f", "pl_a", 2, scope={"route": "/r"}))[0][0] == "committed"
    assert owner.tell(publication("g"))[0][0] == "committed"  # where it was
    assert owner.tell(publication("h", "pl_a", 3))[0][2]["policy_id"] == "pl_g"  # no way back
    assert owner.tell(withdrawal("i", "pl_g"))[0][0] == "committed"
    assert owner.tell(publication("j", "pl_a", 3))[0][0] == "committed"


def test_of_two_at_once_in_two_partitions_one_is_published(owner: Owner) -> None:
    """A round decides each partition without the others: the constraint divides it, and the second one sees the first."""
    keys: dict[int, str] = {}
    for n in range(100):
        keys.setdefault(topics.partition_for(f"pl_k{n}", limiter_topics.PARTITIONS), f"k{n}")
    owner.append(*(publication(key) for key in [*keys.values()][:2]))
    shares = []
    for lease in owner.behind():
        batch = PartitionBatch(lease.partition, owner.log[lease.partition], lease.epoch)
        shares.append(Share(lease, batch, 0))
    assert committed_together(owner.committer, shares) == []
    told = [
        msgspec.json.decode(reply.body)
        for share in shares
        for done in commit_or_park(owner.committer, share.lease, share.batch, 0)
        for reply in done.replies
    ]
    assert [one.get("code") for one in told] == [None, "state_conflict"]
    assert owner.rows("select count(*) from dead_letter") == [(0,)]
    assert owner.rows("select count(*) from policy") == [(1,)]


def test_what_was_published_before_has_its_place(owner: Owner) -> None:
    """The migration gives every policy the place that its owner would; of equal ones the least id, which governed."""
    put(owner, *(found := [durable("pl_b"), durable("pl_a"), durable("pl_c", per=["route", "tenant"], shadow=True)]))
    put(owner, msgspec.structs.replace(durable("pl_0", scope={"tenant": "gone"}), withdrawn=True))
    owner.superuser.execute("update policy set scope = scope - 'network' where policy_id = 'pl_a'")  # as it once was
    owner.superuser.execute(_statements("0103_policy_places.sql", "with places", "alter table policy add cons"))
    assert owner.rows("select policy_id, place from policy where place is not null order by 1") == [
        ("pl_a", place_of(found[1])),
        ("pl_c", place_of(found[2])),
    ]


def test_an_owner_charges_every_limit_of_a_policy_or_none(owner: Owner) -> None:
    further = {"algorithm": "fixed_window", "capacity": 10, "window_ms": LONG_WINDOW_MS // 2}
    published = durable(capacity=100, further_limits=[further])
    put(owner, published)
    every = (published, *further_limits_of(published))
    fits, over, again = owner.tell(consume("a", 8, *every), consume("b", 3, *every), consume("a", 8, *every))
    assert [(left["policy_id"], left["remaining"]) for left in fits[2]["result"]["levels"]] == [
        ("pl_a", 92),
        ("pl_a/2", 2),
    ]
    assert (over[2]["code"], again[1]) == ("quota_exceeded", True)
    assert owner.used() == {("pl_a", "t\x1fu\x1f/r"): 8, ("pl_a/2", "t\x1fu\x1f/r"): 8}
    gone = durable(version=2, capacity=100)
    put(owner, gone)
    assert owner.tell(consume("c", 3, *every))[0][2]["code"] == "policy_changed"  # that gateway knows two
    assert owner.tell(consume("c", 3, gone), refund("a"))[1][0] == "committed"
    assert owner.used() == {("pl_a", "t\x1fu\x1f/r"): 3, ("pl_a/2", "t\x1fu\x1f/r"): 0}
    assert owner.gaps() == []


def test_a_scope_of_any_length_is_published(owner: Owner) -> None:
    """No index holds a scope."""
    there = {"route": LONG_ROUTE}
    told = owner.tell(publication("a", scope=there), publication("b"), publication("c", scope=there))
    assert [(one[0], one[2].get("policy_id")) for one in told] == [("committed", None)] * 2 + [("refused", "pl_a")]


def test_what_is_too_long_for_an_index_parks_one_command(owner: Owner) -> None:
    """Postgres calls it an operational error; the partition goes on all the same."""
    owner.superuser.execute("create index on policy (scope)")
    keys = [f"k{n}" for n in range(100) if topics.partition_for(f"pl_k{n}", limiter_topics.PARTITIONS) == 0][:3]
    owner.append(
        publication(keys[0]), publication(keys[1], scope={"route": LONG_ROUTE}), publication(keys[2], per=["user"])
    )
    (lease,) = owner.behind()
    batch = PartitionBatch(lease.partition, owner.log[lease.partition], lease.epoch)
    assert committed_together(owner.committer, [Share(lease, batch, 0)]) == []
    assert sum(done.parked for done in commit_or_park(owner.committer, lease, batch, 0)) == 1
    assert owner.rows("select aggregate_key from parked_aggregate") == [(f"pl_{keys[1]}",)]
    assert sorted(owner.rows("select policy_id from policy")) == sorted([(f"pl_{keys[0]}",), (f"pl_{keys[2]}",)])


def test_a_durable_key_of_any_length_is_counted_and_given_back(owner: Owner) -> None:
    put(owner, policy := durable(capacity=10))
    told = owner.tell(*(consume(key, 6, policy, user=LONG_ROUTE[1:]) for key in ("a", "b")), consume("c", 1, policy))
    assert [one[0] for one in told] == ["committed", "refused", "committed"]
    assert sorted(owner.used().values()) == [1, 6]
    (level,) = PolicySet([policy], 1).all_levels()
    asked = durable_counters.place(level, {"tenant": "t", "user": LONG_ROUTE[1:], "route": "/r"})
    row = owner.committer.connection.execute(durable_counters.SQL["quota_counter_by_key"], asked).fetchone()
    assert durable_counters.counted(level, row).used == 6
    assert owner.tell(refund("a"), consume("d", 10, policy, user=LONG_ROUTE[1:]))[1][0] == "committed"
    assert owner.gaps() == []


def test_what_was_counted_by_a_long_key_before_goes_on(owner: Owner) -> None:
    """The migration finds what was kept whole: compressed, it had fitted."""
    put(owner, policy := durable(capacity=10))
    long = "u" * 1_024
    owner.tell(consume("a", 6, policy, user=long))
    whole = f"t\x1f{long}\x1f/r"
    owner.superuser.execute("update quota_counter set counted_by = %s", (whole,))
    owner.superuser.execute("update quota_charge set counted_by = %s", ([whole],))
    owner.superuser.execute(_statements("0156_long_quota_keys.sql", "update quota_counter"))
    assert owner.tell(consume("b", 6, policy, user=long))[0][2]["code"] == "quota_exceeded"
    assert owner.tell(refund("a"), consume("b", 6, policy, user=long))[1][0] == "committed"
    assert owner.gaps() == []
