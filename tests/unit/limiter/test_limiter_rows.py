"""The rows that records refer to: on a disk that takes no more, and of more keys and versions than are kept."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest

from limiter.decide.key_cache import KeyCache
from limiter.policy.policies import PolicySet
from limiter.stream.blocks import Row
from limiter.stream.decisions import Recorder
from limiter.stream.row_dictionary import RowDictionary, left_rows
from schemas.limiter import limits
from tests.worlds.limiter.counter_server import policy

if TYPE_CHECKING:
    from pathlib import Path

A, B, C, D = (Row(f"t:u:/{name}", "pl_a", 1) for name in "abcd")


class Full:
    """Takes a part of what is written, or nothing, while it is full."""

    def __init__(self, file: Any, takes: int) -> None:
        self._file = file
        self._takes = takes
        self.is_full = True

    def write(self, data: bytes) -> int:
        if not self.is_full:
            return int(self._file.write(data))
        if not self._takes:
            raise OSError(errno.ENOSPC, "No space left on device")
        return int(self._file.write(data[: self._takes]))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@pytest.mark.parametrize("takes", [0, 3])
def test_a_full_disk_fails_no_decision_and_mixes_up_no_rows(tmp_path: Path, takes: int) -> None:
    """A line that is missing would give what a killed process left on one key to another."""
    ring = tmp_path / "g.ring"
    rows = RowDictionary(ring, "s")
    assert [rows.add(row) for row in (A, B)] == [0, 1]
    rows._file = full = Full(rows._file, takes)  # type: ignore[assignment]
    assert rows.add(C) == 2
    full.is_full = False
    assert rows.add(D) == 3
    assert (rows.number(C), len(rows.rows)) == (2, 4)
    assert left_rows(ring) == ("s", [A, B])
    rows.forget()
    assert rows.add(D) == 0
    assert left_rows(ring) == ("s", [D])
    full.is_full = True
    rows.forget()
    assert left_rows(ring) == ("", [])
    rows.close()


class Slow:
    """Tells of a block that it arrived when it was asked some times."""

    lost = 0

    def __init__(self) -> None:
        self._asked = 0

    def send(self, _partition: int, _block: bytes) -> bool:
        self._asked = 5
        return True

    @property
    def under_way(self) -> int:
        self._asked = max(0, self._asked - 1)
        return self._asked


def test_rows_of_keys_and_versions_that_are_gone_make_room_while_decisions_never_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something is always on its way to Kafka then."""
    monkeypatch.setattr(limits, "LIMIT_KEYS_MAX", 10)
    monkeypatch.setattr(limits, "LIMIT_ROWS_WAIT_S", 60)
    recorder = Recorder("g", Slow(), tmp_path / "g.ring", records=1_024)
    cache, most = KeyCache(recorder), 0
    for version in range(1, 30):
        cache.use(PolicySet([policy(version=version)], version))
        for user in "abc":
            key = cache.key(("t", user, "/r"))
            recorder.ring.put(key.row, 1, 1, 0, 1_000_000 + version)
        most = max(most, len(recorder._dictionary.rows))
    assert most <= 2 * limits.LIMIT_KEYS_MAX + 3
    recorder.flush()
    recorder.close()
