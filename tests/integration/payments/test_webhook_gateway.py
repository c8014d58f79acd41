"""The gateway from outside: what is genuine is durable before its 2xx, what is forged leaves nothing but a count."""

from __future__ import annotations

import base64
import hmac
import json
import re
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from schemas.payments import limits
from tests.worlds.payments.webhook_world import WebhookWorld, webhook_system, webhooks

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["webhook_system", "webhooks"]
pytestmark = [pytest.mark.servers]


def stripe_event(**changes: Any) -> tuple[str, bytes]:
    event_id = f"evt_{uuid.uuid4().hex}"
    found = {"id": "pi_unknown", "amount": 5, "currency": "usd"}
    event = {"id": event_id, "type": "payment_intent.succeeded", "data": {"object": found}} | changes
    return event_id, json.dumps(event).encode()


def rows(world: WebhookWorld) -> int:
    return int(world.system.rows("select count(*) from provider_event")[0][0])


def counted(world: WebhookWorld, processor: str, outcome: str) -> float:
    """The counter over both ingress processes."""
    line = f'millrace_webhook_events_total{{outcome="{outcome}",processor="{processor}"}}'
    texts = world.system.metrics("ingress")
    return sum(float(value) for text in texts for value in re.findall(re.escape(line) + r" (\S+)", text))


def assert_problem(answer: httpx.Response, status: int, code: str) -> None:
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_valid_event_is_one_row_however_often_it_comes(webhooks: WebhookWorld) -> None:
    """Twenty deliveries at once over two processes."""
    event_id, body = stripe_event()
    headers = webhooks.stripe_signed(body)
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: webhooks.post("stripe", body, headers), range(20)))
    assert {a.status_code for a in answers} == {200}
    stored = webhooks.system.rows("select body, state from provider_event where provider_event_id = %s", event_id)
    assert [(bytes(raw), state) for raw, state in stored] == [(body, "stored")]


def test_no_token_is_asked_for_and_none_helps(webhooks: WebhookWorld) -> None:
    _, body = stripe_event()
    token = {"Authorization": f"Bearer {webhooks.system.token('m_1')}"}
    assert_problem(webhooks.post("stripe", body, token), 401, "invalid_signature")
    assert "Bearer" not in webhooks.post("stripe", body, token).headers["www-authenticate"]
    assert webhooks.post("stripe", body, webhooks.stripe_signed(body)).status_code == 200


FORGERIES: dict[str, Callable[[WebhookWorld, bytes], dict[str, str]]] = {
    "wrong secret": lambda w, b: w.stripe_signed(b, "whsec_of_somebody_else"),
    "another processor's secret": lambda w, b: w.stripe_signed(b, w.settings.webhook_secrets()["standard"]),
    "old": lambda w, b: w.stripe_signed(b, at=int(time.time()) - 3_600),
    "future": lambda w, b: w.stripe_signed(b, at=int(time.time()) + 3_600),
    "another body": lambda w, b: w.stripe_signed(b + b" "),
    "one byte": lambda w, b: w.stripe_signed(b.replace(b"5", b"6", 1)),
    "unsigned": lambda w, b: {},
    "empty": lambda w, b: {"Stripe-Signature": ""},
    "garbage": lambda w, b: {"Stripe-Signature": "t=x,v1=zz"},
    "another scheme": lambda w, b: w.signed("standard", "msg_1", b),
    "bytes of no text": lambda w, b: {"Stripe-Signature": "t=\xe9,v1=\xff"},
    "huge": lambda w, b: {"Stripe-Signature": "v1=0," * 1_000},
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_event_leaves_nothing_but_a_count(webhooks: WebhookWorld, name: str) -> None:
    _, body = stripe_event()
    stored, forged = rows(webhooks), counted(webhooks, "stripe", "forged")
    headers = {k: v.encode("latin-1") for k, v in FORGERIES[name](webhooks, body).items()}
    assert_problem(webhooks.post("stripe", body, headers), 401, "invalid_signature")
    assert rows(webhooks) == stored
    assert counted(webhooks, "stripe", "forged") == forged + 1


def test_standard_webhooks_and_their_identity(webhooks: WebhookWorld) -> None:
    message_id, body = f"msg_{uuid.uuid4().hex}", stripe_event()[1]
    headers = webhooks.signed("standard", message_id, body)
    headers["webhook-signature"] = f"v1,AAAA {headers['webhook-signature']}"
    assert webhooks.post("standard", body, headers).status_code == 200
    assert webhooks.event(message_id, "standard")[0] == "stored"
    replayed = headers | {"webhook-id": f"msg_{uuid.uuid4().hex}"}
    assert_problem(webhooks.post("standard", body, replayed), 401, "invalid_signature")


def adyen_batch(world: WebhookWorld, *amounts: tuple[int, int]) -> tuple[list[str], bytes]:
    """Items, each signed over one amount and sent with another."""
    key, references, items = bytes.fromhex(world.settings.webhook_secrets()["adyen"]), [], []
    for signed, sent in amounts:
        reference = uuid.uuid4().hex[:16].upper()
        text = f"{reference}::M:shop-1:{signed}:EUR:AUTHORISATION:true"
        mac = base64.b64encode(hmac.digest(key, text.encode(), "sha256")).decode()
        item = {"pspReference": reference, "originalReference": "", "merchantAccountCode": "M", "merchantReference": "shop-1",
                "amount": {"value": sent, "currency": "EUR"}, "eventCode": "AUTHORISATION", "success": "true",
                "additionalData": {"hmacSignature": mac}}  # fmt: skip
        references.append(f"AUTHORISATION:{reference}:true")
        items.append({"NotificationRequestItem": item})
    return references, json.dumps({"live": "false", "notificationItems": items}).encode()


def test_an_adyen_batch_with_a_forged_item(webhooks: WebhookWorld) -> None:
    forged = counted(webhooks, "adyen", "forged")
    (good, bad, other), body = adyen_batch(webhooks, (1_130, 1_130), (1_130, 9_999), (50, 50))
    for _ in range(2):
        answer = webhooks.post("adyen", body, {})
        assert (answer.status_code, answer.text) == (200, "[accepted]")
    assert [bool(webhooks.event(e, "adyen")) for e in (good, bad, other)] == [True, False, True]
    assert counted(webhooks, "adyen", "forged") == forged + 2
    assert_problem(webhooks.post("adyen", adyen_batch(webhooks, (1, 2))[1], {}), 401, "invalid_signature")


def test_refusals_before_and_after_the_signature(webhooks: WebhookWorld) -> None:
    stored = rows(webhooks)
    _, body = stripe_event()
    assert_problem(webhooks.post("paypal", body, {}), 404, "not_found")
    large = json.dumps({"id": "evt_1", "type": "a", "data": {"x": "x" * 1_000_000}}).encode()
    assert_problem(webhooks.post("stripe", large, webhooks.stripe_signed(large)), 413, "too_large")
    for media_type in ("text/plain", "application/json; charset=utf-16", "application/x-www-form-urlencoded"):
        headers = webhooks.stripe_signed(body) | {"Content-Type": media_type}
        assert_problem(webhooks.post("stripe", body, headers), 415, "unsupported_media_type")
    for malformed in (b"{}", b"[]", b"null", b"\xff\xfe\x00", b'{"id":"evt_1"', b'{"id":"e","type":"t","data":1}'):
        assert_problem(webhooks.post("stripe", malformed, webhooks.stripe_signed(malformed)), 400, "malformed_request")
    assert webhooks.system.rows("select 1 from provider_event where provider_event_id in ('evt_1', 'e')") == []
    assert rows(webhooks) == stored


def test_the_largest_body_that_fits(webhooks: WebhookWorld) -> None:
    event_id, body = stripe_event(padding="")
    body = body[:-2] + b"x" * (limits.WEBHOOK_BODY_BYTES_MAX - len(body)) + body[-2:]
    assert len(body) == limits.WEBHOOK_BODY_BYTES_MAX
    assert webhooks.post("stripe", body, webhooks.stripe_signed(body)).status_code == 200
    assert webhooks.event(event_id, "stripe")


def test_a_get_is_not_allowed(webhooks: WebhookWorld) -> None:
    answer = httpx.get(f"{webhooks.system.base_url}/v1/webhooks/stripe", timeout=30, trust_env=False)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
