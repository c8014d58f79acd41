"""Apache Kafka 4 as one broker and controller (KRaft) on loopback."""

from __future__ import annotations

import logging
import signal
import socket
import uuid
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException

from compose import limits
from compose.stack.errors import StackError
from compose.stack.kafka_jars import archive_path, class_path, java
from compose.stack.ports import LOOPBACK
from compose.stack.prepared import prepare_by
from schemas.errors import Unavailable
from sinks import private_file
from sinks.kafka.access import ensure_users
from sinks.kafka.admin import KafkaAdmin
from sinks.kafka.user import BROKER, OPERATOR, credentials

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from sinks.kafka.user import KafkaUser


# Indexes of a segment are made whole in advance, two for each partition: an entry for each 64 KiB fills 24 KiB of the
# larger one at most. By default they are 10 MiB, and the kernel zeroes what is read ahead of each.
_CONFIGURATION = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
listeners=CLIENTS://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=CLIENTS://{host}:{port}
listener.security.protocol.map=CLIENTS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=CLIENTS
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.mechanism.controller.protocol=PLAIN
listener.name.clients.sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN
listener.name.clients.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.clients.plain.sasl.jaas.config={broker_login}
listener.name.controller.sasl.enabled.mechanisms=PLAIN
listener.name.controller.plain.sasl.jaas.config={broker_login}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=false
super.users=User:{broker};User:{operator}
log.dirs={data}
num.network.threads=1
num.io.threads=2
metadata.max.idle.interval.ms=0
num.recovery.threads.per.data.dir=2
log.segment.bytes=134217728
log.index.interval.bytes=65536
log.index.size.max.bytes=65536
message.max.bytes={message_bytes_max}
replica.fetch.max.bytes={message_bytes_max}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=8
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=2
log.cleaner.dedupe.buffer.size={cleaner_bytes}
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms={session_timeout_ms_min}
"""

#: the broker's own user, and no other: a controller knows no users but those of its configuration
_BROKER_LOGIN: Final = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="{broker}" password="{password}" user_{broker}="{password}";'
)

_LOGGING = """\
rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{ISO8601} %p %c: %m%n
"""


_RECORDED: Final = (
    # adapters in the archive of JDK 25 do not link again, and every start would warn about it
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-AOTAdapterCaching",
    "-XX:-AOTStubCaching",
    "-XX:CompileThresholdScaling=0.2",  # what is called often by day is called a fifth as often while it is recorded
)
#: librdkafka reports every refused connection of a broker that is not up yet
_QUIET: Final = logging.getLogger("compose.stack.kafka.health")
_QUIET.disabled = True


@dataclass(slots=True)
class Kafka:
    """One broker; its data survive kill -9 because the page cache does, and a replica set is a cluster's matter."""

    data: Path
    port: int
    controller_port: int
    password: str = field(repr=False)  # of the broker's own user
    users: Callable[[], Sequence[KafkaUser]] = tuple
    name: str = "kafka"
    stop_signal: signal.Signals = signal.SIGTERM
    _asking: KafkaAdmin | None = field(default=None, init=False, repr=False)  # while it answers

    @property
    def address(self) -> str:
        """The bootstrap server."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def _configuration(self) -> Path:
        return self.data / "server.properties"

    @property
    def _logging(self) -> Path:
        return self.data / "log4j2.properties"

    def prepare(self) -> None:
        """Writes the configuration and, once, formats the storage."""
        self.data.mkdir(parents=True, exist_ok=True)
        logs = self.data / "topics"
        text = _CONFIGURATION.format(
            broker=BROKER,
            operator=OPERATOR,
            broker_login=_BROKER_LOGIN.format(broker=BROKER, password=self.password),
            host=LOOPBACK,
            port=self.port,
            controller_port=self.controller_port,
            data=logs,
            message_bytes_max=limits.KAFKA_MESSAGE_BYTES_MAX,
            cleaner_bytes=limits.KAFKA_CLEANER_BYTES,
            session_timeout_ms_min=limits.KAFKA_SESSION_TIMEOUT_MS_MIN,
        )
        private_file.replace(self._configuration, text)
        self._logging.write_text(_LOGGING)
        if not (logs / "meta.properties").exists():
            self._format()

    def _format(self) -> None:
        # Version 4 ids may begin with a dash, which the tool takes for an option: the option and value are one word.
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = [
            "kafka.tools.StorageTool",
            "format",
            f"--cluster-id={cluster_id}",
            "--config",
            str(self._configuration),
        ]
        prepare_by([*self._java(self._compiled()), *tool], f"Kafka cannot format {self.data}")

    def command(self) -> Sequence[str]:
        """The broker in the foreground."""
        return self._run(self._compiled())

    def recorded(self, archive: Path) -> Sequence[str]:
        """The same; at its end Java writes what it loaded, and what was called often."""
        return self._run([*_RECORDED, f"-XX:AOTCacheOutput={archive}"])

    def _run(self, compiled: Sequence[str]) -> Sequence[str]:
        return [*self._java(compiled), "kafka.Kafka", str(self._configuration)]

    def _java(self, compiled: Sequence[str]) -> list[str]:
        return [
            java(),
            *compiled,
            f"-Xmx{limits.KAFKA_HEAP_MEGABYTES_MAX}m",
            "-XX:+UseSerialGC",
            # everything stands still while it is collected: often and short delays nobody, seldom and long is the p99
            f"-Xmn{limits.KAFKA_YOUNG_MEGABYTES}m",
            # Whenever compiled code has grown by 15 % of what may be, everything stands still for a whole collection
            # of the heap: with Java's own bound of 48 MiB in the first minute under load.
            f"-XX:ReservedCodeCacheSize={limits.KAFKA_CODE_MEGABYTES_MAX}m",
            # the way to a page is long on a virtual machine, and large pages are few: a quarter less when idle
            "-XX:+UseTransparentHugePages",
            "-XX:+ExitOnOutOfMemoryError",
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={self._logging}",
            "-cp",
            class_path(),
        ]

    @staticmethod
    def _compiled() -> list[str]:
        """Java compiles what the archive says is called often, and well, at once.

        Without one it would find that out under load, beside all the others on a few cores: there its first compiler
        suffices, and halves what a record costs in the first minutes (``millrace bench http``).
        """
        archive = archive_path()
        return [f"-XX:AOTCache={archive}"] if archive.exists() else ["-XX:TieredStopAtLevel=1"]

    def environment(self) -> Mapping[str, str]:
        """Nothing is added."""
        return {}

    def unhealthy(self) -> str | None:
        """None once the broker serves metadata."""
        try:
            # First the plain port: librdkafka would go on trying for the whole timeout.
            socket.create_connection((LOOPBACK, self.port), limits.HEALTH_CHECK_TIMEOUT_S).close()
        except OSError as error:
            self._asking = None
            return str(error)
        if self._asking is None:
            self._asking = KafkaAdmin(self.as_itself(), logger=_QUIET)
        try:
            self._asking.list_topics(timeout=limits.HEALTH_CHECK_TIMEOUT_S)
        except KafkaException as error:
            self._asking = None  # it would wait before it connects again, longer each time
            return str(error.args[0].str())
        return None

    def initialize(self) -> None:
        """Its users have their passwords, and may do what is declared; topics are the application's matter."""
        try:
            ensure_users(self.as_itself(), self.users())
        except Unavailable as error:
            raise StackError(error.public) from error

    def as_itself(self) -> dict[str, Any]:
        """The settings of a client that may do anything."""
        return {
            "bootstrap.servers": self.address,
            **credentials(BROKER, self.password),
            "sasl.mechanism": "PLAIN",  # this one user is known before any other can be made
        }
