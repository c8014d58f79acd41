"""A fleet that lost its store at one moment does not come back to it at one moment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

from limiter.store.store import CounterStore
from schemas.limiter import limits

if TYPE_CHECKING:
    import pytest

FLEET = 50
FAILED_AT = 100.0


def test_gateways_ask_a_store_that_failed_at_different_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits at least half of the bound, and never longer than it."""
    monkeypatch.setattr("limiter.store.store.time", SimpleNamespace(monotonic=lambda: FAILED_AT))
    stores = [CounterStore("redis://127.0.0.1:1") for _ in range(FLEET)]
    for store in stores:
        store._failed("gone")
    left_alone_s = sorted(store._shut_until - FAILED_AT for store in stores)
    assert left_alone_s[0] >= limits.LIMIT_STORE_RETRY_S / 2
    assert left_alone_s[-1] <= limits.LIMIT_STORE_RETRY_S
    assert len(set(left_alone_s)) > FLEET / 2
