"""Who may write and read what at the broker. Written down here once more, so that a wider right is seen."""

from __future__ import annotations

from compose.settings.kafka_access import ACCESS, written_outside
from compose.settings.service_processes import PROCESSES
from compose.settings.settings import SERVICES as WIRED
from schemas.services import SERVICES, TOPICS
from sinks.kafka.user import READER

WITHOUT_KAFKA = {"simulator", "vault", "social_media"}
WRITERS = {
    "commands.payments.v1": {"ingress", "processor_worker", "webhook_worker"},
    "commands.limiter.v1": {"ingress", "limiter_gateway"},
    "commands.tenancy.v1": {"ingress"},
    "commands.social.v1": {"ingress", "social_scanner", "social_propagation", "social_eraser"},
    "limiter.decisions.v1": {"ingress", "limiter_gateway"},
    "limiter.leases.v1": {"ingress", "limiter_gateway"},
    "limiter.identities.v1": {"ingress", "limiter_gateway"},
    "tenancy.usage.v1": {"ingress"},
    "results.v1": {"owner", "limiter_owner", "tenancy_owner", "social_owner"},
}


def test_every_process_that_uses_kafka_is_a_user_and_no_other() -> None:
    assert set(ACCESS) == {*WIRED, *PROCESSES, READER} - WITHOUT_KAFKA


def test_a_topic_is_written_by_those_who_must() -> None:
    wanted = WRITERS | {
        topic: {"owner" if service.name == "payments" else f"{service.name}_owner"}
        for service in SERVICES
        for topic in (service.events_topic, service.dead_letters_topic)
    }
    found = {topic.name: {name for name, access in ACCESS.items() if topic.name in access.writes} for topic in TOPICS}
    assert found == wanted


def test_commands_are_read_by_their_owners_and_nothing_of_another_service_by_workers() -> None:
    for service in SERVICES:
        owner = "owner" if service.name == "payments" else f"{service.name}_owner"
        assert {name for name, one in ACCESS.items() if service.commands_topic in one.reads} == {owner}
        own = {topic.name for topic in service.topics}
        for worker in service.workers:
            assert set(ACCESS[worker.name].reads) <= own - {service.commands_topic, service.dead_letters_topic}


def test_who_only_reads_writes_nothing() -> None:
    for name in (READER, "clickhouse_sink", "merchant_webhooks", "limiter_usage", "limiter_leases"):
        assert ACCESS[name].writes == ()


def test_owners_are_seen_at_the_ingress_and_joined_by_nobody_else() -> None:
    for service in SERVICES:
        owner = "owner" if service.name == "payments" else f"{service.name}_owner"
        assert {name for name, one in ACCESS.items() if service.owner_group in one.groups} == {owner}
        assert {name for name, one in ACCESS.items() if service.owner_group in one.watched} == {"ingress"}


def test_a_program_outside_writes_what_callers_write() -> None:
    callers = ("payments", "tenancy", "social")  # policies of the limiter are published at the ingress alone
    assert set(written_outside()) == {*(f"commands.{name}.v1" for name in callers), "tenancy.usage.v1"}
