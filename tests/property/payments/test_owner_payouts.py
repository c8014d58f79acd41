"""Payouts at an owner, on real Postgres without Kafka: what one batch spends, the next one does not have."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from dataflows.owner import fail_points
from dataflows.owner.batch import PartitionBatch, Record
from dataflows.owner.partition.leases import Lease, Leases
from dataflows.owner.transaction.commit import Committer
from dataflows.payments.domain.policies.in_force import Policies, PublishedRates
from dataflows.payments.policies import PolicyBook
from dataflows.payments.service import payments_service
from reconciliation.check.invariant import invariants
from schemas import identity, topics
from schemas.errors import Fenced
from schemas.payments import limits, money_by_hand, repair
from schemas.payments import topics as payments_topics
from sinks.postgres.owner_connection import connect
from tests.worlds.payments import account_cases as cases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from schemas.records import Command

pytestmark = pytest.mark.servers
_OF_THE_LEDGER = ("1", "2", "3", "4", "11", "17", "7", "payouts", "payouts_in_transit", "exchanges", "outbox")


class Crash(Exception):
    """The process ends here."""


class Owner:
    """One owner of all partitions, with the log of commands that it reads."""

    def __init__(self, dsn: str, superuser: str) -> None:
        self.dsn = dsn
        self.connection = psycopg.connect(superuser, autocommit=True)
        self._log: dict[int, list[Record]] = defaultdict(list)
        self.policies = PolicyBook()
        self.start()

    def start(self) -> None:
        """Takes every partition over: whoever had them is fenced."""
        self.committer = Committer(
            connect(self.dsn, "owner"), Leases(payments_service(policies=self.policies), "owner")
        )
        self.leases: dict[int, Lease] = {}

    def batch(self, *commands: Command) -> None:
        """Appends the commands; those of one partition are one batch. What needs two persons was approved before."""
        for command in (one for one in commands if one.scope == repair.LEDGER_SCOPE):
            self._approve(command)
        for command in filter(money_by_hand.needs_approval, commands):
            self.connection.execute(
                "insert into money_proposal (id, operation, object, payload, author, request_hash, state, decided_by, decided_at)"
                " values (%s, %s, '', %s, 'ann', '', 'approved', 'bob', now())",
                (command.idempotency_key, command.operation, Jsonb(command.payload)),
            )
        for command in commands:
            log = self._log[topics.partition_for(command.aggregate_key, payments_topics.PARTITIONS)]
            log.append(Record(len(log), b"", command=command))
        self.commit()

    def _approve(self, command: Command) -> None:
        (id_,) = repair.proposals_named([command])
        self.connection.execute("insert into repair_case (id, kind, reference) values (%s, 'planted', %s)", (id_, id_))
        self.connection.execute(
            "insert into repair_proposal"
            " (id, case_id, template, entries, note, author, request_hash, state, preview, decided_by, decided_at)"
            " values (%s, %s, 'entries', %s, 'funds', 'ann', '', 'approved', '[]', 'bob', now())",
            (id_, id_, Jsonb(command.payload["entries"])),
        )

    def commit(self) -> None:
        """Commits what is not committed, a batch for each partition."""
        for partition, log in sorted(self._log.items()):
            lease = self.lease(partition)
            if records := log[lease.next_offset :]:
                self.committer.commit(lease, PartitionBatch(partition, records, lease.epoch), 0)

    def lease(self, partition: int) -> Lease:
        """The partition, taken over at the first time."""
        if partition not in self.leases:
            lease = self.committer.leases.acquire(self.committer.connection, partition)
            assert lease is not None
            self.leases[partition] = lease
        return self.leases[partition]

    def answer(self, command: Command) -> dict[str, Any]:
        """What was stored for it."""
        (response,) = self.rows(
            "select response from idempotency where merchant_id = %s and key = %s",
            command.scope,
            command.idempotency_key,
        )[0]
        found: dict[str, Any] = json.loads(bytes(response))
        return found

    def held(self, account: str) -> int:
        """The balance of a credit-normal ledger account over all partitions."""
        ((held,),) = self.rows(
            "select coalesce(sum(credits - debits), 0)::bigint from account_balance where account_id = %s", account
        )
        return int(held)

    def rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        """The rows of a query as the superuser."""
        return self.connection.execute(query.encode(), parameters).fetchall()

    def violations(self) -> dict[str, list[tuple[Any, ...]]]:
        """Of the invariants that need nothing but these tables."""
        parameters = {
            "events_topic": payments_topics.EVENTS,
            "commands_topic": payments_topics.COMMANDS,
            "horizon_days": limits.SETTLEMENT_HORIZON_DAYS,
        }
        found = {
            i.id: self.connection.execute(i.sql.encode(), parameters).fetchall()
            for i in invariants()
            if i.id in _OF_THE_LEDGER
        }
        assert set(found) == set(_OF_THE_LEDGER)
        return {name: rows for name, rows in found.items() if rows}

    def close(self) -> None:
        """Ends both connections."""
        self.committer.connection.close()
        self.connection.close()


@pytest.fixture
def owner(new_database: Callable[[], tuple[str, str]]) -> Iterator[Owner]:
    """An owner of an empty database, which must be sound when the test is over."""
    made = Owner(*new_database())
    yield made
    assert made.violations() == {}
    made.close()


def test_two_payouts_of_one_batch_do_not_spend_the_same_money(owner: Owner) -> None:
    owner.batch(cases.funding(1_000))
    first, second, third = (cases.payout(n, key=f"p{n}") for n in (600, 500, 400))
    owner.batch(first, second, third)
    assert owner.answer(first)["result"]["state"] == "pending"
    assert (owner.answer(second)["code"], owner.answer(second)["available"]) == ("insufficient_funds", 400)
    assert owner.answer(third)["result"]["amount"] == 400
    assert (owner.held(cases.AVAILABLE), owner.held(cases.TRANSIT)) == (0, 1_000)


def test_a_payout_sees_what_earlier_batches_of_any_partition_posted(owner: Owner) -> None:
    """Credits of other partitions count from their commit; a payout of an earlier batch counts at once."""
    partitions = {
        topics.partition_for(cases.funding(1, f"f{n}").aggregate_key, payments_topics.PARTITIONS) for n in range(9)
    }
    assert len(partitions) > 1
    owner.batch(*(cases.funding(100, f"f{n}") for n in range(9)))
    owner.batch(cases.payout(900, key="all"))
    late = cases.payout(1, key="more")
    owner.batch(late)
    assert owner.answer(late)["available"] == 0


def test_a_credit_of_the_same_batch_counts_for_the_payout_behind_it(owner: Owner) -> None:
    """And a debit too: postings of the batch itself are in no table yet."""
    place = topics.partition_for(cases.ACCOUNT, payments_topics.PARTITIONS)
    here = next(
        step
        for step in (cases.funding(1_000, f"near{n}") for n in range(10_000))
        if topics.partition_for(step.aggregate_key, payments_topics.PARTITIONS) == place
    )
    early, fits = cases.payout(1, key="early"), cases.payout(700, key="fits")
    held, more = cases.reserve("hold_reserve", 300, scope=money_by_hand.SCOPE), cases.payout(1, key="more")
    owner.batch(early, here, fits, held, more)
    assert owner.answer(early)["available"] == 0
    assert owner.answer(fits)["result"]["state"] == "pending"
    assert owner.answer(held)["result"]["object"] == "merchant_account"
    assert owner.answer(more)["available"] == 0


@pytest.mark.parametrize("point", ["after_claim", "after_decide", "before_commit", "after_commit_before_publish"])
def test_a_killed_batch_of_payouts_is_committed_once(owner: Owner, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    owner.batch(cases.funding(1_000))
    step = cases.payout(600)

    def reach(name: str) -> None:
        if name == point:
            raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(fail_points, "reach", reach)
        with pytest.raises(Crash):
            owner.batch(step, cases.register())
    zombie = owner.committer, owner.lease(topics.partition_for(cases.ACCOUNT, payments_topics.PARTITIONS))
    owner.start()
    owner.commit()  # from where the database says that the last owner was
    assert owner.answer(step)["result"]["state"] == "pending"
    assert (owner.held(cases.AVAILABLE), owner.held(cases.TRANSIT)) == (400, 600)
    assert owner.rows("select account_number, version from payout_destination") == [(cases.BANK, 1)]
    late = Record(zombie[1].next_offset, b"", command=cases.payout(1, key="z"))
    with pytest.raises(Fenced):
        zombie[0].commit(zombie[1], PartitionBatch(zombie[1].partition, [late], zombie[1].epoch), 0)
    zombie[0].connection.close()


def test_a_command_that_comes_again_is_answered_with_what_was_stored(owner: Owner) -> None:
    owner.batch(cases.funding(1_000))
    step = cases.payout(600)
    owner.batch(step)
    first = owner.answer(step)
    owner.batch(step, step)
    assert owner.answer(step) == first
    assert owner.rows("select count(*) from payout") == [(1,)]


def test_an_account_in_another_partition_than_its_own_is_misrouted(owner: Owner) -> None:
    owner.batch(cases.funding(1_000))
    step = cases.payout(600)
    wrong = (topics.partition_for(cases.ACCOUNT, payments_topics.PARTITIONS) + 1) % payments_topics.PARTITIONS
    for known in (False, True):
        lease = owner.lease(wrong)
        misplaced = Record(lease.next_offset, b"", command=step)
        owner.committer.commit(lease, PartitionBatch(wrong, [misplaced], lease.epoch), 0)
        assert owner.rows("select count(*) from payout") == [(int(known),)]
        if not known:
            owner.batch(step)


def test_the_way_of_a_payout_reserve_exchange_and_freeze_is_in_the_tables(owner: Owner) -> None:
    """Also the shape of every event: the sink, replays and webhooks read them."""
    owner.batch(cases.funding(10_000))
    made = cases.payout(600)
    owner.batch(made)
    owner.batch(
        cases.reserve("hold_reserve", 1_000, scope=money_by_hand.SCOPE),
        cases.operator("freeze_account", key="f", reason="court order"),
    )
    assert owner.rows("select merchant_id from frozen_merchant") == [(cases.MERCHANT,)]
    exchange = {"source_amount": 100, "source_currency": "EUR", "target_amount": 162, "target_currency": "JPY"}
    rates = cases.rates_of({"EUR/JPY": ("162", 50)}, time.time_ns() // 1_000 - 60_000_000)
    owner.policies.current = Policies(reference_rates=PublishedRates(version=1, document=rates))
    owner.batch(cases.operator("convert_currency", key="x", scope=money_by_hand.SCOPE, rate="162.35", **exchange))
    book = PolicyBook()
    book.refresh(owner.connection)
    assert book.current.frozen_merchants == frozenset({cases.MERCHANT})
    (row,) = owner.rows("select id, state, version from payout")
    payout = cases.Books(available=10_000).made(made)
    assert row == (payout.id, "pending", 1)
    owner.batch(cases.outcome(payout, "paid"), cases.outcome(payout, "failed"))
    assert owner.rows("select state, failure_reason, version from payout") == [("failed", "returned", 3)]
    assert owner.rows("select state, version, partition from merchant_account") == [
        ("frozen", 6, topics.partition_for(cases.ACCOUNT, payments_topics.PARTITIONS))
    ]
    assert owner.held(cases.AVAILABLE) == 10_000 - 1_000 - 100
    assert owner.held("merchant_available:m_1:JPY") == 162


def test_a_destination_is_decided_with_its_payouts(owner: Owner) -> None:
    """In one batch and over batches; what was registered is changed by nobody, and is the proposal's word or nothing."""
    owner.batch(cases.funding(1_000))
    registered = cases.Books().registered(cases.register())
    steps = [
        cases.payout(n, key=f"p{n}", destination=name) for n, name in enumerate(("main", registered.id, "main"), 1)
    ]
    owner.batch(steps[0], cases.register(), *steps[1:])
    answers = [owner.answer(step) for step in steps]
    assert [a.get("reason") for a in answers] == [None, "cooling_off", "not_registered"]
    owner.batch(cases.allow(registered, scope=money_by_hand.SCOPE))
    paid, gone = (cases.payout(n, key=f"q{n}", destination=registered.id) for n in (4, 5))
    owner.batch(paid, cases.disable(registered), gone)
    assert owner.answer(paid)["result"]["destination"] == registered.id
    assert owner.answer(gone)["reason"] == "disabled"
    columns = "id, last4, state, version, account_number, usable_at < now()"
    assert owner.rows(f"select {columns} from payout_destination") == [
        (registered.id, "3201", "disabled", 3, cases.BANK, True)
    ]
    with psycopg.connect(owner.dsn) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("update payout_destination set account_number = 'DE89370400440532013000'")


def test_an_owner_refuses_new_payments_of_a_frozen_merchant_until_it_is_let_go(owner: Owner) -> None:
    """By what it read last it knows too late: a refusal is the answer to its key for ever, so it looks again."""
    owner.batch(cases.operator("freeze_account", key="f", reason="court order"))
    owner.policies.current = Policies(frozen_merchants=frozenset({cases.MERCHANT, "m_other"}))
    in_vain = _creation("i")
    owner.batch(in_vain)
    assert owner.answer(in_vain)["code"] == "account_frozen"
    owner.batch(cases.operator("unfreeze_account", key="u", reason="settled"))
    taken, again = _creation("j"), _creation("i")
    owner.batch(taken, again)
    assert owner.rows("select id from payment_intent") == [(taken.aggregate_key,)]
    assert owner.answer(again)["code"] == "account_frozen"


def _creation(key: str) -> Command:
    payload: dict[str, object] = {
        "amount": 1,
        "currency": "EUR",
        "payment_method": None,
        "capture_method": "automatic",
        "metadata": {},
    }
    intent = identity.derived_id("pi", cases.MERCHANT, "POST /v1/payment_intents", key)
    return cases.command("create_payment_intent", payload, key=key, scope=cases.MERCHANT, aggregate_key=intent)
