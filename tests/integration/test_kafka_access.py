"""The embedded broker lets each kind of process do what is declared for it, and nobody else do anything."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin._acl import AclOperation
from msgspec import structs
from typer.testing import CliRunner

from compose import limits
from compose.cli import app
from compose.isolation.canaries import Canary
from compose.isolation.stream_probes import StreamProbes
from compose.settings.kafka_access import ACCESS, written_outside
from schemas.errors import Unavailable
from schemas.services import TOPICS
from sinks.kafka.access import add_outside, ensure_users, remove_outside
from sinks.kafka.admin import KafkaAdmin
from sinks.kafka.connection import KafkaConnection
from sinks.kafka.topics import ensure_topics
from sinks.kafka.user import BROKER, KafkaUser, credentials
from tests.eventually import eventually, patient
from tests.servers import run_servers

if TYPE_CHECKING:
    from compose.settings.settings import Settings

pytestmark = pytest.mark.servers
NAMES = [topic.name for topic in TOPICS]
_RECORDS_READ_MAX = 10_000
MONITOR = "tenancy_monitor"
_RUN = uuid.uuid4().hex
ONE, TWO = (Canary(f"tn_{n}", f"rs_{n}_{_RUN}", f"marker {n} {_RUN}", f"usage {n} {_RUN}") for n in ("one", "two"))
REFUSED = {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED}


@pytest.fixture(scope="module")
def servers() -> Settings:
    """Their broker is one of ours, with topics of no prefix: those that the rules name."""
    settings = run_servers()
    ensure_topics(settings.addresses().kafka)
    return settings


def _as(servers: Settings, user: str, **security: str) -> KafkaConnection:
    known = servers.addresses().kafka_of(user)
    return KafkaConnection(bootstrap=known.bootstrap, security=known.security | security)


def written(kafka: KafkaConnection) -> set[str]:
    """The topics that take a record of this user; it is of no key that an owner knows, and so never decided."""
    taken: set[str] = set()
    refused: set[str] = set()

    def told(error: Any, message: Any) -> None:
        (taken if error is None else refused).add(message.topic())
        assert error is None or error.code() in REFUSED, error

    overrides = {
        "enable.idempotence": False,
        "delivery.timeout.ms": 20_000,
    }  # who may write nothing gets no producer id
    producer = Producer(kafka.producer("test-access", **overrides))
    for name in NAMES:
        producer.produce(name, b"", partition=0, on_delivery=told)
    assert producer.flush(patient(30)) == 0
    assert taken | refused == set(NAMES)
    return taken


def read(kafka: KafkaConnection) -> set[str]:
    """The topics that this user may read, as the broker itself judges it."""
    admin = KafkaAdmin(kafka.admin())
    asked = admin.describe_topics(
        TopicCollection(NAMES), include_authorized_operations=True, request_timeout=patient(20)
    )
    found = set()
    for name, future in asked.items():
        try:
            described = future.result(patient(20))
        except KafkaException as error:
            assert error.args[0].code() in REFUSED, error
        else:
            found |= {name} if AclOperation.READ in described.authorized_operations else set()
    return found


def comes_to_the_end(kafka: KafkaConnection, group: str, names: tuple[str, ...]) -> None:
    """This user reads all that lies in these topics."""
    consumer = Consumer(kafka.consumer("test-access", group, **{"enable.partition.eof": True}))
    left = set(names)

    def all_read() -> bool:
        for message in consumer.consume(_RECORDS_READ_MAX, 0.1):  # other tests of the run may have left many
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                left.discard(message.topic())
        return not left

    try:
        consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING) for name in names])
        eventually(all_read, 30)
    finally:
        consumer.close()


def joined(kafka: KafkaConnection, group: str) -> bool:
    """Whether this user may be a member of a group, as the broker judges it."""
    admin = KafkaAdmin(kafka.admin())
    asked = admin.describe_consumer_groups([group], include_authorized_operations=True, request_timeout=patient(20))
    try:
        asked[group].result(patient(20))
    except KafkaException as error:
        assert error.args[0].code() in REFUSED | {KafkaError.GROUP_ID_NOT_FOUND}, error
        return error.args[0].code() not in REFUSED
    return True


@pytest.mark.parametrize(
    "changed",
    [{"security.protocol": "PLAINTEXT"}, {"sasl.password": "guessed"}, {"sasl.username": "nobody"}],
    ids=["plain", "wrong password", "unknown user"],
)
def test_who_does_not_prove_who_it_is_reaches_nothing(servers: Settings, changed: dict[str, str]) -> None:
    kafka = _as(servers, "owner", **changed)
    with pytest.raises(KafkaException):
        KafkaAdmin(kafka.admin() | {"log_level": 0}).list_topics(timeout=3)


def test_the_brokers_own_door_needs_the_brokers_password(servers: Settings) -> None:
    """The one user that is known before all others, at the clients' listener and at the controller's."""
    plain = {"sasl.mechanism": "PLAIN", "sasl.username": BROKER}
    with pytest.raises(KafkaException):
        KafkaAdmin(_as(servers, "owner", **plain).admin() | {"log_level": 0}).list_topics(timeout=3)


@pytest.mark.parametrize("process", sorted(ACCESS))
def test_each_process_may_do_what_is_declared_and_no_more(servers: Settings, process: str) -> None:
    access, kafka = ACCESS[process], _as(servers, process)
    group = f"{next(iter(access.groups), 'none')}test"
    assert written(kafka) == set(access.writes)
    assert read(kafka) == set(access.reads)
    if access.reads:
        comes_to_the_end(kafka, group, access.reads)
        assert joined(kafka, group)
    assert not joined(kafka, "owner-of-nobody")


def test_a_rule_that_is_not_declared_any_more_is_taken_away(servers: Settings) -> None:
    """As after an upgrade; a program outside, which nobody declares, keeps what it has until it is removed."""
    broker = servers.addresses().kafka.admin() | credentials(BROKER, servers.the_home().secret("kafka_broker"))
    broker |= {"sasl.mechanism": "PLAIN"}
    former = KafkaUser(name="former", password="f", writes=("results.v1",))
    outside = KafkaUser(name="producer.test", password="o", writes=("commands.payments.v1",))
    declared = servers.kafka_users()
    ensure_users(broker, [*declared, former])
    add_outside(broker, outside)
    assert written(_as(servers, "owner", **credentials("former", "f"))) == {"results.v1"}
    ensure_users(broker, declared)
    assert written(_as(servers, "owner", **credentials("former", "f"))) == set()
    of_outside = _as(servers, "owner", **credentials("producer.test", "o"))
    assert written(of_outside) == {"commands.payments.v1"}
    remove_outside(broker, "producer.test")
    remove_outside(broker, "producer.test")
    with pytest.raises(KafkaException):
        KafkaAdmin(of_outside.admin() | {"log_level": 0}).list_topics(timeout=3)


def test_the_isolation_monitor_sees_who_may_do_more_than_was_declared(servers: Settings) -> None:
    """Of everybody by the rules, and of its own user by what the broker shows to it."""
    broker = servers.addresses().kafka.admin() | credentials(BROKER, servers.the_home().secret("kafka_broker"))
    broker |= {"sasl.mechanism": "PLAIN"}
    declared = servers.kafka_users()
    ensure_users(broker, declared)
    probes = StreamProbes(_as(servers, MONITOR), "test-isolation", has_rules=True)

    def foreign() -> list[str]:
        probes = StreamProbes(_as(servers, MONITOR), "test-isolation", has_rules=True)  # one asks once a minute
        return [
            found.evidence
            for found in probes.probes((ONE, TWO))
            if found.probe == "topics of others" and found.evidence
        ]

    assert (probes.rules_beyond(), foreign()) == ([], [])
    outside = KafkaUser(name="producer.test", password="o", writes=("commands.payments.v1",))
    add_outside(broker, outside)
    assert probes.rules_beyond() == []
    (own,) = [user for user in declared if user.name == MONITOR]
    ensure_users(
        broker,
        [
            *(user for user in declared if user.name != MONITOR),
            structs.replace(own, reads=(*own.reads, "commands.tenancy.v1"), writes=("results.v1",)),
            KafkaUser(name="former", password="f", groups=("owner-",)),
        ],
    )
    add_outside(broker, structs.replace(outside, reads=("events.tenancy.v1",), writes=("results.v1",)))
    assert probes.rules_beyond() == [
        "User:former may read group owner-...",
        "User:producer.test may read topic events.tenancy.v1",
        "User:producer.test may write topic results.v1",
        "User:tenancy_monitor may read topic commands.tenancy.v1",
        "User:tenancy_monitor may write topic results.v1",
    ]
    assert foreign() == ["this process may use commands.tenancy.v1, results.v1"]
    remove_outside(broker, outside.name)
    ensure_users(broker, declared)
    assert (probes.rules_beyond(), foreign()) == ([], [])
    assert StreamProbes(_as(servers, MONITOR), "test-isolation", has_rules=False).rules_beyond() is None
    with pytest.raises(Unavailable):  # no other user sees the rules
        StreamProbes(_as(servers, "owner"), "test-isolation", has_rules=True).rules_beyond()


def test_the_isolation_monitor_finds_what_is_one_canarys_under_the_key_of_another(servers: Settings) -> None:
    """What was there before it looked first, what came since, and of much the newest; each record is told once."""
    kafka = servers.addresses().kafka
    producer = Producer(kafka.producer("test-isolation"))
    probes = StreamProbes(_as(servers, MONITOR), "test-isolation", has_rules=False)

    def told(*records: tuple[str, str, str]) -> list[tuple[str | None, bool]]:
        for topic, key, value in records:
            producer.produce(topic, value, key)
        assert producer.flush(patient(30)) == 0
        return [(found.evidence, found.is_leak) for found in probes.probes((ONE, TWO))]

    usage, events = "tenancy.usage.v1", "events.tenancy.v1"
    mixed = "what is tn_one's is in tenancy.usage.v1 under the key of tn_two"
    assert told((usage, "tn_two:00", f'{{"subject": "{ONE.subject}"}}')) == [(mixed, True)]
    assert told() == [(None, False)]
    assert told((events, "tn_else", ONE.resource_id), (usage, "tn_one:00", ONE.subject)) == [
        ("what is tn_one's is in events.tenancy.v1 under the key of tn_else", True)
    ]
    assert told((usage, "tn_two:00", TWO.subject), (events, "tn_one", ONE.resource_id)) == [(None, False)]
    assert told((events, "tn_one", ONE.marker)) == [("a canary's payload is in events.tenancy.v1, unsealed", True)]
    many = [(usage, "tn_two:00", "more")] * limits.ISOLATION_RECORDS_MAX
    assert told((usage, "tn_two:00", ONE.subject), *many) == [(None, False)]  # what is not looked at is a bound


def test_a_program_outside_gets_what_it_needs_and_loses_it(servers: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that is handed to it opens the broker, for the topics of callers; its own removal closes it."""
    monkeypatch.setenv("MILLRACE_HOME", str(servers.the_home().path))
    name = f"t{uuid.uuid4().hex[:8]}"
    made = json.loads(_millrace("producers", "add", name, "--merchant", "m_1", "--json"))
    given = json.loads(Path(made["key_file"]).read_text())["kafka"]
    assert written(_as(servers, "owner", **given)) == set(written_outside())
    _millrace("producers", "remove", name)
    with pytest.raises(KafkaException):
        KafkaAdmin(_as(servers, "owner", **given).admin() | {"log_level": 0}).list_topics(timeout=3)


def _millrace(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return done.output
