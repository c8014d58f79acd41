"""A reader of results that died, or hangs, says so: else callers would wait for what nobody hears."""

from __future__ import annotations

import asyncio

import pytest

from ingress import limits as ingress_limits
from ingress.commands.results import ResultsReader
from sinks import limits as sinks_limits
from sinks.kafka.connection import KafkaConnection


def test_a_dead_or_hanging_reader_is_not_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks_limits, "KAFKA_ADMIN_TIMEOUT_S", 0.01)
    loop = asyncio.new_event_loop()
    nowhere = KafkaConnection(bootstrap="127.0.0.1:1")
    reader = ResultsReader(nowhere, "test", 0, loop, lambda _: None)
    assert not reader.is_reading()
    reader.start()
    assert reader.is_reading()
    with monkeypatch.context() as patched:
        patched.setattr(ingress_limits, "RESULTS_SILENT_MAX_S", -1)
        assert not reader.is_reading()
    reader.close()
    assert not reader.is_reading()
    loop.close()
