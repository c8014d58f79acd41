"""Durable quotas on the owner's own commit path and real Postgres: duplicates, conflicts, refunds, reorder, crashes."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgspec
import psycopg
import pytest

from dataflows.limiter.service import limiter_service
from dataflows.owner import fail_points
from dataflows.owner.batch import PartitionBatch, Record
from dataflows.owner.partition.leases import Lease, Leases
from dataflows.owner.transaction.commit import Committer
from dataflows.owner.transaction.parking import commit_or_park
from limiter.store.durable_counters import prune
from reconciliation.check.invariant import invariants
from reconciliation.contract.snapshot import snapshot
from reconciliation.limiter.durable_quotas import quota_violations
from schemas import topics
from schemas.avro import codec
from schemas.calendar_windows import Calendar, window_at
from schemas.errors import OwnershipLost
from schemas.limiter import limits
from schemas.limiter import topics as limiter_topics
from sinks.postgres.owner_connection import connect
from tests.seeds import seeds
from tests.worlds.limiter.quota_world import consume, durable, put_policies, refund

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from schemas.records import Command

pytestmark = pytest.mark.servers
DAY = 86_400_000_000  # microseconds


class Crash(OwnershipLost):
    """The process ends here."""


class Owner:
    """Owns every partition of the limiter's commands; what it committed and did not tell is lost with it."""

    def __init__(self, owner_dsn: str, superuser_dsn: str) -> None:
        self.dsn = owner_dsn
        self.superuser_dsn = superuser_dsn
        self.superuser = psycopg.connect(superuser_dsn, autocommit=True)
        self.log: dict[int, list[Record]] = defaultdict(list)
        self.replies: dict[int, tuple[str, bool, dict[str, Any]]] = {}
        self.now = 0  # 0: the clock of this machine
        self.start()

    def start(self) -> None:
        self.committer = Committer(connect(self.dsn, "owner"), Leases(limiter_service(), "owner"))
        held = [self.committer.leases.acquire(self.committer.connection, p) for p in range(limiter_topics.PARTITIONS)]
        self.leases: list[Lease] = [lease for lease in held if lease is not None]

    def append(self, *commands: Command) -> None:
        """They lie in the topic, with a number that their reply bears."""
        for command in commands:
            log = self.log[topics.partition_for(command.aggregate_key, limiter_topics.PARTITIONS)]
            command.reply_id = 1_000 * (command.reply_id or 1 + len(log))
            data = codec.encode_command(command)
            log.append(Record(len(log), data, codec.decode_command(data)))

    def behind(self) -> list[Lease]:
        return [lease for lease in self.leases if lease.next_offset < len(self.log[lease.partition])]

    def commit(self, lease: Lease, size: int) -> None:
        records = self.log[lease.partition][lease.next_offset : lease.next_offset + size]
        for done in commit_or_park(self.committer, lease, PartitionBatch(lease.partition, records, lease.epoch), 0):
            assert done.parked == 0
            for reply in done.replies:
                self.replies[reply.reply_id] = (reply.outcome, reply.replayed, msgspec.json.decode(reply.body))

    def tell(self, *commands: Command) -> list[tuple[str, bool, dict[str, Any]]]:
        """The answers to these, each in a batch of its own."""
        found = []
        for command in commands:
            self.append(command)
            for lease in self.behind():
                self.commit(lease, 1)
            found.append(self.replies[command.reply_id])
        return found

    def rows(self, query: Any, *parameters: object) -> list[tuple[Any, ...]]:
        return self.superuser.execute(query, parameters).fetchall()

    def used(self) -> dict[tuple[str, str], int]:
        return {
            (policy_id, by): used
            for policy_id, by, used in self.rows("select policy_id, counted_by, used from quota_counter")
        }

    def gaps(self) -> list[dict[str, Any]]:
        """What ``millrace check`` would find."""
        (invariant,) = (i for i in invariants() if i.id == "durable_quotas")
        with snapshot(self.superuser_dsn, events_topic="", commands_topic="", grace_s=0) as view:
            return list(quota_violations(view, invariant.sql))

    def close(self) -> None:
        self.committer.connection.close()
        self.superuser.close()


@pytest.fixture
def owner(new_database: Callable[..., tuple[str, str]]) -> Iterator[Owner]:
    found = Owner(*new_database("millrace_limiter_owner"))
    yield found
    found.close()


def put(owner: Owner, *policies: Any) -> None:
    put_policies(owner.superuser_dsn, *policies)


@pytest.mark.parametrize("seed", seeds(3))
def test_any_batches_and_crashes_charge_every_identity_once(
    owner: Owner, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """The log decides: what the first of every identity was answered, all its repetitions are answered."""
    random_ = random.Random(seed)
    wide, narrow = durable("pl_wide", per=["tenant"], capacity=60), durable("pl_narrow", capacity=25)
    put(owner, wide, narrow)
    commands: list[Command] = []
    for n in range(120):
        tenant, key = random_.choice(["t1", "t2"]), f"k{random_.randrange(50)}"
        if random_.random() < 0.2:
            commands.append(refund(key, tenant=tenant, reply_id=n + 1))
        else:
            cost = random_.choice([1, 2, 3]) if random_.random() < 0.1 else 2
            user = "u" + key[-1]
            commands.append(consume(key, cost, wide, narrow, tenant=tenant, user=user, reply_id=n + 1))
    owner.append(*commands)
    crash_in, unheard = 5, 0

    def reach(_point: str) -> None:
        nonlocal crash_in
        crash_in -= 1
        if crash_in == 0:
            crash_in = random_.randrange(5, 60)
            raise Crash

    monkeypatch.setattr(fail_points, "reach", reach)
    while behind := owner.behind():
        lease = random_.choice(behind)
        begin, heard = lease.next_offset, len(owner.replies)
        try:
            owner.commit(lease, random_.choice([1, 2, 7, 40]))
        except Crash:
            owner.committer.connection.close()
            owner.start()
            (end,) = (each.next_offset for each in owner.leases if each.partition == lease.partition)
            unheard += end - begin - (len(owner.replies) - heard)  # committed, and nobody was told any more
    monkeypatch.undo()
    expected, used = modelled(commands)
    assert owner.used() == used
    assert owner.gaps() == []
    assert {n: owner.replies[n][0] for n in owner.replies} == {n: expected[n] for n in owner.replies}
    assert len(owner.replies) == len(commands) - unheard


def modelled(commands: list[Command]) -> tuple[dict[int, str], dict[tuple[str, str], int]]:
    """Outcomes by reply and the counters that must be there, from the order of the commands alone."""
    answers: dict[tuple[str, str], tuple[object, str]] = {}
    taken: dict[tuple[str, str], tuple[int, list[tuple[str, str]]] | None] = {}
    used: dict[tuple[str, str], int] = {}
    expected = {}
    for command in commands:
        payload: dict[str, Any] = command.payload
        name = (command.scope, command.idempotency_key)
        if name in answers:
            same = answers[name][0] == command.request_hash
            expected[command.reply_id] = answers[name][1] if same else "refused"
            continue
        if command.operation == "consume_quota":
            counters = [(level["policy_id"], level["counted_by"]) for level in payload["levels"]]
            caps = [60, 25]
            allowed = all(used.get(c, 0) + payload["cost"] <= cap for c, cap in zip(counters, caps, strict=True))
            if allowed:
                taken[name] = (payload["cost"], counters)
                used |= {c: used.get(c, 0) + payload["cost"] for c in counters}
        else:
            charge = taken.get((command.scope, payload["identity"]))
            allowed = charge is not None
            if charge is not None:
                used |= {c: used[c] - charge[0] for c in charge[1]}
        expected[command.reply_id] = "committed" if allowed else "refused"
        if allowed:  # a refusal is for now: the next one may pass
            answers[name] = (command.request_hash, "committed")
    return expected, used


def test_a_refusal_is_for_now_and_a_commit_for_ever(owner: Owner) -> None:
    put(owner, policy := durable(capacity=10))
    first, refused, other_cost, again = owner.tell(
        consume("a", 7, policy), consume("b", 7, policy), consume("a", 6, policy), consume("a", 7, policy)
    )
    assert (first[0], first[2]["result"]["levels"][0]["remaining"]) == ("committed", 3)
    assert (refused[0], refused[2]["code"], refused[2]["levels"][0]["retry_us"] > 0) == (
        "refused",
        "quota_exceeded",
        True,
    )
    assert (other_cost[0], other_cost[2]["code"]) == ("refused", "key_reused")
    assert (again[:2], again[2]) == (("committed", True), first[2])
    returned, twice, late, passes = owner.tell(
        refund("a"), refund("a"), consume("a", 7, policy), consume("b", 7, policy)
    )
    assert (returned[:2], twice[:2]) == (("committed", False), ("committed", True))
    assert (late[:2], late[2]) == (("committed", True), first[2])  # it came late: nothing is charged for it
    assert passes[:2] == ("committed", False)
    assert owner.used() == {("pl_a", "t\x1fu\x1f/r"): 7}
    unknown = owner.tell(refund("nobody"))[0]
    assert (unknown[0], unknown[2]["code"]) == ("refused", "not_found")


def test_a_refund_that_comes_first_finds_nothing_and_may_come_again(owner: Owner) -> None:
    put(owner, policy := durable())
    early, _, later = owner.tell(refund("a"), consume("a", 5, policy), refund("a"))
    assert (early[0], later[0]) == ("refused", "committed")
    assert owner.used() == {("pl_a", "t\x1fu\x1f/r"): 0}


def test_the_policy_in_force_decides_whatever_the_gateway_knows(owner: Owner) -> None:
    old, new = durable(capacity=100), durable(version=2, capacity=70)
    put(owner, old)
    owner.tell(consume("a", 60, old))
    put(owner, new)
    fits, over = owner.tell(consume("b", 10, old), consume("c", 1, old))
    assert (fits[0], fits[2]["result"]["levels"][0]["policy_version"]) == ("committed", 2)
    assert over[2]["code"] == "quota_exceeded"
    put(owner, durable(version=3, capacity=70, per=["tenant"]))
    assert owner.tell(consume("d", 1, new))[0][2]["code"] == "policy_changed"
    assert owner.tell(consume("e", 1, durable("pl_none")))[0][2]["code"] == "policy_changed"
    put(owner, elsewhere := durable(version=4, scope={"tenant": "other"}))
    assert owner.tell(consume("f", 500, elsewhere))[0][0] == "committed"  # it is not for this key any more


def test_a_months_quota_is_counted_until_the_month_of_its_zone_ends(owner: Owner) -> None:
    """Over owners that come and go; and usage is kept when the policy came from a window of another kind."""
    calendar = Calendar("month", "Australia/Lord_Howe")
    asked = {"unit": calendar.unit, "time_zone": calendar.time_zone}
    put(owner, durable(capacity=100))
    owner.tell(consume("a", 60, durable(capacity=100)))
    put(owner, policy := durable(version=2, capacity=70, window_ms=None, calendar=asked))
    before_s = time.time()
    first, over = owner.tell(consume("b", 9, policy), consume("c", 2, policy))
    (_, end_s), after_s = window_at(calendar, int(before_s)), time.time()
    assert [level["remaining"] for level in first[2]["result"]["levels"]] == [1]
    assert over[2]["code"] == "quota_exceeded"
    (left,) = over[2]["levels"]
    assert left["retry_us"] == left["reset_us"]
    assert before_s <= end_s - left["reset_us"] / 1_000_000 <= after_s
    owner.committer.connection.close()
    owner.start()
    assert owner.tell(consume("d", 2, policy))[0][2]["code"] == "quota_exceeded"
    assert owner.tell(refund("b"), consume("d", 2, policy))[1][0] == "committed"
    assert owner.used() == {("pl_a", "t\x1fu\x1f/r"): 62}
    assert owner.rows("select extract(epoch from expires_at)::bigint from quota_counter") == [(end_s,)]
    assert owner.gaps() == []


def test_an_owner_without_a_time_zone_refuses_what_needs_it_and_serves_the_rest(owner: Owner) -> None:
    """Data of a zone may be missing where it was there before: nothing is lost, and nothing charged, until it is back."""
    calendar = {"unit": "month", "time_zone": "Europe/Berlin"}
    monthly, plain = durable(capacity=100, window_ms=None, calendar=calendar), durable("pl_b")
    put(owner, monthly, plain)
    assert owner.tell(consume("a", 60, monthly))[0][0] == "committed"
    put(owner, gone := msgspec.structs.replace(monthly, version=2, calendar=Calendar("month", "Europe/Atlantis")))
    refused = owner.tell(consume("b", 1, gone), consume("c", 1, gone, plain))
    assert [(outcome, body["code"]) for outcome, _, body in refused] == [("refused", "time_zone_unknown")] * 2
    assert "tzdata" in refused[0][2]["detail"]
    assert owner.tell(consume("d", 5, plain))[0][0] == "committed"
    owner.superuser.execute("update quota_counter set body = replace(body, 'Berlin', 'Atlantis')")
    assert owner.tell(refund("a"))[0][2]["code"] == "time_zone_unknown"
    assert owner.rows("select 1 from quota_charge where refunded_version is not null") == []
    owner.superuser.execute("update quota_counter set body = replace(body, 'Atlantis', 'Berlin')")
    put(owner, back := durable(version=3, capacity=100, window_ms=None, calendar=calendar))
    assert [
        outcome for outcome, *_ in owner.tell(refund("a"), consume("b", 1, back), consume("c", 1, back, plain))
    ] == ["committed"] * 3
    assert owner.used() == {("pl_a", "t\x1fu\x1f/r"): 2, ("pl_b", "t\x1fu\x1f/r"): 6}
    assert owner.gaps() == []


@pytest.mark.parametrize(
    "tampered",
    [
        "delete from quota_charge where cost = 7",
        "update quota_charge set cost = cost + 1 where cost = 7",
        "update quota_counter set used = used - 1",
        "update quota_tenant set version = 1",
        "insert into quota_charge select aggregate_key, 'twice', cost, charged_at, version, policy_ids, counted_by"
        " from quota_charge where cost = 7",
    ],
)
def test_books_that_were_changed_are_found(owner: Owner, tampered: str) -> None:
    put(owner, policy := durable())
    owner.tell(consume("a", 7, policy), consume("b", 5, policy), refund("b"))
    assert owner.gaps() == []
    owner.superuser.execute(tampered.encode())
    assert [gap["policy_id"] for gap in owner.gaps()] == ["pl_a"]


def test_what_no_gateway_sends_is_refused_and_parks_nothing(owner: Owner) -> None:
    put(owner, policy := durable())
    foreign = consume("a", 1, policy)
    foreign.payload = {**foreign.payload, "tenant": "another"}
    hostile = consume("b", 1, policy)
    hostile.payload = {**hostile.payload, "levels": [{"policy_id": "pl\x00", "version": 1, "counted_by": "\x00"}]}
    negative = consume("c", -1, policy)
    nothing = consume("d", 1)
    for answer in owner.tell(foreign, hostile, negative, nothing):
        assert (answer[0], answer[2]["code"]) == ("refused", "invalid_command")
    assert owner.rows("select count(*) from quota_charge") == [(0,)]


def test_what_is_old_is_pruned_and_what_is_checked_stays(owner: Owner) -> None:
    put(owner, policy := durable(), short := durable("pl_short", window_ms=1))
    owner.tell(consume("old", 5, policy), consume("gone", 5, short, user="v"))
    past = (limits.LIMIT_DURABLE_RETENTION_S + 86_400) * 1_000_000
    owner.superuser.execute("update quota_charge set charged_at = charged_at - %s", (past,))
    owner.superuser.execute(
        "update quota_counter set expires_at = expires_at - %s * interval '1 microsecond' where policy_id = 'pl_short'",
        (past,),
    )
    assert owner.rows("select count(*) from quota_counter") == [(2,)]
    prune(owner.committer.connection)
    assert owner.used() == {("pl_a", "t\x1fu\x1f/r"): 5}
    assert owner.rows("select cost from quota_charge") == [(5,)]  # its counter is still led to by it
    owner.superuser.execute("update quota_counter set base_version = 9")
    prune(owner.committer.connection)
    assert owner.rows("select count(*) from quota_charge") == [(0,)]
    again = owner.tell(consume("old", 5, policy))[0]
    assert (again[0], again[1]) == ("committed", True)  # the identity is known for ever
    assert owner.tell(refund("old"))[0][2]["code"] == "not_found"
