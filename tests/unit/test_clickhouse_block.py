"""A block of the sink: the same events make the same ranges, rows and digest, however they came."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from sinks.clickhouse.block import EventBlock
from sinks.clickhouse.payments.service import SINKS
from sinks.streams.intake import Intake, Position
from tests.worlds.committed_store import Commit
from tests.worlds.committed_world import CommittedWorld


@cache
def commits() -> list[Commit]:
    return CommittedWorld(seed=5, partitions=3).payments_made(6).commits


@given(st.data())
def test_a_block_is_the_same_however_its_events_came(data: st.DataObject) -> None:
    """A restart reads the same records in other portions and another order of partitions."""
    taken = {p: [] for p in range(3)}
    intake = Intake()
    intake.begin({p: Position() for p in range(3)})
    for commit in commits():
        accepted = intake.take(commit.partition, commit.offset, commit.payload)
        assert accepted is not None
        taken[commit.partition].append(accepted)
    first, second = EventBlock(SINKS[0]), EventBlock(SINKS[0])
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
    whole, other = EventBlock(SINKS[0]), EventBlock(SINKS[0])
    whole.add(t for t in taken if t)
    changed = [t for t in taken if t]
    changed[-1] = type(changed[-1])(0, changed[-1].offset, changed[-1].value[:-1] + b"\x01", changed[-1].event)
    other.add(changed)
    assert whole.sha256() != other.sha256()


_INSERTS_ROWS = """
import sys
import sinks.clickhouse.connection
from clickhouse_connect.datatypes.registry import get_from_name
from clickhouse_connect.driver.insert import InsertContext
InsertContext("t", ["a"], [get_from_name("UInt8")], [[1], [2]])
print("pandas" in sys.modules)
"""


def test_who_inserts_rows_imports_no_frames() -> None:
    """The driver would: over a second of a core and 60 MB for each process, to ask whether rows are a frame."""
    command = [sys.executable, "-c", _INSERTS_ROWS]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"
