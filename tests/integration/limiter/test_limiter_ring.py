"""The ring of decisions: round and round, what is lost is counted, and what a killed process left is sent once."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pytest

from limiter.spending.decision import Decision
from limiter.spending.ring import ALLOWED, Ring, left_behind
from limiter.stream.blocks import decode
from limiter.stream.decisions import Recorder
from limiter.stream.usage import totals
from schemas.limiter import limits
from tests.each import each
from tests.eventually import patient
from tests.small_disk import small_disk
from tests.worlds.limiter.counter_server import Blocks

if TYPE_CHECKING:
    from limiter.spending.ring import Records

ROOT = Path(__file__).parents[3]
RECORDS = 8
ALLOW = Decision(True, 9, 0, 0, "pl_a", 3)
DENY = ALLOW._replace(allowed=False, remaining=0)


#: decides once with a lease, and is killed
GATEWAY: Final = """
import os, signal, sys
from pathlib import Path
from tests.worlds.limiter.lease_gateway import Gateway
from tests.worlds.limiter.lease_reports import Reports

gateway = Gateway(Path(sys.argv[1]), Reports(), slots=256, records=int(sys.argv[2]))
gateway.grant(100)
assert gateway.spend(1) == 1
os.kill(os.getpid(), signal.SIGKILL)
"""


class Arrivals(Blocks):
    """Says of every block that it came."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived: asyncio.Queue[int] = asyncio.Queue()

    def send(self, partition: int, block: bytes) -> bool:
        self.arrived.put_nowait(partition)
        return super().send(partition, block)


def begun(path: Path, *, identities: bool = False) -> Ring:
    ring = Ring(path, RECORDS, identities=identities)
    ring.take_over()
    return ring


def fill(ring: Ring, first: int, count: int) -> None:
    for n in range(first, first + count):
        ring.put(0, n, ALLOWED, 0, 1_000 + n)


def costs(records: Records) -> list[int]:
    found: list[int] = records["cost"].tolist()
    return found


def test_records_are_taken_once_in_their_order(tmp_path: Path) -> None:
    ring = begun(tmp_path / "r")
    taken = []
    for first in range(0, 60, 5):
        fill(ring, first, 5)
        taken += costs(ring.take())
    assert taken == list(range(60))
    assert (ring.lost, ring.written) == (0, 60)


@pytest.mark.parametrize("count", [8, 9, 15, 16, 17, 30])
def test_what_was_overwritten_is_counted(tmp_path: Path, count: int) -> None:
    ring = begun(tmp_path / "r")
    fill(ring, 0, 3)
    ring.take()
    fill(ring, 3, count)
    assert costs(ring.take()) == list(range(3 + count - RECORDS, 3 + count))
    assert ring.lost == count - RECORDS


def test_so_many_are_taken_and_the_rest_later_unless_some_were_overwritten(tmp_path: Path) -> None:
    ring = begun(tmp_path / "r", identities=True)
    fill(ring, 0, 5)
    assert [costs(ring.take(3)), ring.taken, costs(ring.take(3)), ring.taken] == [[0, 1, 2], 3, [3, 4], 5]
    fill(ring, 5, RECORDS + 2)
    assert costs(ring.take(3)) == list(range(7, 7 + RECORDS))
    assert (ring.lost, ring.taken, ring.written) == (2, 15, 15)


def test_a_ring_is_flushed_when_everything_in_it_is_safe(tmp_path: Path) -> None:
    ring = begun(tmp_path / "r")
    assert ring.is_flushed
    fill(ring, 0, RECORDS)  # the writer stands where it began
    assert not ring.is_flushed
    ring.take()
    assert not ring.is_flushed
    ring.flushed()
    assert ring.is_flushed


def test_a_recorder_that_seldom_looks_hears_who_is_in_a_hurry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was decided for long, so the next look is an hour away; two leases wait, one after the other."""
    monkeypatch.setattr(limits, "LIMIT_DECISIONS_IDLE_AFTER_S", -1.0)
    monkeypatch.setattr(limits, "LIMIT_DECISIONS_IDLE_S", 3_600.0)
    blocks = Arrivals()
    recorder = Recorder("g", blocks, tmp_path / "r", records=64)

    async def twice() -> None:
        running = asyncio.create_task(recorder.run())
        await asyncio.sleep(0)  # it waits
        for _ in range(2):
            recorder.record("k", 1, ALLOW)
            recorder.hurry()
            await asyncio.wait_for(blocks.arrived.get(), 60)
        running.cancel()

    asyncio.run(twice())
    assert recorder.recorded == 2
    recorder.close()


# a whole round between two flushes is lost
@each("flushed, taken, more", itertools.product(range(0, 20, 3), [0, 1, 5, 8], range(RECORDS)))
def test_what_was_not_flushed_is_left_behind(tmp_path: Path, flushed: int, taken: int, more: int) -> None:
    """At every place of the ring: taken and not safe yet, and never taken; nothing else, and by its number."""
    ring = begun(tmp_path / "r")
    for first in range(0, flushed, RECORDS):
        fill(ring, first, min(RECORDS, flushed - first))
        ring.take()
    ring.flushed()
    fill(ring, flushed, taken)
    ring.take()
    fill(ring, flushed + taken, more)
    first, found, _ = left_behind(tmp_path / "r")
    written = flushed + taken + more
    assert first == max(flushed, written - RECORDS)
    assert costs(found) == list(range(first, written))


def test_a_ring_of_the_format_before_is_read(tmp_path: Path) -> None:
    """A gateway that is upgraded may have been killed: what it had spent is in there."""
    ring = begun(tmp_path / "r")
    fill(ring, 0, 5)
    ring.buffer[:8] = b"rlring02"
    first, found, identities = left_behind(tmp_path / "r")
    assert (first, costs(found), len(identities)) == (0, [0, 1, 2, 3, 4], 0)


# A page that finds no room on the disk ends who writes to it by a signal: another process tries.
@pytest.mark.parametrize("room_kib", [64, 1_024], ids=["for neither", "for the book"])
def test_a_gateway_on_a_full_disk_says_so_and_leaves_what_a_killed_one_left(tmp_path: Path, room_kib: int) -> None:
    """Neither its ring nor its book of leases is begun where one has no room: the next start sends what is in them."""
    with small_disk(tmp_path / "disk", 4) as folder:
        killed = subprocess.run([sys.executable, "-c", GATEWAY, folder, str(RECORDS)], cwd=ROOT, check=False)
        assert killed.returncode == -signal.SIGKILL
        left = {path.name: path.read_bytes() for path in folder.iterdir()}
        assert sorted(left) == ["leases.book", "ring", "ring.rows"]
        (folder / "filled").write_bytes(bytes(shutil.disk_usage(folder).free - room_kib * 1_024))
        command = [sys.executable, "-c", GATEWAY, folder, str(2**16)]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        named = "leases.book.new" if room_kib == 64 else "ring.new"
        assert f"No space left on device: '{folder / named}'" in ended.stderr
        assert ended.returncode == 1
        assert {name: (folder / name).read_bytes() for name in left} == left


def test_another_file_is_no_ring(tmp_path: Path) -> None:
    path = tmp_path / "r"
    assert len(left_behind(path)[1]) == 0
    for content in (b"", b"x" * 100, b"rlring03" + bytes(100)):
        path.write_bytes(content)
        assert len(left_behind(path)[1]) == 0


def recorded(path: Path, count: int, under_way: int = 0) -> tuple[Recorder, Blocks]:
    """A recorder with so many decisions that are not flushed."""
    blocks = Blocks(under_way)
    recorder = Recorder("g", blocks, path, records=1_024)
    for n in range(count):
        recorder.record(f"t:u{n % 3}:/r", 2, ALLOW if n % 2 else DENY)
    return recorder, blocks


def test_blocks_say_every_decision(tmp_path: Path) -> None:
    recorder, blocks = recorded(tmp_path / "r", 600)
    recorder.flush()
    sent = [decode(block) for _, block in blocks.sent]
    assert sorted(number for block in sent for number in block.numbers().tolist()) == list(range(600))
    decided = [(block.rows[int(r["row"])], int(r["cost"]), int(r["flags"])) for block in sent for r in block.columns()]
    assert sorted(row.key for row, _, _ in decided) == sorted(f"t:u{n % 3}:/r" for n in range(600))
    assert sum(bool(flags & ALLOWED) for _, _, flags in decided) == 300
    assert {(row.policy_id, row.policy_version, cost) for row, cost, _ in decided} == {("pl_a", 3, 2)}
    recorder.close()


def test_a_flush_comes_by_parts_and_ends_with_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each decision once and in its turn; what is decided between two parts does not keep the flush from ending."""
    monkeypatch.setattr(limits, "LIMIT_DECISIONS_SENT_AT_ONCE", 7)
    recorder, blocks = recorded(tmp_path / "r", 40)
    degraded = DENY._replace(degraded=True)
    parts = 1
    for _ in recorder._flush_parts():
        parts += 1
        for _ in range(3):
            recorder.record("t:u9:/r", 1, degraded)
    assert parts == 6
    assert recorder.outcomes.degraded_s > 0
    recorder.flush()
    numbers = [int(number) for _, block in blocks.sent for number in decode(block).numbers()]
    assert sorted(numbers) == list(range(40 + 3 * (parts - 1)))
    assert recorder.recorded == len(numbers)
    assert sum(recorder.outcomes.named().values()) == len(numbers)
    assert recorder.gap() == 0
    recorder.close()


def test_totals_are_those_of_the_decisions(tmp_path: Path) -> None:
    recorder, blocks = recorded(tmp_path / "r", 600)
    recorder.flush()
    recorder.record("t:u0:/r", 2, ALLOW._replace(duplicate=True))
    recorder.flush()
    counted: dict[tuple[str, int], int] = {}
    sent = [(partition, decode(block)) for partition, block in blocks.sent]
    found = totals(sent, counted)
    assert {k: (t.allowed, t.denied, t.allowed_cost) for k, t in found.items()} == {
        f"t:u{n}:/r": (100, 100, 200) for n in range(3)
    }
    assert max(counted.values()) == 601
    assert totals(sent, counted) == {}
    recorder.close()


@pytest.mark.parametrize("under_way", [0, 1])
def test_a_killed_process_is_counted_once(tmp_path: Path, under_way: int) -> None:
    """It flushed 90, perhaps not safely, and recorded 60 more: the next one sends the rest, and totals hold all once."""
    program = "import sys; from tests.integration.limiter.test_limiter_ring import be_killed; be_killed(*sys.argv[1:])"
    child = [sys.executable, "-m", "tests.worlds.program", program, str(tmp_path), str(under_way)]
    assert subprocess.run(child, check=False, timeout=patient(60), cwd=ROOT).returncode == -signal.SIGKILL
    before = msgspec.msgpack.decode((tmp_path / "sent").read_bytes(), type=list[tuple[int, bytes]])
    blocks = Blocks()
    recorder = Recorder("g", blocks, tmp_path / "r", records=1_024)
    recorder.close()
    assert recorder.recovered == (150 if under_way else 60)
    found = totals([(partition, decode(block)) for partition, block in before + blocks.sent], {})
    assert sum(t.allowed for t in found.values()) == 75
    assert sum(t.denied for t in found.values()) == 75


def be_killed(folder: str, under_way: str) -> None:
    """In the child: sends a part, records more, and is killed."""
    recorder, blocks = recorded(Path(folder) / "r", 90, under_way=int(under_way))
    recorder.flush()
    recorder.flush()  # what was sent before may be safe by now
    (Path(folder) / "sent").write_bytes(msgspec.msgpack.encode(blocks.sent))
    for n in range(60):
        recorder.record(f"t:u{n % 3}:/r", 2, ALLOW if n % 2 else DENY)
    os.kill(os.getpid(), signal.SIGKILL)
