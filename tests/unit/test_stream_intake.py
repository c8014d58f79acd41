"""Which records of a stream are taken: exactly seq == last + 1; before what is missing or not read a partition stops."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sinks.kafka.topic_offsets import Held
from sinks.streams.intake import UNKNOWN_SEQ, Intake, Position, standing_in_topic
from sinks.streams.record_positions import readable
from tests.worlds.committed_world import CommittedWorld

WORLD = CommittedWorld(seed=3, partitions=1).payments_made(12)
PAYLOADS = [commit.payload for commit in WORLD.commits]
UNKNOWN_SCHEMA = b"\x00\x00\x0f\x42\x40" + PAYLOADS[1][5:]


def fed(records: list[bytes], position: Position | None = None) -> tuple[Intake, list[int]]:
    intake = Intake()
    intake.begin({0: position or Position()})
    taken = [intake.take(0, offset, value) for offset, value in enumerate(records)]
    return intake, [t.event.seq for t in taken if t is not None]


@given(st.lists(st.tuples(st.integers(0, len(PAYLOADS)), st.integers(1, 8)), max_size=12))
def test_any_republication_is_taken_once_and_in_order(again: list[tuple[int, int]]) -> None:
    """Owners publish runs again from stored positions; a last full run fills every gap."""
    records = [p for start, length in again for p in PAYLOADS[start : start + length]] + PAYLOADS
    intake, seqs = fed(records)
    assert seqs == list(range(1, len(PAYLOADS) + 1))
    assert intake.halts == {}


@given(st.lists(st.integers(0, len(PAYLOADS) - 1), max_size=30))
def test_a_restart_from_the_position_after_any_record_loses_nothing(order: list[int]) -> None:
    """The position never lies behind a gap: whoever begins there gets every event that was not taken."""
    records = [PAYLOADS[n] for n in order] + PAYLOADS
    for cut in range(len(order) + 1):
        intake, first = fed(records[:cut])
        at = intake.positions[0]
        intake.begin({0: at})
        later = [intake.take(0, offset, records[offset]) for offset in range(at.next_offset, len(records))]
        assert first + [t.event.seq for t in later if t is not None] == list(range(1, len(PAYLOADS) + 1))


def test_what_was_deleted_unread_is_waited_for_where_its_seq_is_known() -> None:
    """Without a seq the first event found would be taken for the next one."""
    intake = Intake()
    intake.begin({0: Position(2, 2), 1: Position(2, UNKNOWN_SEQ)})
    assert (intake.compare(0, 5, 9), intake.compare(1, 5, 9)) == (5, None)
    assert [intake.is_halted(partition) for partition in (0, 1)] == [False, True]
    assert intake.halts[0].reason == intake.halts[1].reason == "expired"
    again = [PAYLOADS[5], PAYLOADS[1], PAYLOADS[2], PAYLOADS[3]]
    taken = [intake.take(0, 5 + n, payload) for n, payload in enumerate(again)]
    assert [t.event.seq for t in taken if t is not None] == [3, 4]
    assert 0 not in intake.halts
    assert intake.positions[0] == Position(9, 4)
    assert intake.take(1, 5, PAYLOADS[5]) is None


def test_what_is_gone_of_records_without_seq_is_passed() -> None:
    held = {0: Held("t", 5, 9), 1: Held("t", 0, 9), 2: Held("t", 0, 3)}
    assert readable({0: 2, 1: 4, 2: 7}, held, "test") == {0: 5, 1: 4, 2: 0}


def test_a_gap_is_waited_for_and_told() -> None:
    intake, seqs = fed([PAYLOADS[0], PAYLOADS[2], PAYLOADS[0]])
    assert seqs == [1]
    assert intake.positions[0] == Position(1, 1)
    assert intake.halts[0].reason == "gap"
    assert "event 2 missing, at offset 1 comes event 3" in intake.halts[0].words
    intake, seqs = fed([PAYLOADS[0], PAYLOADS[2], PAYLOADS[1], PAYLOADS[2]])
    assert seqs == [1, 2, 3]
    assert intake.halts == {}


def test_nothing_is_taken_behind_what_cannot_be_read() -> None:
    """Neither behind a schema of the future nor behind foreign bytes: either may have been the next event."""
    for record, reason in ((UNKNOWN_SCHEMA, "unknown_schema"), (b"", "undecodable"), (b"hello", "undecodable")):
        intake, seqs = fed([PAYLOADS[0], record, PAYLOADS[1], PAYLOADS[2]])
        assert seqs == [1]
        assert intake.halts[0].reason == reason
        assert intake.positions[0] == Position(1, 1)
    intake, _ = fed([UNKNOWN_SCHEMA])
    assert intake.halts[0].words.startswith("upgrade this process: schema 1000000 is unknown")


def test_other_partitions_go_on() -> None:
    intake = Intake()
    intake.begin({0: Position(), 1: Position()})
    intake.take(0, 0, b"hello")
    assert intake.take(1, 0, PAYLOADS[0]) is not None
    intake.forget([0])
    assert intake.halts == {}
    assert intake.take(0, 1, PAYLOADS[0]) is None


def test_a_start_by_offset_takes_the_first_event_there() -> None:
    _, seqs = fed([*PAYLOADS[4:7], *PAYLOADS[5:9]], Position(0, UNKNOWN_SEQ))
    assert seqs == [5, 6, 7, 8, 9]


def test_a_position_stands_in_its_topic_or_is_told() -> None:
    assert [standing_in_topic(0, Position(at, 5), 3, 7) for at in (3, 5, 7)] == [None] * 3
    below, above = (standing_in_topic(0, Position(at, 5), 3, 7) for at in (2, 8))
    assert below is not None
    assert above is not None
    assert (below.reason, above.reason) == ("expired", "shorter")
