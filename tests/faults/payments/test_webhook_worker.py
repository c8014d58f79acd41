"""The webhook worker on the real owner: every event ends in the same state, whatever order, repetition and kill."""

from __future__ import annotations

import itertools
import random
import signal
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from reconciliation.payments.repair.loop import RepairLoop
from schemas import identity
from schemas.payments import limits
from schemas.senders import REPAIRS
from tests.eventually import becomes, eventually, patient
from tests.freezing import freeze
from tests.gate import examples, matrix
from tests.seeds import seeds
from tests.worlds.payments.repair_world import (
    OPERATOR,
    audited,
    balances,
    opened,
    party,
    proposed,
    state_of,
    transactions,
)
from tests.worlds.payments.webhook_world import WebhookWorld, webhook_system, webhooks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.public_system import PublicSystem

__all__ = ["webhook_system", "webhooks"]
pytestmark = [pytest.mark.servers, pytest.mark.faults]

FAIL_POINTS = ("webhook_after_claim", "webhook_after_tell", "webhook_after_record")
REPAIR_POINTS = ("repair_reading", "repair_sending", "repair_sent", "repair_settled")


@pytest.fixture
def merchant(webhooks: WebhookWorld) -> Iterator[Any]:
    """A merchant without a past."""
    caller = webhooks.system.merchant()
    yield caller
    caller.http.close()


def state(merchant: Any, intent_id: str) -> tuple[str, int]:
    intent = merchant.http.get(f"/v1/payment_intents/{intent_id}").json()
    return intent["state"], intent["amount_received"]


def paid(world: WebhookWorld, merchant: Any, amount: int = 1_000) -> str:
    intent_id = world.intent(merchant, amount)
    world.reaches(world.tell("charge.captured", **world.charge(intent_id, amount=amount)), "applied")
    assert state(merchant, intent_id) == ("succeeded", amount)
    return intent_id


def captures(world: WebhookWorld, intent_id: str) -> int:
    query = "select count(*) from ledger_txn where reference = %s"
    return int(world.system.rows(query, f"{identity.operation_id(intent_id, 1)}:capture")[0][0])


def postings(world: WebhookWorld, intent_id: str) -> list[tuple[Any, ...]]:
    query = (
        "select e.account_id, sum(e.debit - e.credit) from ledger_entry e join ledger_txn t using (txn_id)"
        " where t.aggregate_key = %s group by 1 having sum(e.debit - e.credit) <> 0 order by 1"
    )
    return world.system.rows(query, intent_id)


def test_unknown_objects_open_one_case_each(webhooks: WebhookWorld) -> None:
    """Fifty events about two foreign objects, two workers: two cases."""
    for _ in range(2):
        webhooks.start()
    references = [f"foreign_{uuid.uuid4().hex[:8]}" for _ in range(2)]
    told = [
        webhooks.tell("charge.captured", provider_ref=references[n % 2], amount=1, currency="USD") for n in range(50)
    ]
    for event_id in told:
        webhooks.reaches(event_id, "case")
    assert [webhooks.cases(r) for r in references] == [[("unknown_reference",)]] * 2


@pytest.mark.parametrize("fail_point", matrix(FAIL_POINTS, "webhook_after_tell".__eq__))
def test_killed_at_any_point_nothing_is_lost_and_nothing_done_twice(
    webhooks: WebhookWorld, merchant: Any, fail_point: str
) -> None:
    intents = [webhooks.intent(merchant) for _ in range(3)]
    told = [webhooks.tell("charge.captured", **webhooks.charge(intent_id)) for intent_id in intents]
    foreign = f"foreign_{uuid.uuid4().hex[:8]}"
    told.append(webhooks.tell("charge.captured", provider_ref=foreign, amount=1, currency="USD"))
    victim = webhooks.start(MILLRACE_FAIL_POINT=fail_point)
    assert victim.wait(patient(20)) == -signal.SIGKILL
    webhooks.start()
    for event_id in told:
        webhooks.reaches(event_id, "applied", "case")
    for intent_id in intents:
        assert state(merchant, intent_id) == ("succeeded", 1_000)
        assert captures(webhooks, intent_id) == 1
    assert webhooks.cases(foreign) == [("unknown_reference",)]


def test_two_workers_share_the_inbox(webhooks: WebhookWorld, merchant: Any) -> None:
    """Every payment once, each event settled, while one of the two is frozen and woken up again."""
    frozen, _ = webhooks.start(), webhooks.start()
    with ThreadPoolExecutor(8) as pool:
        intents = list(pool.map(lambda _: webhooks.intent(merchant), range(24)))
        told = list(pool.map(lambda i: webhooks.tell("charge.captured", **webhooks.charge(i)), intents * 2))
        freeze(frozen.pid)
        told += list(pool.map(lambda i: webhooks.tell("charge.captured", **webhooks.charge(i)), intents))
    for intent_id in intents:
        becomes(lambda i=intent_id: state(merchant, i), ("succeeded", 1_000), 30, what="succeeded")
    frozen.send_signal(signal.SIGCONT)
    for event_id in told:
        webhooks.reaches(event_id, "applied", "superseded")
    assert [captures(webhooks, intent_id) for intent_id in intents] == [1] * len(intents)


def test_connections_that_are_cut_cost_nothing(webhooks: WebhookWorld, merchant: Any) -> None:
    webhooks.start()
    told = []
    for _ in range(15):
        told.append(webhooks.tell("charge.captured", **webhooks.charge(webhooks.intent(merchant))))
        with webhooks.superuser() as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'millrace_worker'"
                " and datname = current_database()"
            )
    for event_id in told:
        webhooks.reaches(event_id, "applied")


# --- what settled events leave behind -------------------------------------------------------------------------


def test_settled_events_leave_and_their_facts_stay_known(webhooks: WebhookWorld, merchant: Any) -> None:
    """What is young, waits or is a case stays. An event that comes again after all that changes nothing."""
    webhooks.start()
    old, young = webhooks.intent(merchant), webhooks.intent(merchant)
    told = [webhooks.tell("charge.captured", **webhooks.charge(intent_id)) for intent_id in (old, young)]
    foreign = f"foreign_{uuid.uuid4().hex[:8]}"
    case = webhooks.tell("charge.captured", provider_ref=foreign, amount=1, currency="USD")
    for event_id in told:
        webhooks.reaches(event_id, "applied")
    webhooks.reaches(case, "case")
    extra = limits.PROVIDER_EVENTS_PRUNE_BATCH_MAX + 5
    with webhooks.superuser() as connection:
        connection.execute(
            "update provider_event set received_at = now() - interval '1 year',"
            " settled_at = now() - %s * interval '1 second' where provider_event_id = any(%s)",
            (limits.PROVIDER_EVENTS_KEPT_S + 1, [told[0], case]),
        )
        connection.execute(
            "insert into provider_event (processor, provider_event_id, event_type, body, state, settled_at)"
            " select 'stripe', 'evt_old_' || n, 'ping', '{}', 'superseded', now() - %s * interval '1 second'"
            " from generate_series(1, %s) n",
            (limits.PROVIDER_EVENTS_KEPT_S + 1, extra),
        )
    webhooks.end_all()
    webhooks.start()  # the first round of a worker looks at once
    left = "select count(*) from provider_event where provider_event_id like 'evt_old_%%'"
    becomes(lambda: webhooks.system.rows(left), [(0,)], 20, what="pruned")
    becomes(lambda: webhooks.event(told[0]), (), 20, what="pruned")
    assert (webhooks.event(told[1])[0], webhooks.event(case)[0]) == ("applied", "case")
    webhooks.tell("charge.captured", told[0], **webhooks.charge(old))
    webhooks.reaches(told[0], "applied", "superseded")
    assert state(merchant, old) == ("succeeded", 1_000)
    assert captures(webhooks, old) == 1


# --- approved repairs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fail_point", matrix(REPAIR_POINTS, "repair_sent".__eq__))
def test_an_approved_repair_is_posted_once_whoever_dies(webhooks: WebhookWorld, fail_point: str) -> None:
    """Two persons approved and the ingress died at once; then the worker that goes on is killed as well."""
    system = webhooks.system
    ann = system.merchant(scopes=OPERATOR)
    case_id = opened(system)
    repair_id = proposed(ann, case_id)["id"]
    with psycopg.connect(system.settings.addresses().postgres_dsns["millrace_ingress"], autocommit=True) as connection:
        connection.execute("select repair_approve(%s, 'merchant:bob')", (repair_id,))
    with webhooks.superuser() as connection:
        connection.execute(
            "update repair_proposal set decided_at = decided_at - %s * interval '1 second' where id = %s",
            (limits.REPAIR_LOOP_GRACE_S, repair_id),
        )
    assert webhooks.start(MILLRACE_FAIL_POINT=fail_point).wait(patient(20)) == -signal.SIGKILL
    for _ in range(2):
        webhooks.start()
    becomes(lambda: ann.http.get(f"/v1/repairs/{repair_id}").json()["state"], "posted", 30, what="posted")
    assert len(transactions(system, repair_id)) == 1
    assert balances(system, case_id)[f"recon_suspense:{party(case_id)}:USD"] == -700
    assert state_of(ann, case_id) == "resolved"
    assert [row[1:] for row in audited(system, repair_id)].count(("repair.post", "done")) == 1
    ann.http.close()


def test_a_young_approval_is_left_to_its_ingress(webhooks: WebhookWorld) -> None:
    """Nothing that was only proposed is ever posted, and nobody's approval is overtaken."""
    system = webhooks.system
    ann = system.merchant(scopes=OPERATOR)
    unapproved = proposed(ann, opened(system))["id"]
    young = proposed(ann, opened(system))["id"]
    addresses = system.settings.addresses()
    with psycopg.connect(addresses.postgres_dsns["millrace_ingress"], autocommit=True) as connection:
        connection.execute("select repair_approve(%s, 'merchant:bob')", (young,))
    RepairLoop(addresses.postgres_dsns["millrace_worker"], system.settings.kafka_as(REPAIRS), "test").round()
    assert [ann.http.get(f"/v1/repairs/{one}").json()["state"] for one in (unapproved, young)] == [
        "proposed",
        "approved",
    ]
    ann.http.close()


# --- with one worker for all --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def worker(webhook_system: PublicSystem) -> Iterator[None]:
    """A worker from here on: the tests above have workers of their own, which nobody may help."""
    world = WebhookWorld(webhook_system)
    world.start()
    yield
    world.end_all()


@pytest.mark.usefixtures("worker")
def test_a_webhook_settles_a_payment_once(webhooks: WebhookWorld, merchant: Any) -> None:
    """The same fact in five events and one delivered twice: one capture, and every event is settled."""
    intent_id = webhooks.intent(merchant)
    data = webhooks.charge(intent_id)
    told = [webhooks.tell("charge.captured", **data) for _ in range(5)]
    webhooks.tell("charge.captured", told[0], **data)
    for event_id in told:
        webhooks.reaches(event_id, "applied", "superseded")
    assert state(merchant, intent_id) == ("succeeded", 1_000)
    assert captures(webhooks, intent_id) == 1


@pytest.mark.usefixtures("worker")
def test_an_event_before_its_attempt_is_parked_and_then_applied(webhooks: WebhookWorld, merchant: Any) -> None:
    """Nothing is told before: the owner would remember "not found" for every door of this fact."""
    intent_id = webhooks.intent(merchant, confirmed=False)
    event_id = webhooks.tell("charge.captured", **webhooks.charge(intent_id))
    eventually(lambda: (e := webhooks.event(event_id))[0] == "parked" and e[2] > 1, what="parked, and looked at again")
    key = f"{identity.operation_id(intent_id, 1)}:captured"
    assert webhooks.system.rows("select 1 from idempotency where key = %s", key) == []
    assert merchant.act(intent_id, "confirm").status_code == 200
    webhooks.reaches(event_id, "applied")
    assert state(merchant, intent_id) == ("succeeded", 1_000)
    assert captures(webhooks, intent_id) == 1


@pytest.mark.usefixtures("worker")
def test_an_event_of_an_intent_that_never_comes_is_a_case_in_the_end(webhooks: WebhookWorld) -> None:
    intent_id = identity.derived_id("pi", "m", "never", uuid.uuid4().hex)
    data = webhooks.charge(intent_id)
    told = [webhooks.tell("charge.captured", **data) for _ in range(2)]
    for event_id in told:
        webhooks.reaches(event_id, "parked")
    with webhooks.superuser() as connection:
        connection.execute(
            "update provider_event set received_at = received_at - %s * interval '1 second', next_at = now()"
            " where provider_event_id = any(%s)",
            (limits.WEBHOOK_PARKED_MAX_S + 1, told),
        )
    for event_id in told:
        webhooks.reaches(event_id, "case")
    assert webhooks.cases(data["operation_id"]) == [("unknown_reference",)]


@pytest.mark.usefixtures("worker")
def test_what_contradicts_the_attempt_is_a_case_and_posts_nothing(webhooks: WebhookWorld, merchant: Any) -> None:
    """Refused with another attempt alive, and then charged after all: a person has to look."""
    intent_id = webhooks.intent(merchant)
    declined = webhooks.tell("charge.declined", **webhooks.charge(intent_id, error_code="card_declined"))
    webhooks.reaches(declined, "applied")
    assert state(merchant, intent_id)[0] == "requires_payment_method"
    assert merchant.act(intent_id, "confirm", payload={"payment_method": "tok_sim_approve"}).status_code == 200
    late = webhooks.tell("charge.captured", **webhooks.charge(intent_id))
    webhooks.reaches(late, "case")
    again = webhooks.tell("charge.captured", **webhooks.charge(intent_id, amount=1_001))
    webhooks.reaches(again, "case")
    operation_id = identity.operation_id(intent_id, 1)
    assert webhooks.cases(operation_id) == [("contradicting_fact",)]
    query = "select processor, evidence from repair_case where reference = %s"
    ((processor, evidence),) = webhooks.system.rows(query, operation_id)
    assert (processor, evidence["code"], evidence["payment_intent"]) == ("simulator", "contradicts_attempt", intent_id)
    assert (evidence["fact"]["amount"], evidence["idempotency_key"]) == (1_000, f"{operation_id}:captured")
    assert captures(webhooks, intent_id) == 0


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("other", ["declined", "captured"])
def test_money_that_was_refused_as_a_contradiction_is_adopted_or_goes_back_as_two_persons_say(
    webhooks: WebhookWorld, merchant: Any, other: str
) -> None:
    """The processor's own word is refused for good: their outcome is a fact of its own."""
    intent_id = webhooks.intent(merchant)
    webhooks.reaches(webhooks.tell("charge.declined", **webhooks.charge(intent_id, error_code="no")), "applied")
    assert merchant.act(intent_id, "confirm", payload={"payment_method": "tok_sim_approve"}).status_code == 200
    webhooks.reaches(webhooks.tell("charge.captured", **webhooks.charge(intent_id)), "case")
    told = webhooks.charge(intent_id, 2, error_code=None if other == "captured" else "no")
    webhooks.reaches(webhooks.tell(f"charge.{other}", **told), "applied")
    operation_id = identity.operation_id(intent_id, 1)
    ((case_id,),) = webhooks.system.rows("select id from repair_case where reference = %s", operation_id)
    ann, bob = (webhooks.system.merchant(scopes=OPERATOR) for _ in range(2))
    with ann.http, bob.http:
        outcomes = f"/v1/cases/{case_id}/outcomes"
        payload = {
            "status": "captured",
            "amount": 1_000,
            "currency": "USD",
            "provider_ref": "ref_1",
            "note": "seen there",
        }
        for wrong in ({"status": "declined"}, {"amount": 999}):
            body = {"idempotency_key": uuid.uuid4().hex, "payload": payload | wrong}
            assert ann.http.post(outcomes, json=body).status_code == 422
        made = ann.http.post(outcomes, json={"idempotency_key": uuid.uuid4().hex, "payload": payload})
        assert made.status_code == 201, made.text
        approve = f"{outcomes}/{made.json()['id']}/approve"
        eventually(lambda: bob.http.post(approve, json={}).json().get("state") == "recorded", 60)
        assert state_of(ann, case_id) == "resolved"
    assert captures(webhooks, intent_id) == 1
    refunds = webhooks.system.rows("select amount, reason, state from refund where intent_id = %s", intent_id)
    if other == "declined":
        assert (state(merchant, intent_id), refunds) == (("succeeded", 1_000), [])
    else:
        assert (state(merchant, intent_id), refunds) == (("succeeded", 2_000), [(1_000, "charged_twice", "pending")])


@pytest.mark.usefixtures("worker")
def test_another_amount_than_asked_is_not_taken_for_success(webhooks: WebhookWorld, merchant: Any) -> None:
    intent_id = webhooks.intent(merchant)
    webhooks.reaches(webhooks.tell("charge.captured", **webhooks.charge(intent_id, amount=999)), "applied")
    assert state(merchant, intent_id) == ("processing", 0)
    assert captures(webhooks, intent_id) == 0


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("seed", seeds(1))
def test_every_order_of_refund_and_dispute_events_ends_alike(webhooks: WebhookWorld, merchant: Any, seed: int) -> None:
    """Trap: out-of-order events. Success and later failure of a refund, and a dispute that is won, in many orders."""
    orders = list(itertools.permutations(range(6)))
    chosen = [orders[0], orders[-1], *random.Random(seed).sample(orders, examples(gate=3, proof=10))]
    ends = {order: _end_of(webhooks, merchant, order) for order in chosen}
    states = {order: (refund, dispute) for order, (refund, dispute, _) in ends.items()}
    assert set(states.values()) == {(("failed", 0), ("won", "reinstated"))}, states
    ledgers = {order: ledger for order, (_, _, ledger) in ends.items()}
    assert len(set(map(repr, ledgers.values()))) == 1, ledgers


def _end_of(world: WebhookWorld, merchant: Any, order: tuple[int, ...]) -> tuple[Any, ...]:
    """One payment of 1000, a refund of 300 and a dispute about 500, told in this order."""
    intent_id = paid(world, merchant)
    refund = world.refund(merchant, intent_id, 300)
    about_refund = world.charge(intent_id, attempt=2, amount=300)
    dispute = {
        "dispute_id": f"sdp_{uuid.uuid4().hex}",
        "reference": intent_id,
        "amount": 500,
        "currency": "USD",
        "fee": 15,
    }
    events: list[tuple[str, dict[str, Any]]] = [
        ("refund.succeeded", about_refund),
        ("refund.failed", about_refund | {"error_code": "lost_or_stolen_card", "after_success": True}),
        ("dispute.created", dispute | {"status": "needs_response", "funds": "none"}),
        ("dispute.funds_withdrawn", dispute | {"status": "needs_response", "funds": "withdrawn"}),
        ("dispute.closed", dispute | {"status": "won", "funds": "withdrawn"}),
        ("dispute.funds_reinstated", dispute | {"status": "won", "funds": "reinstated"}),
    ]
    told = [world.tell(events[n][0], **events[n][1]) for n in order]
    for event_id in told:
        world.reaches(event_id, "applied", "superseded")
    refunded = merchant.http.get(f"/v1/refunds/{refund['id']}").json()["state"]
    disputed = merchant.http.get("/v1/disputes", params={"payment_intent": intent_id}).json()["data"][0]
    intent = merchant.http.get(f"/v1/payment_intents/{intent_id}").json()
    end = (refunded, intent["amount_refunded"]), (disputed["state"], disputed["funds"])
    return *end, postings(world, intent_id)
