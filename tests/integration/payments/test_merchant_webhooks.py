"""Webhooks to merchants on the real system: order, retries, rotation, resending, and whose endpoint it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from schemas.payments import limits
from tests.eventually import becomes, eventually
from tests.worlds.payments.merchant_webhook_world import (
    MerchantWebhookWorld,
    Shop,
    merchant_webhook_system,
    shop,
    signature,
    told,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.public_system import PublicSystem

__all__ = ["merchant_webhook_system", "told"]
pytestmark = [pytest.mark.servers]
ROOT = "/v1/webhook_endpoints"


@pytest.fixture
def merchant(told: MerchantWebhookWorld) -> Iterator[Any]:
    caller = told.system.merchant()
    yield caller
    caller.http.close()


@pytest.fixture
def stranger(told: MerchantWebhookWorld) -> Iterator[Any]:
    caller = told.system.merchant()
    yield caller
    caller.http.close()


@pytest.fixture
def here() -> Iterator[Shop]:
    with shop() as found:
        yield found


def versions_soon(told: MerchantWebhookWorld, endpoint: dict[str, Any], here: Shop, aggregate_key: str) -> list[int]:
    """What was taken; a try that was under way when the shop changed its mind may have been refused, and waits long."""
    told.hurry(endpoint, leases=False)
    return here.versions(aggregate_key)


def test_a_refused_first_event_holds_the_second_of_its_object(
    told: MerchantWebhookWorld, merchant: Any, here: Shop
) -> None:
    endpoint = told.endpoint(merchant, here.url)
    intent_id = merchant.create().json()["result"]["id"]
    here.refused.add(intent_id)
    assert merchant.act(intent_id, "cancel").status_code == 200
    told.start()
    eventually(lambda: here.of(intent_id), 20, what="tried")
    told.payment(merchant)
    eventually(lambda: any(t["status"] == 200 for t in here.tries), 20, what="another is told")
    assert {t["event"]["version"] for t in here.of(intent_id)} == {1}
    query = "select count(distinct next_at) from merchant_webhook_delivery where aggregate_key = %s and tries < 2"
    held = lambda: told.system.rows(query, intent_id) == [(1,)]  # noqa: E731 - what waits behind is put off with it
    eventually(held, what="put off together")
    here.refused.clear()
    eventually(lambda: len(here.of(intent_id)) > 1, 30, what="the second try comes by itself, by the schedule")
    becomes(lambda: versions_soon(told, endpoint, here, intent_id), [1, 2], 30, what="both in order")


@pytest.fixture(scope="module")
def sender(merchant_webhook_system: PublicSystem) -> Iterator[None]:
    """A sender from here on; the test whose own sender finds two events of an object waiting comes before."""
    world = MerchantWebhookWorld(merchant_webhook_system)
    world.start()
    yield
    world.end_all()


@pytest.mark.usefixtures("sender")
def test_an_event_arrives_signed_and_verifies_the_endpoint(
    told: MerchantWebhookWorld, merchant: Any, here: Shop
) -> None:
    endpoint = told.endpoint(merchant, here.url, description="shop")
    assert (endpoint["state"], endpoint["events"]) == ("unverified", ["*"])
    intent_id = told.payment(merchant)
    one = eventually(lambda: here.of(intent_id), 20, what="told")[0]
    event = merchant.http.get("/v1/events", params={"cursor": "0"}).json()["data"][0]
    named = {
        "type": "payment_intent.created",
        "timestamp": event["occurred_at"],
        "data": event["body"]["payment_intent"],
    }
    assert one["event"] == event | named  # the very event that a reader of /v1/events sees, under a name
    assert one["id"] == event["event_id"]
    assert one["signature"] == signature(endpoint["secret"], one)
    assert one["path"] == "/told?of=payments"
    becomes(lambda: merchant.http.get(f"{ROOT}/{endpoint['id']}").json()["state"], "active", what="active")
    shown = merchant.http.get(f"{ROOT}/{endpoint['id']}").json()
    assert shown["verified_at"]
    assert shown["last_success_at"]
    assert "secret" not in shown
    logged = told.deliveries(merchant, endpoint)
    assert [(d["state"], d["tries"], d["last_status_code"], d["next_at"]) for d in logged] == [
        ("delivered", 1, 200, None)
    ]
    assert (logged[0]["event_id"], logged[0]["aggregate_key"]) == (event["event_id"], intent_id)


@pytest.mark.usefixtures("sender")
def test_a_later_event_of_an_object_waits_and_other_objects_do_not(
    told: MerchantWebhookWorld, merchant: Any, here: Shop
) -> None:
    endpoint = told.endpoint(merchant, here.url)
    held = merchant.create().json()["result"]["id"]
    eventually(lambda: here.of(held), 20, what="first one told")
    here.refused.add(held)
    assert merchant.act(held, "cancel").status_code == 200
    assert merchant.create().status_code == 201
    refused = eventually(lambda: [t for t in here.of(held) if t["status"] == 500], 20, what="refused")
    other = told.payment(merchant, 2)
    becomes(lambda: here.versions(other), [1, 2], 20, what="the other object is told")
    assert here.versions(held) == [1]
    here.refused.clear()
    becomes(lambda: versions_soon(told, endpoint, here, held), [1, 2], 20, what="told in the end")
    assert {t["id"] for t in here.of(held) if t["event"]["version"] == 2} == {refused[0]["id"]}


@pytest.mark.usefixtures("sender")
@pytest.mark.parametrize("status", [500, 302, 404])
def test_what_is_no_2xx_is_tried_again_with_the_same_id(
    told: MerchantWebhookWorld, merchant: Any, here: Shop, status: int
) -> None:
    endpoint = told.endpoint(merchant, here.url)
    here.statuses = [status]
    intent_id = told.payment(merchant)
    becomes(lambda: here.versions(intent_id), [1], 30, what="told by the second try")
    assert len(here.tries) == 2
    assert len(set(here.ids())) == 1
    assert not any("redirected" in one["path"] for one in here.tries)
    becomes(lambda: told.deliveries(merchant, endpoint)[0]["state"], "delivered", what="marked")
    assert told.deliveries(merchant, endpoint)[0]["tries"] == 2


def test_rotation_signs_with_both_secrets_for_a_while(told: MerchantWebhookWorld, merchant: Any, here: Shop) -> None:
    endpoint = told.endpoint(merchant, here.url)
    rotated = merchant.http.post(f"{ROOT}/{endpoint['id']}/rotate_secret").json()["result"]
    assert rotated["secret"] != endpoint["secret"]
    first = told.payment(merchant)
    one = eventually(lambda: here.of(first), 20, what="told")[0]
    both = [signature(rotated["secret"], one), signature(endpoint["secret"], one)]
    assert one["signature"].split(" ") == both
    with psycopg.connect(told.system.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
        connection.execute(
            "update merchant_webhook_secret set created_at = created_at - %s * interval '1 second'"
            " where endpoint_id = %s",
            (limits.MERCHANT_WEBHOOK_SECRET_OVERLAP_S + 1, endpoint["id"]),
        )
    second = told.payment(merchant)
    one = eventually(lambda: here.of(second), 20, what="told")[0]
    assert one["signature"] == signature(rotated["secret"], one)


def test_too_many_rotations_are_refused(told: MerchantWebhookWorld, merchant: Any) -> None:
    endpoint = told.endpoint(merchant, "https://shop.example.com/hook")
    answers = [
        merchant.http.post(f"{ROOT}/{endpoint['id']}/rotate_secret").status_code
        for _ in range(limits.MERCHANT_WEBHOOK_SECRETS_MAX)
    ]
    assert answers == [200] * (limits.MERCHANT_WEBHOOK_SECRETS_MAX - 1) + [409]


def test_only_asked_events_are_sent(told: MerchantWebhookWorld, merchant: Any, here: Shop) -> None:
    told.endpoint(merchant, here.url, events=["cancel_payment_intent"])
    intent_id = told.payment(merchant, 2)
    becomes(lambda: here.versions(intent_id), [2], 20, what="only the cancellation")
    assert len(here.tries) == 1
    told.endpoint(merchant, f"{here.url}&by=name", events=["payment_intent.canceled"])
    later = told.payment(merchant, 2)
    becomes(lambda: here.versions(later), [2, 2], 20, what="by the operation, and by the event's name")
    assert {told["event"]["type"] for told in here.of(later)} == {"payment_intent.canceled"}


def test_resend(told: MerchantWebhookWorld, merchant: Any, here: Shop) -> None:
    endpoint = told.endpoint(merchant, here.url)
    intent_id = told.payment(merchant, 2)
    becomes(lambda: here.versions(intent_id), [1, 2], 20, what="told")
    becomes(lambda: {d["state"] for d in told.deliveries(merchant, endpoint)}, {"delivered"}, what="marked")
    oldest = next(d for d in told.deliveries(merchant, endpoint) if d["event_id"] == here.ids()[0])
    again = merchant.http.post(f"/v1/webhook_deliveries/{oldest['id']}/resend")
    assert (again.status_code, again.json()["result"]["state"]) == (200, "waiting")
    becomes(lambda: here.versions(intent_id), [1, 2, 1], 20, what="told again")
    assert here.ids()[0] == here.ids()[2] == oldest["event_id"]


def test_an_endpoint_that_fails_for_its_whole_schedule_is_disabled(
    told: MerchantWebhookWorld, merchant: Any, here: Shop
) -> None:
    endpoint = told.endpoint(merchant, here.url)
    here.statuses = [500] * len(limits.MERCHANT_WEBHOOK_RETRY_SCHEDULE_S)
    intent_id = told.payment(merchant, 2)

    def disabled() -> bool:
        told.hurry(endpoint, leases=False)
        return bool(merchant.http.get(f"{ROOT}/{endpoint['id']}").json()["state"] == "disabled")

    eventually(disabled, 60, what="disabled")
    assert merchant.http.get(f"{ROOT}/{endpoint['id']}").json()["disabled_reason"] == "failed_for_its_whole_schedule"
    first, second = sorted(told.deliveries(merchant, endpoint), key=lambda d: -d["tries"])
    assert (first["state"], first["tries"], first["last_status_code"]) == ("given_up", len(here.tries), 500)
    assert (second["state"], second["last_error"]) == ("given_up", "endpoint_disabled")
    assert len({one["id"] for one in here.tries}) == 1
    resend = f"/v1/webhook_deliveries/{first['id']}/resend"
    assert merchant.http.post(resend).status_code == 409
    enabled = merchant.http.post(f"{ROOT}/{endpoint['id']}/enable").json()["result"]
    assert (enabled["state"], enabled["disabled_reason"]) == ("unverified", None)
    here.statuses.clear()
    assert merchant.http.post(resend).status_code == 200
    becomes(lambda: here.versions(intent_id), [1], 20, what="told at last")


def test_gone_disables_at_once(told: MerchantWebhookWorld, merchant: Any, here: Shop) -> None:
    endpoint = told.endpoint(merchant, here.url)
    here.statuses = [410]
    told.payment(merchant)
    becomes(lambda: merchant.http.get(f"{ROOT}/{endpoint['id']}").json()["disabled_reason"], "gone", 20)


def test_a_deleted_endpoint_is_told_nothing(told: MerchantWebhookWorld, merchant: Any, here: Shop) -> None:
    endpoint = told.endpoint(merchant, here.url)
    assert merchant.http.delete(f"{ROOT}/{endpoint['id']}").status_code == 204
    assert merchant.http.delete(f"{ROOT}/{endpoint['id']}").status_code == 404
    assert merchant.http.get(f"{ROOT}/{endpoint['id']}").status_code == 404
    assert merchant.http.get(ROOT).json()["data"] == []
    with shop() as other:
        told.endpoint(merchant, other.url)
        told.payment(merchant)
        eventually(lambda: other.tries, 20, what="the other endpoint is told")
    assert here.tries == []


def test_another_merchants_endpoint_is_not_found(
    told: MerchantWebhookWorld, merchant: Any, stranger: Any, here: Shop
) -> None:
    endpoint = told.endpoint(merchant, here.url)
    told.payment(merchant)
    delivery = eventually(lambda: told.deliveries(merchant, endpoint), 20, what="logged")[0]
    own = f"{ROOT}/{endpoint['id']}"
    refused = [
        stranger.http.get(own),
        stranger.http.delete(own),
        stranger.http.post(f"{own}/rotate_secret"),
        stranger.http.post(f"{own}/enable"),
        stranger.http.get(f"{own}/deliveries"),
        stranger.http.post(f"/v1/webhook_deliveries/{delivery['id']}/resend"),
    ]
    nothing = stranger.http.get(f"{ROOT}/we_none")
    assert [(r.status_code, r.content) for r in refused] == [(404, nothing.content)] * len(refused)
    assert stranger.http.get(ROOT).json()["data"] == []
    strange = told.payment(stranger)
    mine = told.payment(merchant)
    eventually(lambda: here.of(mine), 20, what="told")
    assert here.of(strange) == []
    reader = told.system.merchant(merchant.name, ("payments:read",))
    assert reader.http.post(ROOT, json={"url": here.url}).status_code == 403
    assert reader.http.delete(own).status_code == 403
    reader.http.close()


def test_the_url_is_the_identity(told: MerchantWebhookWorld, merchant: Any, here: Shop) -> None:
    endpoint = told.endpoint(merchant, here.url, events=["*"])
    again = merchant.http.post(ROOT, json={"url": here.url})
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (201, "true")
    assert again.json()["result"]["id"] == endpoint["id"]
    assert "secret" not in again.json()["result"]
    other = merchant.http.post(ROOT, json={"url": here.url, "events": ["create_refund"]})
    assert (other.status_code, other.json()["code"]) == (409, "state_conflict")


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({}, 422, "url"),
        ({"url": 1}, 422, "url"),
        ({"url": "https://shop.example.com", "events": []}, 422, "events"),
        ({"url": "https://shop.example.com", "events": ["nothing"]}, 422, "events"),
        ({"url": "https://shop.example.com", "events": [{"a": 1}]}, 422, "events"),
        ({"url": "https://shop.example.com", "events": "*"}, 422, "events"),
        ({"url": "https://shop.example.com", "description": "a\x00b"}, 422, "description"),
        ({"url": "https://shop.example.com", "description": 5}, 422, "description"),
        ({"url": "https://shop.example.com", "description": {}}, 422, "description"),
        ({"url": "https://shop.example.com", "secret": "whsec_mine"}, 422, "secret"),
        ({"url": "https://10.0.0.1/hook"}, 422, "url"),
        ({"url": "http://shop.example.com/hook"}, 422, "url"),
        ({"url": "https://shop.example.com", "merchant_id": "m_2"}, 400, None),
        ([], 400, None),
    ],
)
def test_bad_input_changes_nothing(
    told: MerchantWebhookWorld, merchant: Any, body: Any, status: int, field: str | None
) -> None:
    answer = merchant.http.post(ROOT, json=body)
    assert answer.status_code == status, answer.text
    if field:
        assert [e["field"] for e in answer.json()["errors"]] == [field]
    assert merchant.http.get(ROOT).json()["data"] == []


def test_pages_of_endpoints_and_deliveries(told: MerchantWebhookWorld, merchant: Any) -> None:
    made = [told.endpoint(merchant, f"https://shop.example.com/{n}")["id"] for n in range(3)]
    first = merchant.http.get(ROOT, params={"limit": 2}).json()
    rest = merchant.http.get(ROOT, params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [e["id"] for e in first["data"] + rest["data"]] == made[::-1]
    assert not rest["has_more"]
    wrong = merchant.http.get(f"{ROOT}/{made[0]}/deliveries", params={"cursor": first["next_cursor"]})
    assert wrong.status_code == 400


def _superuser(told: MerchantWebhookWorld) -> psycopg.Connection[Any]:
    return psycopg.connect(told.system.settings.addresses().postgres_superuser_dsn, autocommit=True)


def test_a_secret_lies_sealed(told: MerchantWebhookWorld, merchant: Any) -> None:
    """Whoever has the database, a copy of it or the ingress' role, has no secret and can write none as a text."""
    endpoint = told.endpoint(merchant, "https://shop.example.com/sealed")
    rotated = merchant.http.post(f"{ROOT}/{endpoint['id']}/rotate_secret").json()["result"]
    with _superuser(told) as connection:
        rows = connection.execute(
            "select s::text, s.secret, s.key_id from merchant_webhook_secret s where endpoint_id = %s",
            (endpoint["id"],),
        ).fetchall()
    assert [row[1:] for row in rows] == [(None, "kek_0001")] * 2
    for shown in (endpoint["secret"], rotated["secret"]):
        assert not any(shown in row[0] or shown.encode().hex() in row[0] for row in rows)
    with (
        psycopg.connect(told.system.settings.addresses().postgres_dsns["millrace_ingress"]) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(
            "insert into merchant_webhook_secret (id, endpoint_id, secret) values ('whk_t', %s, 'whsec_t')",
            (endpoint["id"],),
        )


def test_a_secret_from_before_sealing_is_sealed_and_signs_on(
    told: MerchantWebhookWorld, merchant: Any, here: Shop
) -> None:
    endpoint = told.endpoint(merchant, here.url)
    before = "whsec_" + "QUJD" * 8
    with _superuser(told) as connection:
        connection.execute(
            "update merchant_webhook_secret set secret = %s, key_id = null, wrapped_key = null, ciphertext = null"
            " where endpoint_id = %s",
            (before, endpoint["id"]),
        )
        told.start()
        intent_id = told.payment(merchant)
        one = eventually(lambda: here.of(intent_id), 20, what="told")[0]
        assert one["signature"] == signature(before, one)
        texts = connection.execute("select count(*) from merchant_webhook_secret where secret is not null").fetchone()
    assert texts == (0,)


def test_a_secret_of_another_row_or_key_signs_nothing(told: MerchantWebhookWorld, merchant: Any, here: Shop) -> None:
    """Moved within the table it does not open; the delivery waits, and goes out once the right one is back."""
    endpoint, other = told.endpoint(merchant, here.url), told.endpoint(merchant, "https://shop.example.com/other")
    swap = (
        "update merchant_webhook_secret s set key_id = o.key_id, wrapped_key = o.wrapped_key, ciphertext = o.ciphertext"
        " from {} o where s.endpoint_id = %s and o.endpoint_id = %s"
    )
    with _superuser(told) as connection:
        connection.execute("create temporary table kept as select * from merchant_webhook_secret")
        connection.execute(swap.format("kept"), (endpoint["id"], other["id"]))  # type: ignore[arg-type]
        told.start()
        intent_id = told.payment(merchant)
        becomes(lambda: [d["tries"] for d in told.deliveries(merchant, endpoint)], [1], 20, what="tried")
        assert here.of(intent_id) == []
        connection.execute(swap.format("kept"), (endpoint["id"], endpoint["id"]))  # type: ignore[arg-type]
        told.hurry(endpoint)
        one = eventually(lambda: here.of(intent_id), 20, what="told")[0]
    assert one["signature"] == signature(endpoint["secret"], one)


def test_no_role_but_the_worker_reads_a_secret(told: MerchantWebhookWorld, merchant: Any) -> None:
    told.endpoint(merchant, "https://shop.example.com/roles")
    readers = set()
    for role, dsn in told.system.settings.addresses().postgres_dsns.items():
        with psycopg.connect(dsn) as connection:
            try:
                connection.execute("select ciphertext from merchant_webhook_secret limit 1").fetchall()
                readers.add(role)
            except psycopg.errors.InsufficientPrivilege:
                continue
    assert readers == {"millrace_worker"}
