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
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclOperation
from typer.testing import CliRunner

from compose.cli import app
from compose.settings.kafka_access import ACCESS, written_outside
from schemas.services import TOPICS
from sinks.kafka.access import add_outside, ensure_users, remove_outside
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
    admin = AdminClient(kafka.admin())
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
    admin = AdminClient(kafka.admin())
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
        AdminClient(kafka.admin() | {"log_level": 0}).list_topics(timeout=3)


def test_the_brokers_own_door_needs_the_brokers_password(servers: Settings) -> None:
    """The one user that is known before all others, at the clients' listener and at the controller's."""
    plain = {"sasl.mechanism": "PLAIN", "sasl.username": BROKER}
    with pytest.raises(KafkaException):
        AdminClient(_as(servers, "owner", **plain).admin() | {"log_level": 0}).list_topics(timeout=3)


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
        AdminClient(of_outside.admin() | {"log_level": 0}).list_topics(timeout=3)


def test_a_program_outside_gets_what_it_needs_and_loses_it(servers: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that is handed to it opens the broker, for the topics of callers; its own removal closes it."""
    monkeypatch.setenv("MILLRACE_HOME", str(servers.the_home().path))
    name = f"t{uuid.uuid4().hex[:8]}"
    made = json.loads(_millrace("producers", "add", name, "--merchant", "m_1", "--json"))
    given = json.loads(Path(made["key_file"]).read_text())["kafka"]
    assert written(_as(servers, "owner", **given)) == set(written_outside())
    _millrace("producers", "remove", name)
    with pytest.raises(KafkaException):
        AdminClient(_as(servers, "owner", **given).admin() | {"log_level": 0}).list_topics(timeout=3)


def _millrace(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return done.output
