"""Whoever can write to a command topic may send what it was given a key for, and nothing else.

What fails is refused and kept with its reason, bounded; it takes no identity, parks no aggregate, and answers nobody.
"""

from __future__ import annotations

import hmac
import json
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from msgspec import structs

from dataflows import limits
from schemas import topics
from schemas.avro import codec
from schemas.payments import facts
from schemas.payments import topics as payments_topics
from schemas.senders import INGRESS, OPERATORS, PROCESSOR_WORKER, RECONCILE, Sender
from schemas.services import OPERATIONS
from sinks.kafka.sender_keys import SenderKeys
from tests.eventually import becomes, eventually, patient
from tests.faults.owned_topics import PARTITION, OwnedTopics, owned_topics
from tests.faults.owners import command
from tests.worlds import raw_headers
from tests.worlds.senders import SENDERS

if TYPE_CHECKING:
    from pathlib import Path

    from schemas.records import Command
    from tests.servers import World

pytestmark = [pytest.mark.servers, pytest.mark.faults]
BY_ROLE = {sender.name: sender for sender in SENDERS}


@pytest.fixture
def owned(stack: World) -> OwnedTopics:
    return owned_topics(stack)


def _append(owned: OwnedTopics, headers: Any, *commands: Command, key: str | None = None) -> None:
    """As anybody writes who reaches the broker; ``headers`` of topic, key and value."""
    producer = Producer(owned.kafka.producer("stranger"))
    for one in commands:
        value, of = codec.encode_command(one), key or one.aggregate_key
        producer.produce(
            owned.kafka.topic(owned.commands), value, of, PARTITION, headers=headers(owned.commands, of, value)
        )
    assert producer.flush(patient(30)) == 0


def _plain(*_: object) -> None:
    return None


def _journal(scope: str) -> Command:
    """A posting that this partition would make."""
    entries = [
        {"account_id": "processor_receivable:simulator:USD", "debit": 5_000_000, "credit": 0, "currency": "USD"},
        {"account_id": "merchant_payable:m_ghost:USD", "debit": 0, "credit": 5_000_000, "currency": "USD"},
    ]
    for n in count():
        reference, aggregate = f"forged:{n}", facts.journal_id(f"forged:{n}")
        if topics.partition_for(aggregate, payments_topics.PARTITIONS) == PARTITION:
            break
    payload = {"reference": reference, "kind": "repair", "entries": entries, "note": "forged"}
    return command("post_journal", reference, payload, aggregate, scope=scope)


def _refused(owned: OwnedTopics) -> list[tuple[Any, ...]]:
    return owned.query("select split_part(reason, ':', 1) from dead_letter where state = 'refused' order by \"offset\"")


def _with_scope(one: Command, scope: str) -> Command:
    made = codec.decode_command(codec.encode_command(one))
    made.scope = scope
    return made


def _under(name: str, one: Command) -> Command:
    """The same command for an aggregate of such a name, in the same partition."""
    for n in count():
        aggregate = name.format(n)
        if topics.partition_for(aggregate, payments_topics.PARTITIONS) == PARTITION:
            break
    return structs.replace(one, aggregate_key=aggregate, idempotency_key=f"{one.idempotency_key} {name}")


def _hashed_as(one: Command, request_hash: bytes) -> Command:
    return structs.replace(one, request_hash=request_hash)


def test_what_nobody_signed_moves_nothing_and_parks_nobody(owned: OwnedTopics) -> None:
    """Forged postings and a forged cancel of another's payment; then the payment's own merchant goes on."""
    (create,) = owned.make(1)
    cancel = command("cancel_payment_intent", "forged", {}, create.aggregate_key)
    mine = command("confirm_payment_intent", "mine", {}, create.aggregate_key)
    owned.send(create)
    _append(owned, _plain, *map(_journal, ("ledger:x", "ledger:", "ledger:repair")), cancel)
    owned.send(mine)
    with owned.owned():
        decided = [(create.idempotency_key,), ("mine",)]
        becomes(lambda: owned.query('select key from idempotency order by "offset"'), decided, 40)
    assert owned.query("select 1 from ledger_txn") == owned.query("select 1 from parked_aggregate") == []
    assert owned.query("select sender from idempotency") == [(INGRESS,)] * 2
    assert _refused(owned) == [("sender_missing",)] * 4
    claims = "aggregate_key is null and merchant_id is null and request_id is null and published"
    assert owned.query(f"select count(*) from dead_letter where {claims}") == [(4,)]  # nobody is sent to look at them


def test_a_header_that_is_named_by_no_text_ends_nobody(owned: OwnedTopics) -> None:
    """Any client but Python's can write one, and the owner would come to it again after each restart.

    Behind what the test above had read, in the same process, Python 3.12 ended by it.
    """
    raw_headers.produce(owned.kafka.producer("stranger"), owned.kafka.topic(owned.commands), PARTITION, b"ce_\xff\xfe")
    (create,) = owned.make(1)
    owned.send(create)
    with owned.owned():
        becomes(lambda: owned.query("select key from idempotency"), [(create.idempotency_key,)], 40)
    assert _refused(owned) == [("headers_unreadable",)]


@pytest.mark.parametrize(
    ("compression", "records", "megabytes", "refused"),
    [("zstd", 1, 300, "batch_unreadable"), ("zstd", 150, 1, "batch_unreadable"), ("gzip", 3, 20, "too_large")],
)
def test_what_is_far_more_once_it_is_decompressed_ends_nobody(
    owned: OwnedTopics, compression: str, records: int, megabytes: int, refused: str
) -> None:
    """A topic takes a megabyte of a compressed batch, whatever that would be; no signature is looked for in it."""
    dense = {"compression.type": compression, "message.max.bytes": 10**9, "batch.size": 10**9}
    dense |= {
        "linger.ms": 600_000,
        "message.timeout.ms": 900_000,
    }  # all in one batch, however long it takes to fill it: a flush waits for no more
    producer = Producer(owned.kafka.producer("stranger", **dense))
    for _ in range(records):
        producer.produce(owned.kafka.topic(owned.commands), bytes(megabytes * 1024 * 1024), "x", PARTITION)
    assert producer.flush(patient(60)) == 0
    (create,) = owned.make(1)
    owned.send(create)
    with owned.owned():
        becomes(lambda: owned.query("select key from idempotency"), [(create.idempotency_key,)], 60)
    assert _refused(owned) == [(refused,)] * records


def test_each_sender_says_only_what_is_its_own(owned: OwnedTopics) -> None:
    """A key opens the operations and scopes of its role; another key, topic, aggregate or value breaks the MAC."""
    create, *others = owned.make(7)
    ingress = BY_ROLE[INGRESS]
    _append(owned, BY_ROLE[PROCESSOR_WORKER].headers, _journal("processor:simulator"))
    _append(owned, BY_ROLE[RECONCILE].headers, _journal("ledger:repair"))
    _append(owned, BY_ROLE[OPERATORS].headers, others[0])
    _append(owned, ingress.headers, _with_scope(others[0], "operator:ghost"))
    _append(owned, Sender(INGRESS, b"guessed").headers, others[1])
    _append(owned, Sender("nobody", b"guessed").headers, others[2])
    _append(owned, lambda _, key, value: ingress.headers("commands.other.v1", key, value), others[3])
    _append(owned, lambda topic, key, value: ingress.headers(topic, key, value + b"\0"), others[4])
    _append(owned, ingress.headers, others[5], key=create.aggregate_key)
    _append(owned, ingress.headers, create)
    with owned.owned():
        owned.await_decided(create)
    assert owned.decided() == {create.aggregate_key}
    assert [reason for (reason,) in _refused(owned)] == [
        *("operation_not_allowed", "scope_not_allowed", "scope_not_allowed", "scope_not_allowed"),
        *("mac_wrong", "sender_unknown", "mac_wrong", "mac_wrong", "key_differs"),
    ]


def test_a_producer_outside_says_what_its_own_merchants_could_call(owned: OwnedTopics, tmp_path: Path) -> None:
    """It is added while the owner runs, and taken no more when it is removed. What it signs is the documented MAC."""
    keys = SenderKeys(tmp_path, frozenset({INGRESS}))
    first, later, foreign, gone, last = owned.make(5)
    longest = _under("pi_{:0>50}", later)
    with owned.owned(keys=keys):
        key = bytes.fromhex(json.loads(keys.add("erp", (first.scope,)).read_text())["key"])
        name = b"producer.erp"

        def by_hand(topic: str, of: str, value: bytes) -> list[tuple[str, bytes]]:
            said = topic.encode() + b"\0" + name + b"\0" + len(of.encode()).to_bytes(4, "big") + of.encode() + value
            return [("sender", name), ("mac", hmac.digest(key, said, "sha256"))]

        _append(
            owned,
            by_hand,
            first,
            _with_scope(foreign, "m_another"),
            _journal(first.scope),
            _hashed_as(later, b"\7" * 32),
            longest,
        )
        owned.await_decided(first, later, longest)
        unread = [_under(name, first) for name in ("pi_java_{}-x", "order_{}", "pi_\u00fc{}")]
        unread.append(_under("pi_{:0>51}", first))  # its refunds would have ids of 65 characters
        unfit = [
            structs.replace(_under("pi_a{}", first), request_id="a/b"),
            structs.replace(_under("pi_b{}", first), request_id="4242424242424242"),
            structs.replace(_under("pi_c{}", first), idempotency_key="card 4242 4242 4242 4242"),
            _under("pi_4242424242424242_{}", first),
        ]
        _append(owned, by_hand, *unread, *unfit)
        becomes(lambda: len(_refused(owned)), 2 + len(unread) + len(unfit), 40)
        keys.remove("erp")
        eventually(lambda: name not in owned.known_senders(), 40, what="the owner has looked")
        _append(owned, by_hand, gone)
        (sender,) = keys.senders((INGRESS,))
        _append(owned, sender.headers, last)
        owned.await_decided(last)
    assert owned.decided() == {one.aggregate_key for one in (first, later, longest, last)}
    assert [reason for (reason,) in _refused(owned)] == [
        *(
            "scope_not_allowed",
            "operation_not_allowed",
            *["key_unreadable"] * 4,
            *["identity_unfit"] * 4,
            "sender_unknown",
        )
    ]
    ours = OPERATIONS[later.operation].request_hash(later.aggregate_key, later.payload)  # as a call over HTTP has it
    assert owned.query("select request_hash from idempotency where key = %s", later.idempotency_key) == [(ours,)]


def test_a_flood_of_forged_records_fills_no_disk_and_stops_nobody(
    owned: OwnedTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a partition as many are kept as the bound says, each cut; what comes after them is only counted."""
    monkeypatch.setattr(limits, "REFUSED_RECORDS_KEPT_MAX", 3)
    monkeypatch.setattr(limits, "REFUSED_RECORD_BYTES_MAX", 10)
    (create,) = owned.make(1)
    forged = [command("cancel_payment_intent", f"forged-{n}", {}, create.aggregate_key) for n in range(20)]
    _append(owned, _plain, *forged)
    owned.send(create)
    with owned.owned():
        owned.await_decided(create)
    assert owned.query("select count(*), max(length(record)) from dead_letter") == [(3, 10)]


def test_what_lay_in_the_topic_before_records_were_signed_is_carried_out_and_nothing_after_it(
    owned: OwnedTopics,
) -> None:
    """A home of the release before: its partition has no mark yet. The first take sets it, for ever, where the log ends."""
    before, after, signed = owned.make(3)
    owned.change(
        f"insert into partition_owner (topic, partition, signed_from) values ('{owned.commands}', {PARTITION}, null)"
    )
    _append(owned, _plain, before)
    with owned.owned():
        owned.await_decided(before)
        mark = f"select signed_from from partition_owner where partition = {PARTITION}"
        assert owned.query(mark) == [(1,)]
        _append(owned, _plain, after)
        owned.send(signed)
        owned.await_decided(signed)
    assert owned.decided() == {before.aggregate_key, signed.aggregate_key}
    with owned.owned():
        eventually(lambda: owned.process and owned.process.leases.get(PARTITION), 40, what="the partition taken again")
        assert owned.query(mark) == [(1,)]
    assert owned.query('select sender from idempotency order by "offset"') == [("unsigned",), (INGRESS,)]


def test_a_record_in_the_wrong_partition_is_found_by_people(owned: OwnedTopics) -> None:
    (create,) = owned.make(1)
    elsewhere = command("create_payment_intent", "elsewhere", {"amount": 1, "currency": "USD"}, "pi_elsewhere")
    other = next(
        p
        for p in range(payments_topics.PARTITIONS)
        if p != topics.partition_for("pi_elsewhere", payments_topics.PARTITIONS)
    )
    owned.send(elsewhere, partition=other)
    owned.send(create)
    with owned.owned():
        owned.await_decided(create)
        becomes(lambda: _refused(owned), [("misrouted",)], 40)
    assert owned.decided() == {create.aggregate_key}
