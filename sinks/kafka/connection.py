"""How every process of ours talks to Kafka. Nothing acknowledged may be lost, so acks=all always."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from schemas.errors import InvariantViolation
from schemas.senders import Headers, Sender
from sinks import limits


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaConnection:
    """Address and security of a cluster. ``security`` holds librdkafka settings (sasl.*, ssl.*), never printed.

    ``prefix`` begins the name of every topic and group, so that several installations share one cluster. What is
    stored (owned partitions, outbox, positions) has the names of ``schemas.topics``, without it. ``senders`` are those
    that commands over this connection may be of: owners take none without.
    """

    bootstrap: str
    prefix: str = ""
    security: dict[str, str] = field(default_factory=dict, repr=False)
    senders: tuple[Sender, ...] = ()

    def signed(self, roles: tuple[str, ...], topic: str, key: str | None, value: bytes) -> Headers:
        """The headers of a command's record, by the first of our senders that may send it.

        Raises InvariantViolation when none may: who made this connection gave it another process's.
        """
        for sender in self.senders:
            if sender.name in roles:
                return sender.headers(topic, key, value)
        raise InvariantViolation(f"this process has no key of {' or '.join(roles)}")

    def topic(self, name: str) -> str:
        """What a topic of ``schemas.topics`` is called in the cluster."""
        return self.prefix + name

    def producer(self, client_id: str, **overrides: object) -> dict[str, Any]:
        """Settings of an idempotent producer that keeps order and partitions keys as a Java producer does."""
        return {
            "bootstrap.servers": self.bootstrap,
            "client.id": client_id,
            "acks": "all",
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "linger.ms": 0,
            "delivery.timeout.ms": limits.KAFKA_DELIVERY_TIMEOUT_MS,
            "queue.buffering.max.messages": limits.KAFKA_PRODUCER_QUEUE_MAX,
            "reconnect.backoff.max.ms": limits.KAFKA_RECONNECT_BACKOFF_MAX_MS,
            "log_level": 2,  # a broker that is away is said once by whoever needs it, not at every reconnect
            **self.security,
            **overrides,
        }

    def consumer(self, client_id: str, group: str, **overrides: object) -> dict[str, Any]:
        """Settings of a consumer that never commits offsets by itself: positions live beside the effects."""
        return {
            "bootstrap.servers": self.bootstrap,
            "client.id": client_id,
            "group.id": self.prefix + group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": limits.KAFKA_FETCH_WAIT_MS,
            "queued.max.messages.kbytes": limits.PREFETCH_KBYTES_MAX,
            "fetch.queue.backoff.ms": limits.KAFKA_FETCH_FULL_WAIT_MS,
            "reconnect.backoff.max.ms": limits.KAFKA_RECONNECT_BACKOFF_MAX_MS,
            "log_level": 2,  # a broker that is away is said once by whoever needs it, not at every reconnect
            **self.security,
            **overrides,
        }

    def admin(self) -> dict[str, Any]:
        """Settings of an admin client."""
        return {"bootstrap.servers": self.bootstrap, **self.security}
