"""Usage from Kafka that does not count: kept for people, and counted at most once when one of them sends it again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from confluent_kafka import Producer

from dataflows.owner.senders import Senders
from dataflows.tenancy.usage import keeping
from dataflows.tenancy.usage.refused import SentAgain
from reconciliation.tenancy.refused_usage import decide, refused_one
from reconciliation.tenancy.refused_usage import refused as listed
from schemas import errors
from schemas.senders import Sender
from schemas.tenancy import limits
from schemas.tenancy.instants import instant
from schemas.tenancy.usage_event import record_key
from schemas.tenancy.usage_topic import USAGE
from sinks.kafka.sender_keys import KnownSender
from sinks.postgres import owner_connection
from tests import asked
from tests.eventually import becomes, eventually, patient
from tests.integration.tenancy.test_usage_stream import TENANT, Usage
from tests.migrated import in_database
from tests.worlds.senders import KnownKeys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import World

pytestmark = pytest.mark.servers

PROGRAM = Sender("producer.meter", b"k" * 32)
STRANGER = Sender("producer.stranger", b"s" * 32)


class Keys(KnownKeys):
    """Our own, and one program's, which speaks for whom a test says."""

    def __init__(self) -> None:
        self.scopes: tuple[str, ...] = (f"tenant:{TENANT}",)
        self.changes = 0

    def known(self) -> dict[bytes, KnownSender]:
        return super().known() | {PROGRAM.name.encode(): KnownSender(PROGRAM, self.scopes)}

    def changed_at(self) -> int:
        return self.changes

    def grant(self, *tenants: str) -> None:
        self.scopes = tuple(f"tenant:{tenant}" for tenant in tenants)
        self.changes += 1


class Refusing(Usage):
    """A topic to which a program outside writes, who meters it, and an operator."""

    def __init__(self, stack: World) -> None:
        super().__init__(stack)
        self.keys: Keys = Keys()
        self._at = instant(time.time_ns() // 1_000)  # the same of an event that is written again
        self.operator = in_database(stack.addresses.postgres_dsns["millrace_operator"], self.dsn.rpartition("/")[2])

    def write(self, id_: str, said: Any = None, tenant: str = TENANT, sender: Sender = PROGRAM, times: int = 1) -> None:
        """One record, of an event with some changes or of any bytes."""
        event = {"specversion": "1.0", "type": "millrace.usage", "id": id_, "source": "/meter"}
        event |= {"time": self._at, "data": {"dimension": "tokens", "quantity": 1}}
        value = said if isinstance(said, bytes) else json.dumps(event | (said or {})).encode()
        key = record_key(tenant, "/meter", id_)
        producer = Producer(self.kafka.producer("meter"))
        for _ in range(times):
            producer.produce(self.kafka.topic(USAGE), value, key, headers=sender.headers(USAGE, key, value))
        assert producer.flush(patient(30)) == 0

    def rows(self, tenant: str = "", *, every_state: bool = True) -> list[dict[str, Any]]:
        with psycopg.connect(self.operator, autocommit=True) as connection:
            return listed(connection, tenant, every_state=every_state)

    def why(self) -> list[str]:
        return sorted(row["reason"] for row in self.rows())

    def decide(self, refused_id: str, decision: Any = "asked") -> None:
        with psycopg.connect(self.operator, autocommit=True) as connection:
            decide(connection, refused_id, decision, "shell:me", "repaired")

    def one(self, refused_id: str) -> dict[str, Any]:
        with psycopg.connect(self.operator, autocommit=True) as connection:
            return refused_one(connection, refused_id)

    def sums(self) -> list[tuple[Any, ...]]:
        return asked.rows(
            self.dsn, "select event_id, count(*)::int from usage_event group by event_id order by event_id"
        )

    @contextmanager
    def judged(self) -> Iterator[None]:
        """What is asked is judged inside the block."""
        loop = SentAgain(self.metering_dsn, "refused-test", Senders(self.keys))
        thread = threading.Thread(target=loop.run)
        thread.start()
        try:
            yield
        finally:
            loop.stop()
            thread.join(patient(40))


@pytest.fixture
def usage(stack: World) -> Iterator[Refusing]:
    made = Refusing(stack)
    with made.metered():
        yield made


def test_what_does_not_count_is_kept_once_with_why_and_nothing_that_strangers_wrote(usage: Refusing) -> None:
    secret = f"s{uuid.uuid4().hex}"
    usage.write("a", b"{" + secret.encode())
    usage.write("b", {"tenant": secret})
    usage.write("c", tenant="tn_2")
    usage.write("d", {"time": "1999-01-01T00:00:00Z", "note": secret})
    usage.write("e", sender=STRANGER)
    usage.write("f")
    wanted = ["not_an_event", "not_an_event", "scope_not_allowed", "sender_unknown", "wrong_time"]
    becomes(usage.why, wanted, 40)
    becomes(usage.sums, [("f", 1)], 40)
    kept = asked.rows(usage.dsn, "select to_jsonb(u)::text from usage_refused u")
    assert not [row for row in kept if secret in row[0]]
    assert [row["reason"] for row in usage.rows("tn_2")] == ["scope_not_allowed"]
    usage.change("update stream_position set next_offset = 0, topic_id = ''")  # read again
    usage.write("g")
    becomes(lambda: ("g", 1) in usage.sums(), True, 40)
    assert usage.why() == wanted


def test_what_is_sent_again_counts_once_after_the_repair_and_not_before(usage: Refusing) -> None:
    usage.write("c", tenant="tn_2")
    usage.write("d", tenant="tn_2")
    becomes(usage.why, ["scope_not_allowed"] * 2, 40)
    first, second = (row["refused_id"] for row in usage.rows())
    with usage.judged():
        usage.decide(first)
        becomes(lambda: usage.one(first)["state"], "open", 40)  # nothing was repaired: it waits as before
        assert usage.sums() == []
        usage.keys.grant(TENANT, "tn_2")
        eventually(lambda: usage.write("p", tenant="tn_2") or ("p", 1) in usage.sums(), 40)  # the key is looked at
        usage.write("c", tenant="tn_2")  # the program sends it again, too
        usage.write("d", tenant="tn_2")
        becomes(usage.sums, [("c", 1), ("d", 1), ("p", 1)], 40)
        usage.decide(first)
        usage.decide(second)
        for one in (first, second):
            becomes(lambda one=one: usage.one(one)["state"], "repeated", 40)
    assert usage.sums() == [("c", 1), ("d", 1), ("p", 1)]
    with pytest.raises(errors.StateConflict, match="repeated already"):
        usage.decide(first)


def test_what_its_program_never_sent_again_counts_by_an_operator_alone(usage: Refusing) -> None:
    usage.write("c", tenant="tn_2")
    becomes(usage.why, ["scope_not_allowed"], 40)
    usage.keys.grant("tn_2")
    refused_id = usage.rows()[0]["refused_id"]
    usage.decide(refused_id)
    with usage.judged():
        becomes(lambda: usage.one(refused_id)["state"], "counted", 40)
    assert usage.sums() == [("c", 1)]
    row = usage.one(refused_id)
    assert (row["decided_by"], row["note"]) == ("shell:me", "repaired")
    audited = "select action, outcome from audit_log where object = %s"
    assert ("usage.send", "done") in asked.rows(usage.dsn, audited, refused_id)


_VICTIM = """
import os
from dataflows.owner.senders import Senders
from dataflows.tenancy.usage.refused import judge_next
from sinks.postgres import owner_connection
from tests.integration.tenancy.test_refused_usage import Keys

keys = Keys()
keys.grant("tn_2")
with owner_connection.connect(os.environ["MILLRACE_TEST_DSN"], "victim") as connection:
    judge_next(connection, Senders(keys))
"""


@pytest.mark.faults
def test_who_is_killed_while_it_judges_has_counted_nothing_and_the_next_one_counts_once(usage: Refusing) -> None:
    usage.write("c", tenant="tn_2")
    becomes(usage.why, ["scope_not_allowed"], 40)
    refused_id = usage.rows()[0]["refused_id"]
    usage.decide(refused_id)
    armed = {"MILLRACE_FAIL_POINT": "metering_before_refused_counted", "MILLRACE_TEST_DSN": usage.metering_dsn}
    victim = subprocess.run([sys.executable, "-c", _VICTIM], env=os.environ | armed, timeout=patient(60), check=False)
    assert victim.returncode == -signal.SIGKILL
    becomes(lambda: (usage.one(refused_id)["state"], usage.sums()), ("asked", []), 40)
    usage.keys.grant("tn_2")
    with usage.judged():
        becomes(lambda: usage.one(refused_id)["state"], "counted", 40)
    assert usage.sums() == [("c", 1)]


def test_whom_nobody_knows_and_what_is_not_whole_never_counts(usage: Refusing) -> None:
    usage.write("a", b"{")
    usage.write("e", sender=STRANGER)
    becomes(usage.why, ["not_an_event", "sender_unknown"], 40)
    found = {row["reason"]: row["refused_id"] for row in usage.rows()}
    for reason, told in (("not_an_event", "Too little"), ("sender_unknown", "Nobody whom we know")):
        with pytest.raises(errors.StateConflict, match=told):
            usage.decide(found[reason])
        usage.decide(found[reason], "discarded")
    assert usage.rows(every_state=False) == []
    with pytest.raises(errors.NotFound):
        usage.decide("ur_none")
    said = "select action, outcome from audit_log where object = %s order by seq"
    for refused_id in found.values():
        assert asked.rows(usage.dsn, said, refused_id) == [("usage.send", "refused"), ("usage.discard", "done")]
    with pytest.raises(psycopg.errors.RaiseException, match="no decision"):
        usage.decide(found["not_an_event"], "counted")


def test_who_writes_nonsense_takes_no_room_of_others_and_what_is_old_goes(
    usage: Refusing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "USAGE_REFUSED_KEPT_MAX", 3)
    usage.write("a", b"{", times=2)
    usage.write("b", b"[", times=20)
    usage.write("b", b"[", sender=STRANGER, times=20)
    usage.write("z")
    usage.write("b", b"]")
    eventually(lambda: ("z", 1) in usage.sums() or None, 40)

    def of(sender: str) -> int:
        return sum(row["sender"] == sender for row in usage.rows())

    becomes(lambda: (of(""), 3 <= of(PROGRAM.name) <= 5), (3, True), 40)
    usage.change("update usage_refused set refused_at = now() - interval '36 days' where sender = ''")
    with owner_connection.connect(usage.metering_dsn, "keeping") as connection:
        assert keeping.remove(connection) == 3
    assert of("") == 0
    assert of(PROGRAM.name) >= 3
