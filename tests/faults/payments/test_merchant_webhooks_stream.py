"""A sender stands still before an event that it cannot read; merchants are told of all that lies behind it later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from confluent_kafka import Producer

from schemas import stored_event, topics
from schemas.payments import topics as payments_topics
from tests.eventually import becomes, eventually, patient
from tests.worlds.payments.attempts_world import readiness
from tests.worlds.payments.merchant_webhook_world import MerchantWebhookWorld, merchant_webhook_system, shop, told
from tests.worlds.stream_positions import stored
from tests.worlds.upgraded_service import NEXT_SCHEMA_ID, of_next_release

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["merchant_webhook_system", "told"]
pytestmark = [pytest.mark.servers, pytest.mark.faults]


@pytest.fixture
def merchant(told: MerchantWebhookWorld) -> Iterator[Any]:
    caller = told.system.merchant()
    yield caller
    caller.http.close()


def test_an_unknown_schema_stops_its_partition_until_the_sender_is_upgraded(
    told: MerchantWebhookWorld, merchant: Any
) -> None:
    """An owner of the next release publishes an event again, as it would after a crash: it cannot be passed over."""
    with shop() as here:
        told.endpoint(merchant, here.url)
        old, port = told.launch()
        first = told.payment(merchant)
        becomes(lambda: here.versions(first), [1], 60, what="told")
        kept = position(told, first)
        publish_of_next_release(told, first)
        eventually(lambda: says(port, f"upgrade this process: schema {NEXT_SCHEMA_ID} is unknown"), what="not ready")
        behind, elsewhere = payment_in(told, merchant, first, same=True), payment_in(told, merchant, first, same=False)
        becomes(lambda: here.versions(elsewhere), [1], 30, what="other partitions go on")
        assert here.versions(behind) == []
        old.terminate()
        assert old.wait(patient(20)) == 0
        assert position(told, first) == kept
        told.launch(module="tests.worlds.upgraded_service")
        becomes(lambda: here.versions(behind), [1], 60, what="what lay behind it is told")
        assert here.versions(first) == here.versions(elsewhere) == [1]


def says(port: int, words: str) -> bool:
    answer = readiness(port)
    return answer is not None and answer[0] == 503 and words in answer[1]


def partition(intent_id: str) -> int:
    return topics.partition_for(intent_id, payments_topics.PARTITIONS)


def position(told: MerchantWebhookWorld, intent_id: str) -> tuple[int, int]:
    with psycopg.connect(told.system.settings.addresses().postgres_superuser_dsn) as connection:
        return stored(connection, "merchant_webhooks")[partition(intent_id)]


def payment_in(told: MerchantWebhookWorld, merchant: Any, other: str, *, same: bool) -> str:
    """A new payment in the same partition as another one, or in another partition."""
    while (partition(found := told.payment(merchant)) == partition(other)) is not same:
        pass
    return found


def publish_of_next_release(told: MerchantWebhookWorld, intent_id: str) -> None:
    """The event of a payment again, with a schema that is not ours yet."""
    ((payload,),) = told.system.rows("select payload from outbox where aggregate_key = %s", intent_id)
    kafka = told.system.settings.addresses().kafka
    producer = Producer(kafka.producer("test"))
    producer.produce(
        kafka.topic(payments_topics.EVENTS), of_next_release(stored_event.published(bytes(payload))), intent_id
    )
    assert producer.flush(patient(10)) == 0
