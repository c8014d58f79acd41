"""The accounts of leases at a gateway: nothing is spent far beyond what Kafka knows, and a kill loses nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from limiter.stream.lease_book import LeaseReport, decode_reports, encode_reports, unreported_max
from schemas.limiter import limits
from tests.worlds.limiter.lease_gateway import Gateway
from tests.worlds.limiter.lease_reports import Reports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def gateway_in(tmp_path: Path) -> Iterator[Callable[..., Gateway]]:
    """Makes gateways in one place; none says anything when it ends, as a killed one does not."""
    made = []

    def make(reports: Reports, slots: int = 8, levels: int = 1) -> Gateway:
        made.append(Gateway(tmp_path, reports, slots, levels))
        return made[-1]

    yield make
    for gateway in made:
        gateway.close()


@pytest.fixture
def reports() -> Reports:
    return Reports()


def test_no_more_is_spent_than_the_bound_beyond_what_kafka_knows(
    gateway_in: Callable[..., Gateway], reports: Reports
) -> None:
    gateway = gateway_in(reports)
    gateway.grant(80)
    spent = gateway.spend(100)
    assert spent == unreported_max(80) == 10
    for _ in range(20):
        gateway.recorder.flush()
        assert gateway.spend(100) == 0  # sent is not yet known
        reports.arrive()
        spent += (more := gateway.spend(100))
        assert more <= 10
        assert spent <= reports.newest()["g.1"].allowed_cost + 10
    assert spent == 80


def test_what_does_not_arrive_is_said_again(gateway_in: Callable[..., Gateway], reports: Reports) -> None:
    gateway = gateway_in(reports)
    gateway.grant(80)
    gateway.spend(10)
    gateway.recorder.flush()
    reports.lose()
    assert gateway.spend(1) == 0
    gateway.recorder.flush()
    reports.arrive()
    assert reports.newest()["g.1"].allowed_cost == 10
    assert gateway.spend(100) == 10


def test_an_ended_lease_leaves_its_slot_when_all_of_it_is_known(
    gateway_in: Callable[..., Gateway], reports: Reports
) -> None:
    gateway = gateway_in(reports, slots=1)
    gateway.grant(80)
    gateway.spend(3, cost=3)
    gateway.bucket.end_lease()
    assert list(gateway.bucket.settling) == [(b"g.1", 9)]
    gateway.recorder.flush()
    reports.arrive()
    gateway.grant(80, "g.2")  # the slot is still the first one's
    assert (gateway.spend(1), gateway.leases.unreported) == (0, 1)
    gateway.leases.settled(b"g.1", is_known=True)
    gateway.recorder.flush()
    reports.arrive()
    last = reports.newest()["g.1"]
    assert (last.allowed_cost, last.allowed_n, last.closed, last.settled) == (9, 3, True, True)
    gateway.grant(80, "g.3")
    assert gateway.spend(1) == 1


@pytest.mark.parametrize("flushed_after", [0, 1, 4, 7])
@pytest.mark.parametrize("is_ended", [False, True])
def test_the_next_process_reports_what_a_killed_one_had_spent(
    gateway_in: Callable[..., Gateway], reports: Reports, flushed_after: int, is_ended: bool
) -> None:
    """No step loses a decision, wherever between spending, flushing and ending the kill comes."""
    gateway = gateway_in(reports)
    gateway.grant(80)
    for n in range(7):
        if n == flushed_after:
            gateway.recorder.flush()
        assert gateway.spend(1, cost=1) == 1
    if flushed_after == 7:
        gateway.recorder.flush()
    if is_ended:
        gateway.bucket.end_lease()
    for _ in range(2):  # the second is killed before it could send anything
        after = Reports()
        gateway_in(after)
    last_words = Reports()
    last = gateway_in(last_words)
    last.recorder.flush()
    last_words.arrive()
    found = last_words.newest()["g.1"]
    assert (found.allowed_cost, found.allowed_n, found.granted, found.closed) == (7, 7, 80, True)
    empty = Reports()
    gateway_in(empty).recorder.flush()
    assert empty.sent == []


def test_leases_that_are_never_settled_leave_their_slots(gateway_in: Callable[..., Gateway], reports: Reports) -> None:
    """A store that is away for long makes a bucket forget its oldest leases; the book must not keep them for ever."""
    gateway = gateway_in(reports, slots=limits.LIMIT_SETTLING_MAX + 1)
    for n in range(5 * limits.LIMIT_SETTLING_MAX):
        gateway.grant(80, f"g.{n}")
        assert gateway.spend(1) == 1
        gateway.bucket.end_lease()
        gateway.recorder.flush()
        reports.arrive()
    assert gateway.leases.unreported == 0


@pytest.mark.parametrize("flushed_after", [0, 3, 9])
def test_every_level_tells_what_its_lease_spent(
    gateway_in: Callable[..., Gateway], reports: Reports, flushed_after: int
) -> None:
    """One decision spends of several leases: each is accounted for, and the decision is counted once."""
    gateway = gateway_in(reports, levels=3)
    gateway.grant(80)
    for n in range(9):
        if n == flushed_after:
            gateway.recorder.flush()
        assert gateway.spend(1) == 1
    if flushed_after == 9:
        gateway.recorder.flush()
        assert gateway.recorder.outcomes.named()["allowed"] == gateway.recorder.recorded == 9
    last_words = Reports()
    gateway_in(last_words).recorder.flush()
    last_words.arrive()
    found = last_words.newest()
    assert {name: (r.allowed_cost, r.allowed_n) for name, r in found.items()} == {
        "g.1": (9, 9),
        "g.1+": (9, 9),
        "g.1++": (9, 9),
    }


def test_a_slot_that_is_used_again_forgets_what_was_spent_of_it(
    gateway_in: Callable[..., Gateway], reports: Reports
) -> None:
    gateway = gateway_in(reports, slots=1)
    gateway.grant(80)
    assert gateway.spend(6) == 6
    gateway.bucket.end_lease()
    gateway.leases.settled(b"g.1", is_known=True)
    gateway.recorder.flush()
    reports.arrive()
    gateway.recorder.flush()
    gateway.grant(80, "g.2")
    last_words = Reports()
    gateway_in(last_words).recorder.flush()  # killed before it counted anything of the second lease
    last_words.arrive()
    assert (last_words.newest()["g.2"].allowed_cost, last_words.newest()["g.2"].allowed_n) == (0, 0)


def test_a_ring_that_was_overrun_hides_no_spend(gateway_in: Callable[..., Gateway], reports: Reports) -> None:
    gateway = gateway_in(reports)
    gateway.grant(20_000)
    assert gateway.spend(2_000) == 2_000  # the ring holds half of it
    gateway.recorder.flush()
    reports.arrive()
    assert reports.newest()["g.1"].allowed_cost == 2_000
    assert gateway.spend(3) == 3
    last_words = Reports()
    gateway_in(last_words).recorder.flush()
    last_words.arrive()
    assert last_words.newest()["g.1"].allowed_cost == 2_003


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.worlds.limiter.lease_reports import Reports
from tests.worlds.limiter.lease_gateway import Gateway
gateway = Gateway(Path(sys.argv[1]), Reports())
gateway.grant(80)
gateway.spend(3)
gateway.recorder.flush()
gateway.spend(4)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_really_was_killed(tmp_path: Path, gateway_in: Callable[..., Gateway], reports: Reports) -> None:
    """Trap 2: the kill comes between spending and flushing."""
    root = Path(__file__).parents[3]
    ended = subprocess.run([sys.executable, "-c", KILLED, tmp_path], cwd=root, check=False)
    assert ended.returncode == -signal.SIGKILL
    gateway_in(reports).recorder.flush()
    reports.arrive()
    assert (reports.newest()["g.1"].allowed_cost, reports.newest()["g.1"].closed) == (7, True)


def test_a_torn_report_leaves_the_one_before(
    tmp_path: Path, gateway_in: Callable[..., Gateway], reports: Reports
) -> None:
    gateway = gateway_in(reports)
    gateway.grant(80)
    gateway.spend(2)
    gateway.recorder.flush()
    book = tmp_path / "leases.book"
    data = bytearray(book.read_bytes())
    newest = data.find(b"g.1", data.find(b"g.1") + 1)
    data[newest] ^= 0xFF
    book.write_bytes(data)
    last_words = Reports()
    gateway_in(last_words).recorder.flush()
    last_words.arrive()
    assert last_words.newest()["g.1"].allowed_cost == 2  # the rest is in the ring


def test_reports_survive_their_encoding() -> None:
    report = LeaseReport(
        lease_id="l", key_hash="0" * 32, policy_id="p", policy_version=1, epoch=0, terms=b"x", granted=9, ends_at_us=5
    )

    assert decode_reports(encode_reports([report])) == [report]
