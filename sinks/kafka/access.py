"""Access to our broker: users with passwords (SCRAM), and the topics and groups that each may use (ACLs).

What is declared is made so: a rule that is not declared any more is taken away. Programs outside are users of their
own, which come and go while the broker runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from schemas.errors import Unavailable
from schemas.senders import OUTSIDE
from sinks import limits
from sinks.kafka.admin import KafkaAdmin
from sinks.kafka.user import KafkaUser

_ITERATIONS: Final = 4_096  # the least that Kafka takes: passwords are drawn from 192 bits
_ANY_HOST: Final = "*"
_CLUSTER: Final = "kafka-cluster"  # what the cluster is called in rules about itself


def ensure_users(client: dict[str, Any], users: Sequence[KafkaUser]) -> None:
    """These users have their passwords and rules when it returns; those outside stay as they are.

    ``client`` are the settings of an admin client that may do it. Raises Unavailable when the broker does not in time.
    """
    admin = KafkaAdmin(client)
    wanted = {rule for user in users for rule in rules_of(user)}

    def declared() -> set[AclBinding]:
        return {rule for rule in _rules(admin) if not rule.principal.startswith(_principal(OUTSIDE))}

    with _told("does not say who may use it"):
        _give_passwords(admin, users)
        found = declared()
        _withdraw(admin, found - wanted)
        _grant(admin, wanted - found)
        _await(lambda: _has(admin, users) and declared() == wanted)


def add_outside(client: dict[str, Any], user: KafkaUser) -> None:
    """A program outside may use the broker from now on. Raises Unavailable."""
    admin = KafkaAdmin(client)
    with _told(f"does not take {user.name}"):
        _give_passwords(admin, [user])
        _grant(admin, rules_of(user))
        _await(lambda: _has(admin, [user]) and rules_of(user) <= set(_rules(admin)))


def remove_outside(client: dict[str, Any], name: str) -> None:
    """A program outside may use the broker no more: its connections, too, are refused. Raises Unavailable."""
    admin = KafkaAdmin(client)
    with _told(f"does not let go of {name}"):
        _withdraw(admin, {rule for rule in _rules(admin) if rule.principal == _principal(name)})
        if _known(admin, [name]):
            mechanism = ScramMechanism.SCRAM_SHA_512
            _settle(admin.alter_user_scram_credentials([UserScramCredentialDeletion(name, mechanism)]))
            _await(lambda: not _known(admin, [name]))


def rules_beyond(client: dict[str, Any], users: Iterable[KafkaUser], outside: Container[str]) -> list[str]:
    """What anybody may do that is not declared for these users, in words; programs outside may write ``outside``.

    ``client`` are the settings of a user that sees the rules. Raises Unavailable.
    """
    declared = {rule for user in users for rule in rules_of(user)}
    with _told("does not say who may use it"):
        found = _rules(KafkaAdmin(client), limits.KAFKA_ADMIN_TIMEOUT_S)
    if not found:  # so the client tells a refusal
        raise Unavailable("Kafka does not show its rules to this user.")
    return sorted(_in_words(rule) for rule in found if rule not in declared and not _is_of_outside(rule, outside))


def _is_of_outside(rule: AclBinding, outside: Container[str]) -> bool:
    """Whether it lets a program outside write what such programs may."""
    return (
        rule.principal.startswith(_principal(OUTSIDE))
        and (rule.restype, rule.resource_pattern_type) == (ResourceType.TOPIC, ResourcePatternType.LITERAL)
        and rule.operation == AclOperation.WRITE
        and rule.name in outside
    )


def _in_words(rule: AclBinding) -> str:
    operation, kind = AclOperation(rule.operation).name.lower(), ResourceType(rule.restype).name.lower()
    what = f"{operation} {kind} {rule.name}"
    starts = "..." if rule.resource_pattern_type == ResourcePatternType.PREFIXED else ""
    return f"{rule.principal} may {what}{starts}"


@contextmanager
def _told(trouble: str) -> Iterator[None]:
    """What the client raises, as ours."""
    try:
        yield
    except KafkaException as error:
        raise Unavailable(f"Kafka {trouble}: {error.args[0].str()}") from error
    except TimeoutError as error:
        raise Unavailable(f"Kafka {trouble} in time.") from error


def rules_of(user: KafkaUser) -> set[AclBinding]:
    """What a user may do; nothing else."""
    wanted = [(ResourceType.TOPIC, name, ResourcePatternType.LITERAL, AclOperation.WRITE) for name in user.writes]
    wanted += [(ResourceType.TOPIC, name, ResourcePatternType.LITERAL, AclOperation.READ) for name in user.reads]
    wanted += [(ResourceType.GROUP, name, ResourcePatternType.PREFIXED, AclOperation.READ) for name in user.groups]
    wanted += [(ResourceType.GROUP, name, ResourcePatternType.LITERAL, AclOperation.DESCRIBE) for name in user.watched]
    if user.sees_rules:
        wanted.append((ResourceType.BROKER, _CLUSTER, ResourcePatternType.LITERAL, AclOperation.DESCRIBE))
    return {
        AclBinding(kind, name, pattern, _principal(user.name), _ANY_HOST, operation, AclPermissionType.ALLOW)
        for kind, name, pattern, operation in wanted
    }


def _principal(name: str) -> str:
    return f"User:{name}"


def _give_passwords(admin: KafkaAdmin, users: Sequence[KafkaUser]) -> None:
    how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, _ITERATIONS)
    given: list[UserScramCredentialAlteration] = [
        UserScramCredentialUpsertion(user.name, how, user.password.encode()) for user in users
    ]
    if given:
        _settle(admin.alter_user_scram_credentials(given))


def _known(admin: KafkaAdmin, names: Iterable[str]) -> set[str]:
    described: Any = admin.describe_user_scram_credentials(None)  # of all: one answer, where one is asked for by name
    return set(described.result(limits.KAFKA_TOPICS_TIMEOUT_S)) & set(names)


def _has(admin: KafkaAdmin, users: Sequence[KafkaUser]) -> bool:
    names = {user.name for user in users}
    return _known(admin, names) == names


def _rules(admin: KafkaAdmin, within_s: float = limits.KAFKA_TOPICS_TIMEOUT_S) -> list[AclBinding]:
    any_of: Any = None  # the wheel's types know no word for it
    anything = AclBindingFilter(
        ResourceType.ANY, any_of, ResourcePatternType.ANY, any_of, any_of, AclOperation.ANY, AclPermissionType.ANY
    )
    found: list[AclBinding] = admin.describe_acls(anything).result(within_s)
    return found


def _grant(admin: KafkaAdmin, rules: set[AclBinding]) -> None:
    if rules:
        _settle(admin.create_acls(list(rules)))


def _withdraw(admin: KafkaAdmin, rules: set[AclBinding]) -> None:
    exactly = [
        AclBindingFilter(
            rule.restype,
            rule.name,
            rule.resource_pattern_type,
            rule.principal,
            rule.host,
            rule.operation,
            rule.permission_type,
        )
        for rule in rules
    ]
    if exactly:
        _settle(admin.delete_acls(exactly))


def _settle(asked: dict[Any, Any]) -> None:
    for future in asked.values():
        future.result(limits.KAFKA_TOPICS_TIMEOUT_S)


def _await(is_so: Callable[[], bool]) -> None:
    """The controller has decided; the broker hears of it a moment later, and refuses whoever comes before."""
    deadline = time.monotonic() + limits.KAFKA_TOPICS_TIMEOUT_S
    while not is_so():
        if time.monotonic() > deadline:
            raise Unavailable("Kafka does not follow what was said of its users.")
        time.sleep(limits.HEALTH_POLL_INTERVAL_S)
