"""Every service of this installation, and what follows from them: operations by name and record, topics.

One line adds a service. Each layer has a module ``service`` in the service's folder there; ``MILLRACE_SERVICE_MODULES``
names modules of further ones (each with SERVICE, a ``schemas.service.Service``), for services that live elsewhere.
"""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from typing import Final

from schemas.limiter.service import SERVICE as LIMITER
from schemas.operation import Operation
from schemas.payments.service import SERVICE as PAYMENTS
from schemas.senders import PARKED
from schemas.service import Service
from schemas.social.service import SERVICE as SOCIAL
from schemas.tenancy.service import SERVICE as TENANCY
from schemas.topics import RESULTS_TOPIC, Topic


def further(module: str) -> Service:
    """The service that a module of another package declares; the process ends at its start when there is none."""
    try:
        found: Service = import_module(module).SERVICE
    except (ImportError, AttributeError) as error:
        sys.exit(f"MILLRACE_SERVICE_MODULES: {module} gives no service: {error}")
    return found


_FURTHER: Final = os.environ.get("MILLRACE_SERVICE_MODULES", "").split()

SERVICES: Final[tuple[Service, ...]] = (
    PAYMENTS,
    LIMITER,
    TENANCY,
    SOCIAL,
    *map(further, _FURTHER),
)
#: those that lie in packages of their own
FURTHER: Final = tuple(service for service in SERVICES if service.home)
BY_NAME: Final = {service.name: service for service in SERVICES}
OPERATIONS: Final[dict[str, Operation]] = {o.name: o for service in SERVICES for o in service.operations}
BY_RECORD: Final = {o.record: o for o in OPERATIONS.values()}
EVENT_BY_RECORD: Final = {type_.record: (service, type_) for service in SERVICES for type_ in service.event_types}
TOPICS: Final[tuple[Topic, ...]] = (*(topic for service in SERVICES for topic in service.topics), RESULTS_TOPIC)
#: the token scopes that read anything, and those that change anything
READ_SCOPES: Final = tuple(dict.fromkeys(scope for service in SERVICES for scope in service.read_scopes))
WRITE_SCOPES: Final = tuple(dict.fromkeys(operation.scope for operation in OPERATIONS.values() if operation.scope))

_PATTERNS: Final = tuple(
    (re.compile(re.escape(o.template).replace(r"\{id\}", f"(?P<id>{o.id_form.pattern})") + r"\Z"), o)
    for o in OPERATIONS.values()
    if o.scope
)


def senders_to(topic: str) -> frozenset[str]:
    """The roles whose records a topic takes, as operations and topics declare them: nobody else's are looked at."""
    of_commands = {role for o in OPERATIONS.values() if o.topic == topic for role in o.senders}
    retried = {PARKED for service in SERVICES if service.commands_topic == topic}  # in whatever name a command was
    return frozenset(of_commands | retried | {role for one in TOPICS if one.name == topic for role in one.senders})


def find(text: str) -> tuple[Operation, str | None] | None:
    """The operation that ``METHOD path`` names and the id in it; None when no client operation is so named."""
    for pattern, operation in _PATTERNS:
        if match := pattern.match(text):
            return operation, match.groupdict().get("id")
    return None
