"""A reader that keeps its own positions, on real servers: what gathers comes whole, and what expired is gone on behind."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from schemas.payments import topics
from sinks.streams.intake import Position
from sinks.streams.reader import EventReader
from tests.eventually import eventually
from tests.worlds.committed_world import publish_all
from tests.worlds.sink_stage import Stage, new_stage
from tests.worlds.stream_positions import expire

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.servers import World

pytestmark = pytest.mark.servers


@pytest.fixture
def stage(stack: World) -> Iterator[Stage]:
    """A history of payments, published."""
    with new_stage(stack.settings, payments=20) as made:
        made.store_and_publish()
        yield made


def _reader(stage: Stage, gather_ms: int, partitions: Iterable[int] = range(topics.PARTITIONS)) -> EventReader:
    """Assigned once: an answer under way to who assigns anew is thrown away, and the next fetch waits for what gathers."""
    reader = EventReader(stage.kafka, topic=stage.world.events_topic, client_id="r", group="r", gather_ms=gather_ms)
    reader.assign({partition: Position() for partition in partitions})
    return reader


def _has_read(reader: EventReader, found: list[tuple[int, int]], count: int) -> bool:
    found += [(one.partition, one.event.seq) for one in reader.read(500, 0.2)]
    return len(found) >= count


@pytest.mark.parametrize("gather_ms", [0, 200])
def test_a_reader_that_meets_what_expired_reads_on_behind_it(stage: Stage, gather_ms: int) -> None:
    """It says what is missing, reads the other partitions on, and takes what is published again."""
    mine = [c for c in stage.world.commits if c.partition == 3]
    others = len(stage.world.commits) - len(mine)
    expire(stage.kafka, stage.world.events_topic, 3)
    found: list[tuple[int, int]] = []
    with closing(_reader(stage, gather_ms)) as reader:
        eventually(lambda: _has_read(reader, found, others) and 3 in reader.intake.halts, within_s=40)
        assert reader.intake.halts[3].reason == "expired"
        publish_all(stage.kafka, stage.world.events_topic, ((3, "x", c.payload) for c in mine))
        eventually(lambda: _has_read(reader, found, others + len(mine)), within_s=40)
    assert sorted(found) == sorted((c.partition, c.seq) for c in stage.world.commits)


def test_while_events_gather_none_is_read(stage: Stage) -> None:
    """One of those that were fetched is left over until the rest is published: so that the next fetch was put off."""
    partition = stage.world.commits[0].partition
    fetched = [commit.seq for commit in stage.world.commits if commit.partition == partition]
    # of no other: it could be fetched for the first time meanwhile
    with closing(_reader(stage, 300_000, [partition])) as reader:
        (first,) = eventually(lambda: reader.read(1, 0.2), within_s=40)
        stage.world.payments_made(30)
        stage.store_and_publish()
        read = [first, *(one for _ in range(6) for one in reader.read(500, 0.05))]
    assert [one.event.seq for one in read] == fetched
    assert len(fetched) > 1


def test_what_has_gathered_is_read_whole_and_in_order(stage: Stage) -> None:
    found: list[tuple[int, int]] = []
    with closing(_reader(stage, 50)) as reader:
        for _ in range(3):
            stage.world.payments_made(10)
            stage.store_and_publish()
            eventually(lambda: _has_read(reader, found, len(stage.world.commits)), within_s=40)
    assert sorted(found) == sorted((c.partition, c.seq) for c in stage.world.commits)
    assert all(seqs == sorted(seqs) for p in range(topics.PARTITIONS) for seqs in [[s for q, s in found if q == p]])
