"""Programs outside that write commands of tenants themselves: each in the name of its own tenant, as its members may."""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from schemas.avro import codec
from schemas.records import Command
from schemas.senders import PARKED
from schemas.tenancy.operations import OPERATIONS, scope_of
from schemas.tenancy.usage_event import record_key
from schemas.tenancy.usage_topic import USAGE
from sinks.kafka.delivery import why_not_delivered
from tests.eventually import becomes, patient
from tests.worlds.desk_world import OPEN, a_tenant, an_event, staff
from tests.worlds.public_system import public

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.public_system import PublicSystem

__all__ = ["public"]  # the fixture of this module
pytestmark = pytest.mark.servers
OPERATION = {one.name: one for one in OPERATIONS}


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Clients that a test opened end with it."""
    yield
    while OPEN:
        OPEN.pop().close()


def _command(name: str, scope: str, tenant_id: str, payload: dict[str, Any], **envelope: Any) -> Command:
    key = uuid.uuid4().hex
    return Command(
        **{
            "operation": name,
            "request_id": f"rq_{key}",
            "idempotency_key": key,
            "aggregate_key": tenant_id,
            "expected_version": None,
            "scope": scope,
            "request_hash": OPERATION[name].request_hash(tenant_id, payload),
            "trace_id": key,
            "issued_at": time.time_ns() // 1_000,
            "deadline_at": 0,
            "reply_to": -1,
            "reply_id": 0,
            "payload": payload,
            **envelope,
        }
    )


def test_what_staff_calls_is_sent_by_no_program_outside(public: PublicSystem) -> None:
    """Its own tenant's data it may change; nobody's keys, life, quotas, credit or place, not of its own tenant either."""
    own, other = a_tenant(public), a_tenant(public)
    resource = own.done("POST", "/v1/resources", {"kept": 1})
    keys, name = public.settings.sender_keys(), f"t{uuid.uuid4().hex[:8]}"
    keys.add(name, (scope_of(own.name),))
    (sender,) = keys.senders([f"producer.{name}"])
    scope, payload = scope_of(own.name), {"reason": "mine"}
    gone = {"resource_id": resource["resource_id"]}
    letters = []
    for command in (
        *(_command("shred_tenant_keys", scope, tenant.name, payload) for tenant in (other, own)),
        _command("suspend_tenant", scope, other.name, payload | {"mode": "full"}),
        _command("delete_resource", scope, own.name, gone, expected_version=1),
    ):
        topic, key, value = OPERATION[command.operation].topic, command.aggregate_key, codec.encode_command(command)
        letters.append((topic, value, key, -1, sender.headers(topic, key, value)))
    kafka = public.settings.kafka_as(PARKED)  # a user that may write there; the records are signed by the program
    assert why_not_delivered(kafka, Producer(kafka.producer("test-outside")), letters) is None
    path = f"/v1/resources/{resource['resource_id']}"
    becomes(lambda: own.http.get(path).status_code, 404)  # decided behind the others of its partition
    ops = staff(public, "tenants:admin")
    for tenant in (own, other):  # what is decided behind the records finds keys, and a tenant that is served
        tenant.done("POST", "/v1/resources", {"readable": True})
        assert ops.http.get(f"/v1/tenants/{tenant.name}").json()["state"] == "active"
    keys.remove(name)


def test_who_writes_to_kafka_counts_for_the_tenants_of_its_key_and_no_others(public: PublicSystem) -> None:
    tenant, other = a_tenant(public), a_tenant(public)
    keys = public.settings.sender_keys()
    name = f"t{uuid.uuid4().hex[:8]}"
    keys.add(name, (f"tenant:{tenant.name}",))
    (sender,) = keys.senders([f"producer.{name}"])
    kafka = public.settings.addresses().kafka
    producer = Producer(kafka.producer("meter"))
    nested = b'{"data": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"  # deeper than any parser of ours goes
    for owner, id_, said, is_signed in (
        (tenant, "n", nested, True),
        (tenant, "a", {"traceparent": "00-1"}, True),
        (other, "b", {}, True),
        (tenant, "c", {}, False),
        (tenant, "d", {"trace_id": "1"}, True),  # no name of an attribute
    ):
        value = said if isinstance(said, bytes) else json.dumps(an_event(id_, 4) | said).encode()
        key = record_key(owner.name, "/meter", id_)
        headers = sender.headers(USAGE, key, value) if is_signed else []
        producer.produce(kafka.topic(USAGE), value=value, key=key, headers=headers)
    producer.flush(patient(30))
    becomes(lambda: tenant.used("tokens"), [(4, 1)])
    assert other.meter([an_event("z", 1)]) == 202
    becomes(lambda: other.used("tokens"), [(1, 1)])  # what was sent before it did not count
    assert tenant.used("tokens") == [(4, 1)]
    keys.remove(name)
