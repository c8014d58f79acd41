"""Events of processors are remembered for longer than any processor repeats them."""

from __future__ import annotations

from ingress.payments.webhooks.signatures import PROCESSORS
from schemas.payments import limits

DAY_S = 86_400


def test_the_inbox_outlives_every_processors_retries() -> None:
    """Rule: no idempotency record is gone before the last retry, payments reference section 7, trap 3."""
    assert set(limits.PROVIDER_RETRY_HORIZON_S) >= set(PROCESSORS)
    assert limits.PROVIDER_RETRY_HORIZON_S["stripe"] >= 3 * DAY_S
    assert all(
        horizon + 7 * DAY_S <= limits.PROVIDER_EVENTS_KEPT_S for horizon in limits.PROVIDER_RETRY_HORIZON_S.values()
    )
