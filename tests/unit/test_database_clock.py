"""The database's time, asked once and counted on from there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING
from unittest.mock import sentinel

from sinks.postgres import database_clock

if TYPE_CHECKING:
    import pytest


def test_it_is_asked_once_and_goes_on_as_fast_as_this_process_sees_time_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this process's own clock says of the day: a fence that it judges would end early, or late."""
    asked = []
    monkeypatch.setattr(database_clock, "now_us", lambda connection: asked.append(connection) or 5_000_000)
    passed = SimpleNamespace(monotonic=lambda: now_s)
    monkeypatch.setattr(database_clock, "time", passed)
    now_s = 100.0
    clock = database_clock.Running(sentinel.connection)
    assert clock.now_us() == 5_000_000
    now_s = 120.5
    assert clock.now_us() == 25_500_000
    assert asked == [sentinel.connection]
