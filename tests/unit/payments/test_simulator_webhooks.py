"""The signature of a webhook is that of Standard Webhooks, to the byte."""

from __future__ import annotations

import pytest

from compose.simulator import errors, limits
from compose.simulator.webhooks import Receiver, backoff_ms

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
