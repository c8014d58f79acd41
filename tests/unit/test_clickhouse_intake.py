"""Which records of a stream are taken: exactly seq == last + 1, whatever is repeated or missing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sinks.clickhouse.block import Block
from sinks.clickhouse.stream import UNKNOWN_SEQ, Intake, Position
from tests.worlds.committed_world import CommittedWorld

WORLD = CommittedWorld(seed=3, partitions=1).payments_made(12)
PAYLOADS = [commit.payload for commit in WORLD.commits]


def fed(records: list[bytes], position: Position | None = None) -> tuple[Intake, list[int]]:
    intake = Intake()
    intake.begin({0: position or Position()})
    taken = [intake.take(0, offset, value) for offset, value in enumerate(records)]
    return intake, [t.event.seq for t in taken if t is not None]


@given(st.lists(st.tuples(st.integers(0, len(PAYLOADS)), st.integers(1, 8)), max_size=12))
def test_any_republication_is_taken_once_and_in_order(again: list[tuple[int, int]]) -> None:
    """Owners publish runs again from stored positions; a last full run fills every gap."""
    records = [p for start, length in again for p in PAYLOADS[start : start + length]] + PAYLOADS
    _, seqs = fed(records)
    assert seqs == list(range(1, len(PAYLOADS) + 1))


def test_a_gap_is_waited_for_and_reported() -> None:
    intake, seqs = fed([PAYLOADS[0], PAYLOADS[2]])
    assert seqs == [1]
    assert intake.gaps == {0: 3}
    intake, seqs = fed([PAYLOADS[0], PAYLOADS[2], PAYLOADS[1], PAYLOADS[2]])
    assert seqs == [1, 2, 3]
    assert intake.gaps == {}


def test_an_unreadable_record_is_reported_once_and_passed_over() -> None:
    intake, seqs = fed([PAYLOADS[0], b"", b"\x00\x00\x00\x00\x06garbage", PAYLOADS[1]])
    assert seqs == [1, 2]
    assert [u.offset for u in intake.unreadable] == [1, 2]


def test_a_start_by_offset_takes_the_first_event_there() -> None:
    _, seqs = fed([*PAYLOADS[4:7], *PAYLOADS[5:9]], Position(0, UNKNOWN_SEQ))
    assert seqs == [5, 6, 7, 8, 9]


@given(st.data())
def test_a_block_is_the_same_however_its_events_came(data: st.DataObject) -> None:
    """A restart reads the same records in other portions and another order of partitions."""
    world = CommittedWorld(seed=5, partitions=3).payments_made(6)
    taken = {p: [] for p in range(3)}
    intake = Intake()
    intake.begin({p: Position() for p in range(3)})
    for commit in world.commits:
        accepted = intake.take(commit.partition, commit.offset, commit.payload)
        assert accepted is not None
        taken[commit.partition].append(accepted)
    first, second = Block(), Block()
    for events in taken.values():
        first.add(events)
    while any(taken.values()):
        partition = data.draw(st.sampled_from([p for p in taken if taken[p]]))
        count = data.draw(st.integers(1, len(taken[partition])))
        second.add(taken[partition][:count])
        del taken[partition][:count]
    assert second.sha256() == first.sha256()
    assert second.ranges() == first.ranges()
    assert second.rows() == first.rows()


def test_one_changed_byte_changes_the_digest() -> None:
    world = CommittedWorld(seed=6, partitions=1).payments_made(3)
    intake = Intake()
    intake.begin({0: Position()})
    taken = [intake.take(0, c.offset, c.payload) for c in world.commits]
    whole, other = Block(), Block()
    whole.add(t for t in taken if t)
    changed = [t for t in taken if t]
    changed[-1] = type(changed[-1])(0, changed[-1].offset, changed[-1].value[:-1] + b"\x01", changed[-1].event)
    other.add(changed)
    assert whole.sha256() != other.sha256()
