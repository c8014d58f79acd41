"""Keys that a connection of frames found: they decide until policies change, and never after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from limiter.decide.limiter import Limiter
from limiter.decide.store_exchange import taken_in
from limiter.edge.frame_server import FrameServer
from limiter.frames import frames
from limiter.store import store
from limiter.store.lease_clock import lease_clock_ns
from limiter.store.store import CounterStore
from limiter.stream.decisions import Recorder
from schemas.limiter import limits
from tests.worlds.limiter.counter_server import Blocks, policies, policy

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PLACE = ("t", "u", "/r")
BODY = frames.ENTRY.pack(0, 1, bytes(16))


def test_keys_of_connections_are_void_with_the_limiters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder("g", Blocks(), tmp_path / "ring", records=64)
    limiter = Limiter(CounterStore("redis://127.0.0.1:1/0"), recorder, "g")
    connection = FrameServer(limiter)._connection()
    limiter.use(policies(policy()))
    for frame in frames.frames(bytearray(frames.keys_frame(0, [PLACE]))):
        connection._take(frame)

    def decided() -> int:
        key = limiter.governed(*PLACE)
        answer = [store.OK, 9, 0, 0, 1, 10, 10**9]
        taken_in(key, 0, answer, lease_clock_ns(), b"lease", 0)
        rows = bytearray(frames.ROW.size)
        return limiter.spend_entries(BODY, 0, connection._places, connection._keys, rows)

    connection._connections.add(connection)
    assert decided() == 1
    assert connection._keys == [limiter.governed(*PLACE)]
    for void in (lambda: limiter.use(policies(policy())), limiter.lapse):
        void()
        assert connection._keys == [None]
        assert limiter.spend_entries(BODY, 0, connection._places, connection._keys, bytearray(32)) == 0
        limiter.use(policies(policy()))
        assert decided() == 1
    monkeypatch.setattr(limits, "LIMIT_KEYS_MAX", 1)
    limiter.governed("t", "another", "/r")  # there is room for one key only
    assert connection._keys == [None]
    recorder.close()
