"""The topic of usage as it is after a disaster: what was acknowledged is counted, or its partition stands still."""

from __future__ import annotations

import json
import threading
import time
import uuid
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from dataflows.owner.partition.next_offset import Place
from dataflows.owner.senders import Senders
from dataflows.streams.strict_positions import Begin
from dataflows.tenancy.usage.reader import UsageReader
from dataflows.tenancy.usage.stream import FOLLOWER, UsageStream
from schemas.senders import INGRESS
from schemas.tenancy.instants import instant
from schemas.tenancy.usage_event import record_key
from schemas.tenancy.usage_topic import USAGE, USAGE_PARTITIONS
from sinks.kafka.admin import KafkaAdmin
from sinks.kafka.topic_offsets import TopicOffsets
from tests import asked
from tests.eventually import becomes, eventually, patient
from tests.migrated import clone_database, in_database
from tests.worlds import raw_headers
from tests.worlds.senders import KnownKeys, signing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import World

pytestmark = pytest.mark.servers

TENANT: Final = "tn_1"
SET_ANEW: Final = "update stream_position set next_offset = %s, topic_id = '' where partition = %s"

SLOWLY: Final = """
create function slowly() returns trigger language plpgsql as 'begin perform pg_sleep(0.5); return new; end';
create trigger slowly before insert on usage_event for each row execute function slowly()
"""


class Usage:
    """A topic of usage and a database of its own, and who meters them."""

    def __init__(self, stack: World) -> None:
        name = f"usage_{uuid.uuid4().hex[:10]}"
        self.kafka = signing(replace(stack.addresses.kafka, prefix=f"{name}."))
        self.dsn = clone_database(stack.addresses.postgres_superuser_dsn, name)
        self.metering_dsn = in_database(stack.addresses.postgres_dsns["millrace_tenancy_metering"], name)
        self.keys = KnownKeys()
        self.admin = KafkaAdmin(self.kafka.admin())
        topic = self.kafka.topic(USAGE)
        self.admin.create_topics([NewTopic(topic, USAGE_PARTITIONS)])[topic].result(patient(30))
        self.offsets = TopicOffsets(self.kafka, USAGE)
        self._sent = 0

    def send(self, count: int, partition: int) -> None:
        """Acknowledged, as the ingress sends it."""
        producer = Producer(self.kafka.producer("usage"))
        for number in range(self._sent, self._sent + count):
            event = {
                "specversion": "1.0",
                "type": "millrace.usage",
                "id": f"e{number}",
                "source": "/meter",
                "time": instant(time.time_ns() // 1_000),
                "data": {"dimension": "tokens", "quantity": 1},
            }
            key, value = record_key(TENANT, "/meter", f"e{number}"), json.dumps(event).encode()
            headers = self.kafka.signed((INGRESS,), USAGE, key, value)
            producer.produce(self.kafka.topic(USAGE), value, key, partition, headers=headers)
        assert producer.flush(patient(30)) == 0
        self._sent += count

    def expire(self, partition: int, before: int) -> None:
        place = TopicPartition(self.kafka.topic(USAGE), partition, before)
        self.admin.delete_records([place])[place].result(patient(30))

    def counted(self) -> dict[int, int]:
        """Events by partition."""
        return dict(asked.rows(self.dsn, "select partition, count(*)::int from usage_event group by partition"))  # type: ignore[arg-type]

    def taken(self) -> tuple[int, Any]:
        """How often the topic was taken by somebody, and when they last said that they count."""
        said = "select epoch::int, held_at from stream_position where partition = 0 and follower = %s"
        (found,) = asked.rows(self.dsn, said, FOLLOWER)
        return int(found[0]), found[1]

    def change(self, sql: str, *parameters: Any) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(sql.encode(), parameters)

    @contextmanager
    def metered(self) -> Iterator[UsageStream]:
        """Somebody counts inside the block."""
        stream = UsageStream(self.kafka, self.metering_dsn, self.keys, "usage-test")
        thread = threading.Thread(target=stream.run)
        thread.start()
        try:
            eventually(lambda: stream.is_ready, 40, what="a stream that reads")
            yield stream
        finally:
            stream.stop()
            thread.join(patient(40))
            assert not thread.is_alive()


@pytest.fixture
def usage(stack: World) -> Usage:
    """Five events in each of two partitions, counted."""
    made = Usage(stack)
    made.send(5, 0)
    made.send(5, 1)
    with made.metered() as stream:
        becomes(made.counted, {0: 5, 1: 5}, 40)
        assert stream.why_not_ready() is None
    return made


@pytest.mark.parametrize(
    ("disaster", "told"),
    [
        ("update stream_position set next_offset = next_offset + 1000 where partition = 0", "has lost records"),
        ("update stream_position set leader_epoch = leader_epoch + 7 where partition = 0", "has lost records"),
        ("update stream_position set topic_id = 'another' where partition = 0", "made again"),
        ("", "has deleted records from offset 5 on"),
    ],
    ids=["shorter", "grown again", "another", "expired"],
)
def test_what_is_not_there_is_never_passed_over(usage: Usage, disaster: str, told: str) -> None:
    """The partition stands still and says so, the others go on; set anew it counts what there is, each event once."""
    if disaster:
        usage.change(disaster)
    usage.send(3, 0)
    usage.send(3, 1)
    low = 0 if disaster else 7
    if low:
        usage.expire(0, low)
    with usage.metered() as stream:
        eventually(lambda: told in (stream.why_not_ready() or ""), 40, what="a partition that stands still")
        becomes(usage.counted, {0: 5, 1: 8}, 40)
        assert "partition 0" in str(stream.why_not_ready())
        assert "partition 1" not in str(stream.why_not_ready())
    usage.change(SET_ANEW, low, 0)
    with usage.metered() as stream:
        becomes(usage.counted, {0: 6 if low else 8, 1: 8}, 40)
        assert stream.why_not_ready() is None
    with usage.metered() as stream:  # what is known of the topic from here on holds
        usage.send(1, 0)
        becomes(usage.counted, {0: 7 if low else 9, 1: 8}, 40)
        assert stream.why_not_ready() is None


@pytest.mark.parametrize(("topic_id", "code"), [("", "commands_expired"), ("another", "topic_replaced")])
def test_what_goes_while_it_is_read_is_told(usage: Usage, topic_id: str, code: str) -> None:
    """Retention passes a reader that is slow; or the topic is made again, and is as long as before."""
    usage.expire(0, 2)
    at = 0 if not topic_id else 5
    held = usage.offsets.ask([0]).answer()[0]
    begins = {0: Begin(Place(topic_id or held.topic_id, at), None, None)}
    halted: dict[int, str] = {}
    reader = UsageReader(
        usage.kafka, "slow", begins, Senders(KnownKeys()), lambda p, _, fault: halted.update({p: fault.code})
    )
    with closing(reader):
        eventually(lambda: (reader.read(), dict(halted))[1], 40, what="a partition that stands still")
        assert halted == {0: code}
        assert reader.read() == []


def test_a_position_that_is_set_anew_is_not_moved_by_who_read_on_from_the_old_one(usage: Usage) -> None:
    with usage.metered():
        usage.send(1, 0)
        becomes(usage.counted, {0: 6, 1: 5}, 40)
        usage.change("delete from usage_event where partition = 0 and seq <= 3")
        usage.change(SET_ANEW, 0, 0)
        usage.send(1, 0)
        becomes(usage.counted, {0: 7, 1: 5}, 40)


def test_of_two_that_count_one_stands_by_until_the_other_leaves(usage: Usage) -> None:
    """Else they take the topic from each other for ever, and each counts what the other has not committed yet."""
    with usage.metered() as first, usage.metered() as second:
        assert (first.stands_by, second.stands_by, second.why_not_ready()) == (False, True, None)
        taken, said_at = usage.taken()
        usage.send(3, 0)
        becomes(usage.counted, {0: 8, 1: 5}, 40)
        eventually(lambda: usage.taken()[1] > said_at, 40, what="another sign of life")
        assert (second.stands_by, usage.taken()[0]) == (True, taken)
        first.stop()
        becomes(lambda: second.stands_by, False, 40)
        usage.send(1, 0)
        becomes(usage.counted, {0: 9, 1: 5}, 40)
        eventually(lambda: second.is_ready and second.why_not_ready() is None, 40)
        assert usage.taken()[0] == taken + 1


def test_a_batch_that_takes_too_long_is_counted_in_smaller_ones(usage: Usage) -> None:
    """Twelve events at once take longer than a transaction may; nothing else would ever be counted."""
    usage.change(SLOWLY)
    usage.send(12, 0)
    with usage.metered() as stream:
        becomes(usage.counted, {0: 17, 1: 5}, 90)
        eventually(lambda: stream.why_not_ready() is None, 40, what="a stream that reads")


def test_a_header_that_is_named_by_no_text_ends_no_metering(usage: Usage) -> None:
    """Whoever counts would come to it again after each start."""
    raw_headers.produce(usage.kafka.producer("stranger"), usage.kafka.topic(USAGE), 0, b"ce_\xff\xfe")
    usage.send(2, 0)
    with usage.metered():
        becomes(usage.counted, {0: 7, 1: 5}, 40)
    assert asked.rows(usage.dsn, "select reason from usage_refused") == [("headers_unreadable",)]


def test_a_batch_that_nobody_can_decompress_ends_no_metering(usage: Usage) -> None:
    """What it would be is more than a consumer takes; whoever waited for it would wait for ever."""
    dense = {"compression.type": "zstd", "message.max.bytes": 10**9}
    producer = Producer(usage.kafka.producer("stranger", **dense))
    usage.send(1, 0)
    producer.produce(usage.kafka.topic(USAGE), bytes(200 * 1024 * 1024), "x", 0)
    assert producer.flush(patient(60)) == 0
    usage.send(2, 0)
    with usage.metered():
        becomes(usage.counted, {0: 8, 1: 5}, 60)
    place = (6, "batch_unreadable")  # behind the one that came with it
    assert asked.rows(usage.dsn, 'select "offset"::int, reason from usage_refused') == [place]
    with usage.metered():
        usage.send(1, 0)
        becomes(usage.counted, {0: 9, 1: 5}, 60)


def test_a_position_of_an_earlier_release_is_taken_over(usage: Usage) -> None:
    usage.change("update stream_position set topic_id = '', leader_epoch = null, read_offset = null")
    with usage.metered() as stream:
        usage.send(2, 0)
        becomes(usage.counted, {0: 7, 1: 5}, 40)
        assert stream.why_not_ready() is None
    held = usage.offsets.ask([0]).answer()[0]
    wanted = "select topic_id, read_offset from stream_position where partition = 0 and follower = %s"
    found = asked.rows(usage.dsn, wanted, FOLLOWER)
    assert found == [(held.topic_id, 7)]
