"""Senders that are killed, frozen or two: every event arrives, in the order of its object, under one webhook-id."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.eventually import becomes, eventually, patient
from tests.freezing import freeze
from tests.gate import examples, matrix
from tests.worlds.payments.merchant_webhook_world import MerchantWebhookWorld, Shop, merchant_webhook_system, shop, told

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["merchant_webhook_system", "told"]
pytestmark = [pytest.mark.servers, pytest.mark.faults]
#: where a sender is killed, and how often the event is sent in all
SENDS = {"merchant_webhook_before_plan": 1, "merchant_webhook_after_claim": 1, "merchant_webhook_after_send": 2}


@pytest.fixture
def merchant(told: MerchantWebhookWorld) -> Iterator[Any]:
    caller = told.system.merchant()
    yield caller
    caller.http.close()


@pytest.fixture
def here() -> Iterator[Shop]:
    with shop() as found:
        yield found


def rows(told: MerchantWebhookWorld, endpoint: dict[str, Any]) -> list[tuple[Any, ...]]:
    query = "select event_id, state, tries from merchant_webhook_delivery where endpoint_id = %s order by seq"
    return told.system.rows(query, endpoint["id"])


@pytest.mark.parametrize("fail_point", matrix(SENDS, "merchant_webhook_after_send".__eq__))
def test_killed_anywhere_it_is_told_again_with_the_same_id(
    told: MerchantWebhookWorld, merchant: Any, here: Shop, fail_point: str
) -> None:
    endpoint = told.endpoint(merchant, here.url)
    victim = told.start(MILLRACE_FAIL_POINT=fail_point)
    intent_id = told.payment(merchant)
    assert victim.wait(patient(30)) == -signal.SIGKILL
    told.hurry(endpoint)  # the lease of the killed one; later it could be the one of the next
    told.start()

    def taken() -> bool:
        return bool(rows(told, endpoint) and rows(told, endpoint)[0][1] == "delivered")

    eventually(taken, 30, what="delivered")
    assert here.versions(intent_id) == [1] * SENDS[fail_point]
    assert len(set(here.ids())) == 1
    assert len(rows(told, endpoint)) == 1


def test_two_senders_share_the_work_and_keep_the_order(told: MerchantWebhookWorld, merchant: Any, here: Shop) -> None:
    """One of them reads the stream and freezes: the other takes over, and a late mark of the first changes nothing."""
    endpoint = told.endpoint(merchant, here.url)
    first, _ = told.start(), told.start()
    half = examples(4, 10)
    intents = [told.payment(merchant, 2) for _ in range(half)]
    freeze(first.pid)
    intents += [told.payment(merchant, 2) for _ in range(half)]
    expected = len(intents) * 2

    def all_taken() -> bool:
        told.hurry(endpoint)
        return sum(state == "delivered" for _, state, _ in rows(told, endpoint)) == expected

    eventually(all_taken, 60, what="all delivered")
    first.send_signal(signal.SIGCONT)
    last = told.payment(merchant, 2)
    becomes(lambda: here.versions(last), [1, 2], 30, what="goes on")
    for intent_id in intents:
        # The frozen one may repeat an event when it wakes up; the first time each is told is in order.
        assert list(dict.fromkeys(here.versions(intent_id))) == [1, 2]
    assert len(rows(told, endpoint)) == expected + 2
