"""What is parked is decided over the console: commands retried or discarded by a person, early webhooks looked at."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.eventually import becomes
from tests.worlds.payments.console_world import HOSTILE, Visitor, Visitors, ann, parked_at, parked_payment, visitors
from tests.worlds.payments.repair_world import audited
from tests.worlds.public_system import merchant, public

if TYPE_CHECKING:
    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["ann", "merchant", "public", "visitors"]  # the fixtures of this module
pytestmark = pytest.mark.servers


def test_a_parked_command_is_retried_and_carried_out_once(
    visitors: Visitors, public: PublicSystem, ann: Visitor, merchant: Merchant
) -> None:
    payment = parked_payment(public, merchant)
    form, queue = parked_at(public, payment), "/console/queues/parked"
    place = form.removeprefix(f"{queue}/")
    fields = {"decision": "retry", "note": "the constraint is gone"}
    assert payment in ann.get(queue).text
    assert ann.http.post(form, data=fields).status_code == 403  # without its form token
    reader = visitors("m_parked_reader", "console:read")
    assert reader.post(form, page=queue, **fields).status_code == 403
    assert ann.post(form, page=queue, **fields | {"note": " "}).status_code == 422
    assert ann.post(form, page=queue, **fields | {"decision": "forget"}).status_code == 422
    assert payment in ann.get(queue).text
    assert ann.post(form, page=queue, **fields).headers["location"] == queue
    becomes(lambda: merchant.fresh(f"/v1/payment_intents/{payment}").json()["state"], "succeeded", 60)
    assert payment not in ann.get(queue).text
    assert ann.post(form, page=queue, **fields).status_code == 409
    assert ann.post(form, page=queue, **fields | {"decision": "discard"}).status_code == 409
    assert len(public.rows("select 1 from processor_attempt where intent_id = %s", payment)) == 1
    assert [row for row in audited(public, place) if row[2] == "done"] == [("m_ann", "parked.retry", "done")]
    assert len(audited(public, place)) == 7, "refusals stand in the log too"


def test_a_parked_command_that_is_discarded_is_never_carried_out(
    public: PublicSystem, ann: Visitor, merchant: Merchant
) -> None:
    payment = parked_payment(public, merchant)
    form, queue = parked_at(public, payment), "/console/queues/parked"
    assert ann.post(form, page=queue, decision="discard", note="sent by mistake").status_code == 303
    assert merchant.act(payment, "cancel").status_code == 200, "its object works again"
    assert public.rows("select 1 from processor_attempt where intent_id = %s", payment) == []
    ((state, who, note),) = public.rows(
        "select state, resolved_by, resolution_note from dead_letter where aggregate_key = %s", payment
    )
    assert (state, who, note) == ("discarded", "m_ann", "sent by mistake")


@pytest.mark.parametrize(
    "place", ["t/0/0", "t/x/0", "t/0/-1", f"t/0/{2**63}", f"t/{2**31}/0", f"t/0/{'9' * 5_000}", "%00/0/0"]
)
def test_nothing_is_parked_at_other_places(ann: Visitor, place: str) -> None:
    fields = {"decision": "discard", "note": "n"}
    assert ann.post(f"/console/queues/parked/{place}", page="/console/queues/parked", **fields).status_code == 404


def test_a_retry_that_never_reached_kafka_waits_with_the_others(
    public: PublicSystem, ann: Visitor, merchant: Merchant
) -> None:
    """As after a kill between the decision and the produce."""
    payment = parked_payment(public, merchant)
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_operator"], autocommit=True) as operator:
        topic, partition, offset = parked_at(public, payment).rsplit("/", 3)[1:]
        operator.execute(
            "select parked_decide(%s, %s::int, %s::bigint, 'retried', 'ann', 'n')", (topic, partition, offset)
        )
    assert "not sent yet" in ann.get("/console/queues/parked").text
    answer = ann.post(parked_at(public, payment), page="/console/queues/parked", decision="retry", note="once more")
    assert answer.status_code == 303
    becomes(lambda: merchant.fresh(f"/v1/payment_intents/{payment}").json()["state"], "succeeded", 60)


def test_an_early_webhook_is_seen_while_it_waits(public: PublicSystem, ann: Visitor) -> None:
    event = f"evt_{uuid.uuid4().hex}"
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_ingress"], autocommit=True) as connection:
        connection.execute(
            "insert into provider_event (processor, provider_event_id, event_type, reference, body, state, tries, next_at, note)"
            " values ('simulator', %s, 'charge.captured', %s, '{}', 'parked', 3, now() + interval '1 hour', %s)",
            (event, "pi_early", HOSTILE),
        )
    text = ann.get("/console/queues/webhooks").text
    assert event in text
    assert HOSTILE not in text
    assert ann.get("/console/detail/webhook", params={"processor": "simulator", "id": event}).status_code == 200
