"""When deliveries are tried again, and what signs them."""

from __future__ import annotations

import pytest

from dataflows.payments.merchant_webhooks import schedule, signature
from schemas.payments import limits
from tests.worlds.payments import merchant_webhook_world

DAY_S = 86_400


def test_the_schedule_spans_days_and_then_ends() -> None:
    waits = [schedule.wait_s(tries, 0.5) for tries in range(1, len(limits.MERCHANT_WEBHOOK_RETRY_SCHEDULE_S))]
    assert waits == list(limits.MERCHANT_WEBHOOK_RETRY_SCHEDULE_S[1:])
    assert 2 * DAY_S < sum(wait or 0 for wait in waits) <= 3 * DAY_S
    assert schedule.wait_s(len(limits.MERCHANT_WEBHOOK_RETRY_SCHEDULE_S), 0.5) is None
    assert schedule.wait_s(len(limits.MERCHANT_WEBHOOK_RETRY_SCHEDULE_S) + 5, 0.5) is None


@pytest.mark.parametrize(("dice", "wait_s"), [(0.0, 270.0), (1.0, 330.0)])
def test_waits_are_jittered_either_way(dice: float, wait_s: float) -> None:
    assert schedule.wait_s(2, dice) == pytest.approx(wait_s)


@pytest.mark.parametrize(
    ("status", "taken"), [(200, True), (204, True), (299, True), (301, False), (500, False), (None, False)]
)
def test_only_a_2xx_is_a_receipt(status: int | None, taken: bool) -> None:
    assert schedule.is_taken(status) is taken


def test_a_lease_outlives_a_send() -> None:
    assert limits.MERCHANT_WEBHOOK_LEASE_S > 3 * limits.MERCHANT_WEBHOOK_SEND_TIMEOUT_S


def test_every_valid_secret_signs_the_newest_first() -> None:
    secrets = ["whsec_" + "B" * 44, "whsec_" + "A" * 44]
    made = signature.headers("evt_1", b"{}", 1_700_000_000, secrets)
    one = {"id": made["webhook-id"], "timestamp": made["webhook-timestamp"], "body": b"{}"}
    assert made["webhook-signature"].split(" ") == [merchant_webhook_world.signature(s, one) for s in secrets]
