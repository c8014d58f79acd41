"""How far a partition's events are published: up to the first that Kafka has not acknowledged, and no further."""

from __future__ import annotations

from itertools import permutations

from dataflows.owner.publisher import _Stream


def test_no_later_acknowledgement_stands_for_an_earlier_event() -> None:
    """In whatever order they arrive: a position past a gap would lose what Kafka refused."""
    for order in permutations(range(5, 10)):
        stream, known = _Stream(epoch=1, published_seq=4), {4}
        for seq in order:
            stream.acknowledge(seq)
            known.add(seq)
            assert stream.acked == next(n for n in range(4, 11) if n + 1 not in known)
        assert stream.ahead == set()
