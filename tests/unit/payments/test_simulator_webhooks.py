"""The signature of a webhook is that of Standard Webhooks, to the byte; when a delivery is tried."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from compose.simulator import errors, limits
from compose.simulator.metrics import SimulatorMetrics
from compose.simulator.webhook_sender import WebhookSender
from compose.simulator.webhooks import Receiver, backoff_ms, now_ms

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_the_signature_is_the_standards_own_example() -> None:
    """Source: the vector of the Standard Webhooks libraries."""
    headers = Receiver("http://127.0.0.1:1/hook", SECRET).headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', 1_614_265_330
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == ("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330")


@pytest.mark.parametrize(
    ("url", "secret"),
    [("ftp://host/", SECRET), ("host", SECRET), ("http://", SECRET), ("http://host/", ""), ("http://host/", "whsec_%")],
)
def test_what_could_never_be_delivered_is_refused_at_the_start(url: str, secret: str) -> None:
    with pytest.raises(errors.WebhooksMisconfigured):
        Receiver(url, secret)


def test_a_secret_is_not_shown() -> None:
    assert SECRET not in repr(Receiver("http://host/", SECRET))


def test_refusals_back_off_within_bounds() -> None:
    assert backoff_ms(0) <= limits.SIMULATOR_WEBHOOK_BACKOFF_FIRST_MS
    assert all(backoff_ms(tries) <= limits.SIMULATOR_WEBHOOK_BACKOFF_MAX_MS for tries in (5, 50, 10**6))
    assert backoff_ms(10**6) >= limits.SIMULATOR_WEBHOOK_BACKOFF_MAX_MS // 2


def test_a_sender_rests_until_the_next_delivery_is_due_and_for_no_longer_than_it_may(tmp_path: Path) -> None:
    sender = WebhookSender(tmp_path, Receiver("http://host/", SECRET), lambda _: None, SimulatorMetrics())
    idle_s = limits.SIMULATOR_WEBHOOK_IDLE_MS / 1_000
    with closing(sqlite3.connect(":memory:")) as outbox:
        assert sender._rest_s(outbox) == idle_s  # it cannot be read: the next look says so
        outbox.execute("CREATE TABLE webhook (due_at_ms INTEGER)")
        assert sender._rest_s(outbox) == idle_s
        outbox.execute("INSERT INTO webhook VALUES (?)", (now_ms() + 60_000,))
        assert sender._rest_s(outbox) == idle_s
        outbox.execute("INSERT INTO webhook VALUES (?)", (now_ms() + limits.SIMULATOR_WEBHOOK_IDLE_MS // 2,))
        assert 0 <= sender._rest_s(outbox) <= idle_s / 2
        outbox.execute("INSERT INTO webhook VALUES (1)")
        assert sender._rest_s(outbox) == 0
