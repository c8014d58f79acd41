"""What leases are charged for under identities reaches Kafka whole: resent, recovered after a kill, or counted as lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

from limiter.policy.keys import identity_hash, key_hash
from limiter.spending.ring import ALLOWED, IDENTIFIED, RECORD_TYPE, SLOT_SHIFT
from limiter.stream.charges import ChargeBlock, Charges, LeasesBySlot, decode
from limiter.stream.lease_book import LeaseBook, LeaseReport
from schemas.limiter import limits
from tests.eventually import patient
from tests.worlds.limiter.lease_gateway import KEY, Gateway
from tests.worlds.limiter.lease_reports import Reports

ROOT = Path(__file__).parents[3]
NAME = "t:u:/r"


class ChargeTopic(Reports):
    """A Kafka of a test's own for charges; it may be full."""

    is_full = False

    def send(self, partition: int, message: bytes, told: object) -> bool:
        return not self.is_full and super().send(partition, message, told)  # type: ignore[arg-type]  # as a report


def charged(blocks: list[bytes]) -> list[tuple[str, str, int, int, bool]]:
    """Lease, bucket, identity, cost, and whether it stands for its decision."""
    found = []
    for block in (decode(each) for each in blocks):
        for identity, _, key, lease, cost in block.columns().tolist():
            assert key in (0, key_hash(NAME))
            found.append((*block.leases[lease], identity, cost, key != 0))
    return found


def hashed(*identities: str) -> list[int]:
    return [identity_hash(key_hash(NAME), identity) for identity in identities]


def test_only_what_a_lease_is_charged_for_under_an_identity_is_told(tmp_path: Path) -> None:
    topic = ChargeTopic()
    gateway = Gateway(tmp_path, Reports(), charges=Charges(topic))
    gateway.grant(100)
    assert gateway.check(*KEY, 2, "r1") is not None
    assert gateway.check(*KEY, 1, None) is not None
    assert gateway.check(*KEY, 2, "r1").duplicate  # type: ignore[union-attr]  # it is known
    assert gateway.check(*KEY, 3, "r2") is not None
    gateway.recorder.flush()
    topic.arrive()
    expected = [
        ("g.1", gateway.bucket.key_hash, identity, cost, True)
        for identity, cost in zip(hashed("r1", "r2"), (2, 3), strict=True)
    ]
    assert charged(topic.arrived) == expected
    gateway.recorder.flush()
    assert topic.sent == []
    gateway.close()


def test_every_level_of_a_decision_is_told_and_one_stands_for_it(tmp_path: Path) -> None:
    topic = ChargeTopic()
    gateway = Gateway(tmp_path, Reports(), levels=3, charges=Charges(topic))
    gateway.grant(100)
    assert gateway.check(*KEY, 2, "r1") is not None
    gateway.recorder.flush()
    topic.arrive()
    found = charged(topic.arrived)
    assert {(lease, bucket) for lease, bucket, *_ in found} == {
        (f"g.1{'+' * at}", bucket.key_hash) for at, bucket in enumerate(gateway.buckets)
    }
    assert sorted(stands for *_, stands in found) == [False, False, True]
    assert {identity for _, _, identity, *_ in found} == set(hashed("r1"))
    gateway.close()


def test_without_charges_nothing_is_kept(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, Reports())
    gateway.grant(100)
    assert gateway.check(*KEY, 2, "r1") is not None
    assert gateway.recorder.ring.identities == 0
    assert not (gateway.recorder.ring.take()["flags"] & 64).any()
    gateway.close()


def test_what_kafka_does_not_take_is_sent_again_and_counted_past_the_bound(tmp_path: Path) -> None:
    """Full, then lost on the way, then arrived: each once. What there is no room for is a gap, and nothing waits."""
    topic = ChargeTopic()
    charges = Charges(topic, unsent_max=5)
    gateway = Gateway(tmp_path, Reports(), charges=charges)
    gateway.grant(800)
    topic.is_full = True
    for n in range(4):
        assert gateway.check(*KEY, 1, f"r{n}") is not None
        gateway.recorder.flush()
    topic.is_full = False
    gateway.recorder.flush()
    assert (len(topic.sent), charges.under_way, charges.safe) == (4, 4, 0)
    topic.lose()
    for n in range(4, 8):
        assert gateway.check(*KEY, 1, f"r{n}") is not None
    gateway.recorder.flush()  # four more find room for one
    topic.arrive()
    gateway.recorder.flush()
    topic.arrive()
    assert (charges.gap, charges.sent, charges.under_way, charges.safe) == (4, 4, 0, charges.made)
    assert sorted(identity for _, _, identity, *_ in charged(topic.arrived)) == sorted(hashed("r0", "r1", "r2", "r3"))
    assert gateway.check(*KEY, 1, "r8") is not None
    gateway.recorder.flush()
    assert charges.under_way == 1
    gateway.close()


def test_very_many_are_cut_into_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LIMIT_CHARGES_BLOCK_MAX", 7)
    topic = ChargeTopic()
    gateway = Gateway(tmp_path, Reports(), charges=Charges(topic))
    gateway.grant(800)
    for n in range(50):
        assert gateway.check(*KEY, 1, f"r{n}") is not None
    gateway.recorder.flush()
    topic.arrive()
    assert len(topic.arrived) == 8
    assert len({identity for _, _, identity, *_ in charged(topic.arrived)}) == 50
    gateway.close()


def test_a_message_of_the_longest_names_is_less_than_a_broker_takes(tmp_path: Path) -> None:
    """Each charge of another lease, whose name fills a slot of the book; librdkafka refuses more than 1,000,000 bytes."""
    count = limits.LIMIT_CHARGES_BLOCK_MAX + 1
    leases, longest = LeasesBySlot(count), "l" * 340
    for slot in range(1, count + 1):
        report = LeaseReport(
            lease_id=longest,
            key_hash="0" * 32,
            policy_id="",
            policy_version=0,
            epoch=0,
            terms=b"",
            granted=1,
            ends_at_us=0,
        )
        leases.put(slot, report)
    records = np.zeros(count, RECORD_TYPE)
    records["flags"] = np.arange(1, count + 1) << SLOT_SHIFT | ALLOWED | IDENTIFIED
    topic = ChargeTopic()
    charges = Charges(topic)
    charges.take(records, np.arange(count, dtype=np.uint64), np.ones(1, np.uint64), leases)
    charges.flush()
    topic.arrive()
    assert [len(decode(block).columns()) for block in topic.arrived] == [count - 1, 1]
    assert max(len(block) for block in topic.arrived) < 900_000
    with pytest.raises(ValueError, match="too large"):
        LeaseBook(tmp_path / "book", 1).write(1, report, 0)


def test_a_slot_is_another_leases_only_when_its_charges_are_safe(tmp_path: Path) -> None:
    """Else what a killed process left in its ring would be told of the wrong lease, or of none."""
    reports, topic = Reports(), ChargeTopic()
    gateway = Gateway(tmp_path, reports, slots=1, charges=Charges(topic))
    gateway.grant(100)
    assert gateway.check(*KEY, 1, "r1") is not None
    gateway.bucket.end_lease()
    gateway.leases.settled(b"g.1", is_known=True)
    gateway.recorder.flush()
    reports.arrive()  # all is said of the lease, but its charge is on the way
    assert not gateway.leases.may_open()
    topic.arrive()
    gateway.recorder.flush()
    assert gateway.leases.may_open()
    gateway.close()


@pytest.mark.parametrize("safe", [False, True])
def test_a_process_that_really_was_killed_left_its_charges_to_the_next(tmp_path: Path, safe: bool) -> None:
    """Flushed and not safe, or never flushed: of the lease that had the slot then, and of no other that has it now."""
    program = (
        "import sys; from tests.integration.limiter.test_limiter_charges import be_killed; be_killed(*sys.argv[1:])"
    )
    child = [sys.executable, "-m", "tests.worlds.program", program, str(tmp_path), "safe" if safe else ""]
    assert subprocess.run(child, check=False, timeout=patient(60), cwd=ROOT).returncode == -signal.SIGKILL
    before = msgspec.msgpack.decode((tmp_path / "arrived").read_bytes(), type=list[bytes])
    reports, topic = Reports(), ChargeTopic()
    gateway = Gateway(tmp_path, reports, slots=1, charges=Charges(topic))
    gateway.leases.flush()
    reports.arrive()
    assert not gateway.recorder._is_idle()  # what they are in is no ring of this process
    topic.lose()
    gateway.recorder.take()
    topic.arrive()
    assert gateway.recorder._is_idle()
    found = sorted((lease, identity) for lease, _, identity, *_ in charged(before + topic.arrived))
    first, second = (hashed(*(f"{name}{n}" for n in range(5))) for name in "ab")
    assert found == sorted([*(("g.1", i) for i in first), *(("g.2" if safe else "g.1", i) for i in second)])
    gateway.close()


def be_killed(folder: str, safe: str) -> None:
    """In the child: charges of one lease are flushed, more of it, or of the next one in its slot, are not."""
    reports, topic = Reports(), ChargeTopic()
    gateway = Gateway(Path(folder), reports, slots=1, charges=Charges(topic))
    gateway.grant(400, "g.1")
    for n in range(5):
        assert gateway.check(*KEY, 1, f"a{n}") is not None
    gateway.recorder.flush()
    if safe:
        topic.arrive()
        gateway.bucket.end_lease()
        gateway.leases.settled(b"g.1", is_known=True)
        gateway.recorder.flush()
        reports.arrive()
        gateway.grant(400, "g.2")
    (Path(folder) / "arrived").write_bytes(msgspec.msgpack.encode(topic.arrived))
    for n in range(5):
        assert gateway.check(*KEY, 1, f"b{n}") is not None
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_block_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="buffer size"):
        ChargeBlock([], b"x").columns()
    with pytest.raises(ValueError, match="no lease of its block"):
        ChargeBlock([], np.zeros(1, "V32").tobytes()).columns()
    assert len(ChargeBlock([], b"").columns()) == 0
