"""What the gateway takes out of verified bytes; storing is the integration tests' matter."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.datastructures import Headers

from dataflows.payments.webhooks import vocabulary
from dataflows.payments.webhooks.findings import Unreadable
from ingress.identity.clock import JudgedClock
from ingress.payments.webhooks import events, metrics
from ingress.payments.webhooks.gateway import WebhookGateway
from ingress.payments.webhooks.signatures import InvalidSignature
from schemas import errors
from schemas.payments import limits
from tests.each import each
from tests.unit.payments import test_webhook_signatures as vectors

NOW = vectors.NOW
SECRETS = {
    "stripe": (vectors.STRIPE_SECRET,),
    "standard": (vectors.STANDARD_SECRET,),
    "simulator": (vectors.STANDARD_SECRET,),
    "adyen": (vectors.ADYEN_KEY,),
    "simulator_b": (vectors.STANDARD_SECRET,),
    "stripe_eu": ("whsec_of_another_account",),
}


class Kept:
    """An inbox that remembers: what the gateway hands over to be stored."""

    def __init__(self) -> None:
        self.events: list[events.ProviderEvent] = []

    async def keep(self, found: list[events.ProviderEvent]) -> int:
        self.events += found
        return len(found)


@pytest.fixture
def kept() -> Kept:
    return Kept()


def receive(
    kept: Kept, processor: str, raw: bytes, *headers: tuple[str, str], off_s: float = 0.0
) -> list[events.ProviderEvent]:
    """``off_s``: how far our clock is off the database's, and the processor's."""
    judged = JudgedClock(lambda: NOW + off_s)
    judged.judge(NOW + off_s, NOW)
    gateway = WebhookGateway(
        "postgresql://nobody@127.0.0.1:1/none", SECRETS, judged.require_right, clock=lambda: NOW + off_s
    )
    gateway._inbox = kept  # type: ignore[assignment] # the same method
    fields = Headers(raw=[(name.lower().encode(), value.encode("latin-1")) for name, value in headers])
    asyncio.run(gateway.receive(processor, fields, raw))
    return kept.events


def stripe(kept: Kept, raw: bytes) -> list[events.ProviderEvent]:
    return receive(kept, "stripe", raw, ("Stripe-Signature", vectors.stripe_header(raw)))


def batch(*items: Any) -> bytes:
    return json.dumps({"live": "false", "notificationItems": [{"NotificationRequestItem": i} for i in items]}).encode()


def test_a_stripe_event_is_kept_as_it_came(kept: Kept) -> None:
    body = b'{"id":"evt_1","type":"payment_intent.succeeded", "data":{"object":{"id":"pi_x","metadata":{"reference":"pi_ours"}}}}'
    (event,) = stripe(kept, body)
    assert (event.provider_event_id, event.event_type, event.reference) == (
        "evt_1",
        "payment_intent.succeeded",
        "pi_ours",
    )
    assert event.body == body


def test_the_identity_of_a_standard_webhook_is_the_signed_one(kept: Kept) -> None:
    body = b'{"id":"evt_unsigned","type":"charge.captured","data":{"reference":"pi_ours"}}'
    mac = vectors.standard_mac(body, "msg_1", NOW)
    headers = (("webhook-id", "msg_1"), ("webhook-timestamp", str(NOW)), ("webhook-signature", f"v1,AAAA {mac}"))
    (event,) = receive(kept, "simulator", body, *headers)
    assert (event.provider_event_id, event.reference) == ("msg_1", "pi_ours")


def test_a_further_processor_speaks_its_adapters_scheme_under_its_own_name_and_secret(kept: Kept) -> None:
    body = b'{"id":"evt_1","type":"charge.captured","data":{"object":{}}}'
    mac = vectors.standard_mac(body, "msg_1", NOW)
    headers = (("webhook-id", "msg_1"), ("webhook-timestamp", str(NOW)), ("webhook-signature", mac))
    (event,) = receive(kept, "simulator_b", body, *headers)
    assert event.processor == "simulator_b"
    with pytest.raises(InvalidSignature):
        receive(kept, "stripe_eu", body, ("Stripe-Signature", vectors.stripe_header(body)))
    assert kept.events == [event]


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_header_that_is_missing_or_doubled_is_no_header(kept: Kept, name: str) -> None:
    body = b'{"type":"charge.captured","data":{}}'
    mac = vectors.standard_mac(body, "msg_1", NOW)
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(NOW), "webhook-signature": mac}
    with pytest.raises(InvalidSignature):
        receive(kept, "standard", body, *headers.items(), (name, headers[name]))
    with pytest.raises(InvalidSignature):
        receive(kept, "standard", body, *((n, v) for n, v in headers.items() if n != name))
    assert kept.events == []


@each(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b'{"id":"evt_1","type":"a"',
        b'{"id":"evt_1","type":"a"}',
        b'{"id":"evt_1","type":"a","data":[]}',
        b'{"id":1,"type":"a","data":{}}',
        b'{"id":"","type":"a","data":{}}',
        b'{"id":"evt_1","type":null,"data":{}}',
        b'{"id":"evt_\\u0000","type":"a","data":{}}',
        b'{"id":"evt_\\r\\nSet-Cookie: a","type":"a","data":{}}',
        b'{"id":"evt_1","id":"evt_2","type":"a","data":{}}',
        b'{"id":"' + b"e" * (limits.WEBHOOK_EVENT_ID_LENGTH_MAX + 1) + b'","type":"a","data":{}}',
        b'{"id":"evt_1","type":"a","data":' + b'{"a":' * 50 + b"1" + b"}" * 51,
    ],
)
def test_signed_json_of_no_event_is_malformed(kept: Kept, body: bytes) -> None:
    with pytest.raises(errors.MalformedRequest):
        stripe(kept, body)
    assert kept.events == []


def test_a_forged_item_of_a_batch_is_dropped_and_the_rest_is_taken(kept: Kept) -> None:
    genuine, forged = vectors.adyen_item(), vectors.adyen_item(amount={"value": 99_999, "currency": "EUR"})
    (event,) = receive(kept, "adyen", batch(forged, genuine, forged, "no item"))
    assert event.provider_event_id == "AUTHORISATION:7914073381342284:true"
    assert json.loads(event.body) == genuine
    assert event.reference == genuine["merchantReference"]


@each(
    "raw",
    [
        batch(vectors.adyen_item(success="false")),
        batch(),
        batch(None, 1, []),
        b'{"notificationItems":{}}',
        b'{"notificationItems":[1,null,"x"]}',
        b"[]",
        b"\xff",
        b"",
        batch(*[vectors.adyen_item()] * (limits.WEBHOOK_ITEMS_MAX + 1)),
    ],
)
def test_a_batch_without_a_genuine_item_is_forged(kept: Kept, raw: bytes) -> None:
    with pytest.raises(InvalidSignature):
        receive(kept, "adyen", raw)
    assert kept.events == []


CARD = "4242424242424242"


def test_a_card_number_that_a_processor_tells_is_not_kept_and_its_event_is(kept: Kept) -> None:
    """As an object's id, an amount, a name, in any form: a word stands in its place, and what is said beside it is heard."""
    said = {"id": CARD, "metadata": {"reference": "pi_ours", CARD: "4242 4242 4242 4242"}, "n": int(CARD), "on": True}
    raw = json.dumps({"id": "evt_1", "type": "a", "data": {"object": said, "list": [f"of {CARD}", 7]}}).encode()
    (event,) = stripe(kept, raw)
    masked = {
        "id": "(a card number)",
        "metadata": {"reference": "pi_ours", "(a card number)": "(a card number)"},
        "n": "(a card number)",
        "on": True,
    }
    assert json.loads(event.body)["data"] == {"object": masked, "list": ["(a card number)", 7]}
    assert (event.provider_event_id, event.reference) == ("evt_1", "pi_ours")
    found = vocabulary.read("stripe", "payment_intent.succeeded", stripe_body(id=CARD))
    assert isinstance(found, Unreadable)
    named = vocabulary.read("stripe", "payment_intent.succeeded", stripe_body(id="(a card number)"))
    assert isinstance(named, Unreadable), "it would be the name of money for good"


def test_an_identity_that_looks_like_a_card_number_is_one_all_the_same(kept: Kept) -> None:
    body = json.dumps({"id": CARD, "type": "a", "data": {"object": {}}}).encode()
    for _ in range(2):
        stripe(kept, body)
    kept.events.append(events.event_of_adyen(vectors.adyen_item(pspReference=CARD), b"key"))
    first, again, other = (event.provider_event_id for event in kept.events)
    assert first == again != other
    assert not any(CARD in event.provider_event_id or CARD.encode() in event.body for event in kept.events)


def stripe_body(**said: Any) -> bytes:
    metadata = {"operation_id": f"op_{'a' * 26}_1"}
    charge = {"metadata": metadata, "currency": "usd", "amount": 5, "amount_received": 5}
    return json.dumps({"data": {"object": charge | said}}).encode()


@pytest.mark.parametrize("off_s", [3_600.0, -3_600.0, 61.0])
def test_a_wrong_clock_of_ours_makes_nothing_forged(kept: Kept, off_s: float) -> None:
    """Genuine ones are told to come again, and old ones not taken for new; what has no time in it needs no clock."""
    raw = vectors.STRIPE_BODY
    counted = [("stripe", "forged"), ("simulator", "forged"), ("stripe", "untimed")]
    before = [_counted(*labels) for labels in counted]
    with pytest.raises(errors.Unavailable):
        receive(kept, "stripe", raw, ("Stripe-Signature", vectors.stripe_header(raw)), off_s=off_s)
    mac = ("webhook-signature", vectors.standard_mac(raw, "msg_1", NOW))
    with pytest.raises(errors.Unavailable):
        receive(kept, "simulator", raw, ("webhook-id", "msg_1"), ("webhook-timestamp", str(NOW)), mac, off_s=off_s)
    assert [_counted(*labels) for labels in counted] == [before[0], before[1], before[2] + 1]
    assert kept.events == []
    assert receive(kept, "adyen", batch(vectors.adyen_item()), off_s=off_s)


def _counted(processor: str, outcome: str) -> float:
    return metrics.EVENTS.labels(processor, outcome)._value.get()


def test_an_unknown_processor_is_no_route() -> None:
    gateway = WebhookGateway("postgresql://nobody@127.0.0.1:1/none", SECRETS, lambda: None)
    with pytest.raises(errors.NotFound):
        gateway.require("paypal")
    gateway.require("stripe")
