"""Which topics and groups each kind of process may use, from what services declare. Nobody else may use any.

A process has a name and a password of its own at the embedded broker. What it may write follows from its roles as a
sender (``Operation.senders``, ``Topic.senders``); what it may read, from what it is. Signatures say the rest: a process
that may write to a topic still sends only what its keys let it say there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from schemas import senders
from schemas.limiter import topics as limiter_topics
from schemas.payments import topics as payments_topics
from schemas.services import OPERATIONS, SERVICES, TOPICS
from schemas.tenancy.service import MONITOR
from schemas.topics import RESULTS
from sinks.kafka.user import READER, KafkaUser

if TYPE_CHECKING:
    from schemas.service import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaAccess:
    """What one kind of process may use: topics by name, groups by what their names begin with."""

    roles: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    watched: tuple[str, ...] = ()  # groups whose members it may see, and not be one of
    answers: tuple[str, ...] = ()  # topics that it writes beside those of its roles
    sees_rules: bool = False  # who may do what

    def user(self, name: str, password: str, prefix: str) -> KafkaUser:
        """Such a process as the broker knows it; ``prefix`` begins all names there."""

        def named(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(prefix + name for name in names)

        return KafkaUser(
            name=name,
            password=password,
            writes=named(self.writes),
            reads=named(self.reads),
            groups=named(self.groups),
            watched=named(self.watched),
            sees_rules=self.sees_rules,
        )

    @property
    def writes(self) -> tuple[str, ...]:
        """Every topic that it may write."""
        return tuple(dict.fromkeys((*self.answers, *(topic for role in self.roles for topic in written_by(role)))))


def written_by(role: str) -> tuple[str, ...]:
    """The topics that a role of ``schemas.senders`` sends to."""
    if role == senders.PARKED:  # in whatever name a command was
        return tuple(service.commands_topic for service in SERVICES)
    commands = (operation.topic for operation in OPERATIONS.values() if role in operation.senders)
    return tuple(dict.fromkeys((*commands, *(topic.name for topic in TOPICS if role in topic.senders))))


def written_outside() -> tuple[str, ...]:
    """The topics that a trusted program outside sends to (``millrace producers``): those of callers."""
    commands = (operation.topic for operation in OPERATIONS.values() if operation.is_callers and operation.outside)
    return tuple(dict.fromkeys((*commands, *(topic.name for topic in TOPICS if senders.INGRESS in topic.senders))))


def owner_process(service: Service) -> str:
    """What the owners of a service are called as processes."""
    return "owner" if service.name == "payments" else f"{service.name}_owner"


def _streams(*services: Service) -> tuple[str, ...]:
    """What these tell: everything but commands and what was parked of them."""
    kept = ((service.events_topic, *(topic.name for topic in service.further_topics)) for service in services)
    return tuple(name for names in kept for name in names)


_CALLS: Final = (senders.INGRESS, senders.PUBLISHER, senders.OPERATORS, senders.REPAIRS, senders.PARKED)
_WIRED: Final = {
    "ingress": KafkaAccess(
        roles=(*_CALLS, senders.GATEWAY),  # the limiter in front of it is a gateway too
        reads=(RESULTS, *(service.events_topic for service in SERVICES)),  # events: that some came, for who waits
        groups=("millrace-ingress-", "millrace-api-limiter-"),
        watched=tuple(service.owner_group for service in SERVICES),  # for /readyz
    ),
    "processor_worker": KafkaAccess(
        roles=(senders.PROCESSOR_WORKER,), reads=(payments_topics.EVENTS,), groups=("processor-attempts",)
    ),
    "webhook_worker": KafkaAccess(roles=(senders.WEBHOOK_WORKER, senders.REPAIRS, senders.RECONCILE)),
    "merchant_webhooks": KafkaAccess(reads=(payments_topics.EVENTS,), groups=("merchant-webhooks",)),
    "clickhouse_sink": KafkaAccess(reads=_streams(*SERVICES), groups=("sink-",)),
    "limiter_usage": KafkaAccess(reads=(limiter_topics.DECISIONS,), groups=("limiter-usage",)),
    "limiter_leases": KafkaAccess(
        reads=(limiter_topics.LEASES, limiter_topics.IDENTITIES), groups=("limiter-leases", "limiter-identities")
    ),
    "limiter_gateway": KafkaAccess(roles=(senders.GATEWAY,), reads=(RESULTS,), groups=("millrace-limiter-gateway-",)),
    READER: KafkaAccess(reads=_streams(*SERVICES), groups=("reader",)),
}


def _of_owner(service: Service) -> KafkaAccess:
    answers = (service.events_topic, service.dead_letters_topic, RESULTS)
    reads = (service.commands_topic, service.events_topic)  # events: whether the database has all of them
    return KafkaAccess(reads=reads, groups=(service.owner_group,), answers=answers)


def _of_worker(service: Service, name: str) -> KafkaAccess:
    """Its service's streams, in groups of its name. Who watches that tenants are apart sees who may do what."""
    groups, sees_rules = (name.replace("_", "-"),), name == MONITOR.name
    roles = (senders.of_worker(name),)
    return KafkaAccess(roles=roles, reads=_streams(service), groups=groups, sees_rules=sees_rules)


ACCESS: Final[dict[str, KafkaAccess]] = {
    **_WIRED,
    **{owner_process(service): _of_owner(service) for service in SERVICES},
    **{worker.name: _of_worker(service, worker.name) for service in SERVICES for worker in service.workers},
}
