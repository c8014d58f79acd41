"""Old rows of the webhook workers go as fast as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from dataflows.payments.merchant_webhooks.worker import MerchantWebhookWorker
from dataflows.payments.webhooks.worker import WebhookWorker
from schemas.payments import limits

if TYPE_CHECKING:
    from collections.abc import Callable


class Store:
    """Has so many old rows."""

    def __init__(self, old: int, batch: int) -> None:
        self.old = old
        self.batch = batch
        self.calls = 0

    def prune(self) -> int:
        self.calls += 1
        gone = min(self.old, self.batch)
        self.old -= gone
        return gone

    def seal_secrets(self) -> None:
        """Nothing is to be sealed."""

    end_leftovers = seal_secrets


class Silent:
    """Metrics that nobody reads."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *_: object) -> Any:
        return self


def merchants(store: Any) -> Callable[[], None]:
    parts: Any = None
    return MerchantWebhookWorker(store=store, intake=parts, sender=parts, metrics=cast("Any", Silent()))._tidy


def processors(store: Any) -> Callable[[], None]:
    parts: Any = None
    return WebhookWorker(store=store, producer=parts, metrics=cast("Any", Silent()))._prune


@pytest.mark.parametrize(
    ("made", "batch"),
    [
        (merchants, limits.MERCHANT_WEBHOOK_PRUNE_BATCH_MAX),
        (processors, limits.PROVIDER_EVENTS_PRUNE_BATCH_MAX),
    ],
)
def test_old_rows_go_in_every_round_until_there_is_no_whole_batch(
    made: Callable[[Any], Callable[[], None]], batch: int
) -> None:
    """Else what finishes faster than one bound a minute stays for ever. Rounds go on between."""
    store = Store(25 * batch + batch // 2, batch)
    one_round = made(store)
    for calls in range(1, 27):
        one_round()
        assert store.calls == calls, "one batch a round"
    assert store.old == 0
    one_round()
    assert store.calls == 26, "the next look is in a minute"
