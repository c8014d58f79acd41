"""How far a partition's events are published: up to the first that Kafka has not acknowledged, and no further."""

from __future__ import annotations

from itertools import permutations
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from dataflows.limits import PUBLISH_MARK_INTERVAL_MS
from dataflows.owner.publisher import MarkTimer, _Stream

if TYPE_CHECKING:
    import pytest

INTERVAL_S = PUBLISH_MARK_INTERVAL_MS / 1_000


def test_no_later_acknowledgement_stands_for_an_earlier_event() -> None:
    """In whatever order they arrive: a position past a gap would lose what Kafka refused."""
    for order in permutations(range(5, 10)):
        stream, known = _Stream(epoch=1, published_seq=4), {4}
        for seq in order:
            stream.acknowledge(seq)
            known.add(seq)
            assert stream.acked == next(n for n in range(4, 11) if n + 1 not in known)
        assert stream.ahead == set()


def test_a_position_is_stored_once_no_claim_has_carried_it_for_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each mark is a commit, and the next command of a busy partition carries the same."""
    now_s, marked = 1_000.0, list[tuple[str, float]]()
    monkeypatch.setattr("dataflows.owner.publisher.time", SimpleNamespace(monotonic=lambda: now_s))
    quiet = SimpleNamespace(partition="quiet", published_seq=1, claimed_at_s=now_s - INTERVAL_S)
    busy = SimpleNamespace(partition="busy", published_seq=1, claimed_at_s=now_s)
    known = SimpleNamespace(partition="known", published_seq=2, claimed_at_s=0.0)
    publisher: Any = SimpleNamespace(published_seq=lambda _: 2)
    marks, leases = MarkTimer(), [quiet, busy, known]

    def mark(_: Any, lease: Any, published: int) -> None:
        marked.append((lease.partition, now_s))
        marks.run(None, leases, publisher, mark)  # type: ignore[arg-type] # another lane, meanwhile
        lease.published_seq = published

    for after_s in (0.0, INTERVAL_S / 2, INTERVAL_S / 2):
        now_s += after_s
        marks.run(None, leases, publisher, mark)  # type: ignore[arg-type] # no database is asked
    assert marked == [("quiet", 1_000.0), ("busy", 1_000.0 + INTERVAL_S)]
