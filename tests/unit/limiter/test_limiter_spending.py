"""Both spenders, the one in Python and the compiled one, decide alike: answers, records, what is left, what is refused."""

from __future__ import annotations

import secrets
import shutil
import struct
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limiter.decide.fast_path import fast_path
from limiter.decide.identities import SHARDS, Identities
from limiter.frames import frames
from limiter.policy.keys import identity_hash, key_hash
from limiter.spending.buckets import Bucket
from limiter.spending.fields import IS_COMPILED, PlainIdentities, SpentIdentities
from limiter.spending.key_state import KeyState
from limiter.spending.ring import IDENTIFIED, RECORD_TYPE, SLOT_SHIFT, Ring
from limiter.spending.spender import PlainSpender, Spender
from limiter.store.lease_clock import lease_clock_ns
from limiter.stream.decisions import Recorder
from schemas import errors
from tests.worlds.limiter.counter_server import Blocks, policies, policy

if TYPE_CHECKING:
    from limiter.frames.frames import Place

NEVER_NS = 10**18
KINDS = [("plain", PlainSpender, PlainIdentities)] + ([("compiled", Spender, SpentIdentities)] if IS_COMPILED else [])
PLACES: list[Place] = [("t", "a", "/r"), ("t", "b", "/r"), ("t", "nobody", "/r")]
(LEVEL,) = policies(policy()).all_levels()


class Gateway:
    """Two keys that hold leases, and a third one that nobody knows."""

    def __init__(self, folder: Path, kind: str, size: int, *, told: bool = False) -> None:
        _, spender, identities = next(found for found in KINDS if found[0] == kind)
        self.recorder = Recorder("g", Blocks(), folder / f"{secrets.token_hex(4)}.ring", records=64)
        if told:  # identities that leases are charged for
            self.recorder.ring.close()
            self.recorder.ring = Ring(folder / f"{secrets.token_hex(4)}.ring", 64, identities=True)
        self.recorder.wall_offset_ns = 0
        self.identities = Identities(NEVER_NS)
        self.identities.spent = identities(SHARDS)
        self.under_way: dict[tuple[str, str], Any] = {}
        self.low: list[str] = []
        self.keys = {place: self.key(place, size) for place in PLACES[:2]}
        self.spender = fast_path(
            self.keys, self.identities, self.under_way, self.recorder, lambda b: self.low.append(b.id_), spender
        )

    def key(self, place: Place, size: int) -> KeyState:
        bucket = Bucket(LEVEL, place[1])
        bucket.begin_lease(b"l", size, NEVER_NS, epoch=1)
        bucket.remaining, bucket.reset_ms = 7, 11
        return KeyState(":".join(place), (bucket,), self.recorder.row(":".join(place), "pl_a", 1))

    def seen(self) -> dict[str, Any]:
        """All that a decision may change, but the clock."""
        records = self.recorder.ring.take()
        return {
            "left": [key.buckets[0].left for key in self.keys.values()],
            "low": self.low,
            "records": [tuple(record)[:4] for record in records.tolist()],
        }

    def close(self) -> None:
        self.recorder.close()


@pytest.fixture(params=[kind for kind, *_ in KINDS])
def gateway(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    found = Gateway(tmp_path, request.param, 10)
    yield found
    found.close()


HEADER = Path(sysconfig.get_paths()["include"]) / "Python.h"


@pytest.mark.skipif(not (shutil.which("gcc") and HEADER.exists()), reason="no C compiler, or no headers of Python")
def test_where_there_is_a_compiler_both_are_tested() -> None:
    """Else one of them would never be tried: set-up must have built it."""
    assert IS_COMPILED


def test_a_lease_is_spent_once_for_each_identity(gateway: Gateway) -> None:
    key = gateway.keys[PLACES[0]]
    assert gateway.spender.spend(key, 3, "r") == 7
    assert gateway.spender.spend(key, 3, "r") == -1
    assert gateway.spender.spend(key, 3, None) == 4
    assert gateway.spender.spend(gateway.keys[PLACES[1]], 3, "r") == 7  # of another key


@pytest.mark.parametrize("cost", [-1, 11, 2**31, 2**32, 2**63, 10**30])
def test_a_cost_that_no_lease_holds_spends_nothing(gateway: Gateway, cost: int) -> None:
    assert gateway.spender.spend(gateway.keys[PLACES[0]], cost, "r") == -1
    assert gateway.spender.check_now(*PLACES[0], cost, "r") is None
    assert gateway.seen() == {"left": [10, 10], "low": [], "records": []}
    assert gateway.identities.find(gateway.keys[PLACES[0]], "r") is None


@pytest.mark.parametrize("cost", ["1", None, 1.5])
def test_what_is_no_number_is_no_cost(gateway: Gateway, cost: Any) -> None:
    with pytest.raises(TypeError):
        gateway.spender.check_now(*PLACES[0], cost, None)


def test_a_lease_that_ended_is_not_spent(gateway: Gateway) -> None:
    key = gateway.keys[PLACES[0]]
    key.buckets[0].lease_ends_ns = lease_clock_ns()
    assert gateway.spender.spend(key, 1, None) == -1


@pytest.mark.parametrize("whose", ["under_way", "doubtful"])
def test_an_identity_that_the_store_may_have_charged_is_left_to_it(gateway: Gateway, whose: str) -> None:
    found = gateway.under_way if whose == "under_way" else gateway.identities.doubtful
    found[("t:a:/r", "r")] = 1
    assert gateway.spender.check_now(*PLACES[0], 1, "r") is None
    assert gateway.spender.check_now(*PLACES[1], 1, "r") is not None


def test_a_record_has_the_time_and_the_place_of_its_lease(gateway: Gateway) -> None:
    gateway.keys[PLACES[1]].buckets[0].lease_flags = 9 | 5 << 8
    before_us = lease_clock_ns() // 1_000
    gateway.spender.spend(gateway.keys[PLACES[1]], 4, None)
    (record,) = gateway.recorder.ring.take()
    assert record.dtype == RECORD_TYPE
    assert tuple(record.tolist())[:4] == (1, 4, 9 | 5 << 8, 6)
    assert before_us <= int(record["at"]) <= lease_clock_ns() // 1_000


@pytest.fixture(params=[kind for kind, *_ in KINDS])
def telling(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A gateway whose charges under identities are told; the first key's lease has a place in the book of leases."""
    found = Gateway(tmp_path, request.param, 1_000, told=True)
    found.keys[PLACES[0]].buckets[0].lease_flags |= 3 << SLOT_SHIFT
    yield found
    found.close()


IDENTITIES = [
    "",
    "a",
    "r" * 3,
    "0123",
    "01234567",
    "x" * 31,
    "x" * 32,
    "0123456789abcdef" * 2,
    "y" * 33,
    "é" * 40,
    "𝄞" * 9,
    "z" * 128,
]


def test_what_a_lease_is_charged_for_is_known_by_one_hash_on_every_gateway(telling: Gateway) -> None:
    """Of every length and alphabet; of a call without identity, and where no lease is reported, nothing is kept."""
    ring, key = telling.recorder.ring, telling.keys[PLACES[0]]
    for identity in IDENTITIES:
        assert telling.spender.spend(key, 1, None) >= 0
        assert telling.spender.spend(key, 1, identity) >= 0
        assert telling.spender.spend(key, 1, identity) == -1
        assert telling.spender.spend(telling.keys[PLACES[1]], 1, identity) >= 0  # of no lease in the book
        records = ring.take()
        told = (records["flags"] & IDENTIFIED) != 0
        assert told.tolist() == [False, True, False]
        assert ring.identities_of(3)[told].tolist() == [identity_hash(key_hash("t:a:/r"), identity)]


def test_identities_of_a_frame_are_told_as_their_text(telling: Gateway) -> None:
    body = frames.ENTRY.pack(0, 2, bytes(range(16))) + frames.ENTRY.pack(0, 2, bytes(16))
    assert telling.spender.spend_entries(body, 0, PLACES, [None] * 3, bytearray(2 * frames.ROW.size)) == 2
    records = telling.recorder.ring.take()
    assert (records["flags"] & IDENTIFIED).tolist() == [IDENTIFIED, 0]
    assert telling.recorder.ring.identities_of(2)[0] == identity_hash(key_hash("t:a:/r"), bytes(range(16)).hex())


def test_hashes_go_round_with_their_records(telling: Gateway) -> None:
    ring, key, seed = telling.recorder.ring, telling.keys[PLACES[0]], key_hash("t:a:/r")
    for first in range(0, 320, 40):
        for n in range(first, first + 40):
            telling.spender.spend(key, 1, f"r{n}" if n % 3 else None)
        told = (ring.take()["flags"] & IDENTIFIED) != 0
        expected = [identity_hash(seed, f"r{n}") for n in range(first, first + 40) if n % 3]
        assert ring.identities_of(40)[told].tolist() == expected


def test_an_identity_that_has_no_bytes_is_refused_and_charges_nothing(telling: Gateway) -> None:
    with pytest.raises(UnicodeEncodeError):
        telling.spender.spend(telling.keys[PLACES[0]], 1, "\ud800")
    assert telling.seen()["left"] == [1_000, 1_000]


def test_the_ring_goes_round(gateway: Gateway) -> None:
    key = gateway.keys[PLACES[0]]
    key.buckets[0].left = 1_000
    for _ in range(100):
        gateway.spender.spend(key, 1, None)
    assert gateway.recorder.ring.written == 100
    assert [record["remaining"] for record in gateway.recorder.ring.take()] == list(range(963, 899, -1))


def test_a_refill_that_fails_is_not_hidden(gateway: Gateway) -> None:
    def failing(_: Bucket) -> None:
        raise ZeroDivisionError

    _, spender, _ = next(found for found in KINDS if isinstance(gateway.spender, found[1]))
    path = fast_path(gateway.keys, gateway.identities, gateway.under_way, gateway.recorder, failing, spender)
    with pytest.raises(ZeroDivisionError):
        path.check_now(*PLACES[0], 9, None)


def test_very_many_identities_are_all_remembered(gateway: Gateway) -> None:
    spent = gateway.identities.spent
    for n in range(50_000):
        spent.add("k", f"r{n}", n)
    assert all(spent.cost_of("k", f"r{n}") == n for n in range(50_000))
    assert not any(spent.cost_of("k", f"x{n}") >= 0 for n in range(50_000))
    assert sum(map(spent.young, range(SHARDS))) == 50_000
    for shard in range(SHARDS):
        spent.turn(shard)
    spent.add("k", "r1", 9)
    assert (spent.cost_of("k", "r1"), spent.cost_of("k", "r2")) == (9, 2)
    for shard in range(SHARDS):
        spent.turn(shard)
    assert (spent.cost_of("k", "r1"), spent.cost_of("k", "r2")) == (9, -1)


def test_entries_stop_at_the_first_that_no_lease_decides(gateway: Gateway) -> None:
    entries = [(0, 2, b"\1" * 16), (1, 1, bytes(16)), (2, 1, bytes(16)), (0, 2, b"\1" * 16), (0, 3, b"\2" * 16)]
    body = b"".join(frames.ENTRY.pack(*entry) for entry in entries)
    rows = bytearray(len(entries) * frames.ROW.size)
    stops, known = [], [None] * 3
    at = 0
    while (at := gateway.spender.spend_entries(body, at, PLACES, known, rows)) < len(entries):
        stops.append(at)
        at += 1
    assert stops == [2, 3]
    assert known == [*gateway.keys.values(), None]
    assert [row[:3] for row in frames.ROW.iter_unpack(rows)] == [
        (9, 1, 15), (9, 1, 16), (0, 0, 0), (0, 0, 0), (9, 1, 12),
    ]  # fmt: skip
    assert gateway.identities.find(gateway.keys[PLACES[0]], "02" * 16) == (3, None)


def test_entries_without_room_for_their_rows_are_refused(gateway: Gateway) -> None:
    with pytest.raises((ValueError, struct.error)):
        gateway.spender.spend_entries(frames.ENTRY.pack(0, 1, bytes(16)), 0, PLACES, [None] * 3, bytearray(8))
    with pytest.raises(IndexError):
        gateway.spender.spend_entries(frames.ENTRY.pack(9, 1, bytes(16)), 0, PLACES, [None] * 3, bytearray(32))


ASKED = st.tuples(
    st.sampled_from(["check", "spend"]), st.sampled_from(PLACES), st.integers(-1, 12), st.sampled_from([None, *"abc"])
)


@pytest.mark.skipif(not IS_COMPILED, reason="nothing was compiled at set-up")
@given(asked=st.lists(ASKED, max_size=40), size=st.integers(1, 40))
def test_both_decide_alike(tmp_path_factory: pytest.TempPathFactory, asked: list[Any], size: int) -> None:
    folder = tmp_path_factory.mktemp("rings")
    both = [Gateway(folder, kind, size) for kind, *_ in KINDS]
    for way, place, cost, identity in asked:
        plain, compiled = (_answer(gateway, way, place, cost, identity) for gateway in both)
        assert plain == compiled
    assert both[0].seen() == both[1].seen()
    for found in both:
        found.close()


ENTRIES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 9).map(lambda n: bytes([n]) * 16)), max_size=50
)


@pytest.mark.skipif(not IS_COMPILED, reason="nothing was compiled at set-up")
@given(bodies=st.lists(ENTRIES, max_size=3), size=st.integers(1, 60), doubtful=st.integers(0, 9))
def test_both_decide_frames_alike(
    tmp_path_factory: pytest.TempPathFactory, bodies: list[Any], size: int, doubtful: int
) -> None:
    """More entries than are looked up at once, repeated identities, leases that end half-way, keys nobody knows."""
    folder = tmp_path_factory.mktemp("rings")
    both = [Gateway(folder, kind, size, told=True) for kind, *_ in KINDS]
    answered = []
    for gateway in both:
        gateway.keys[PLACES[0]].buckets[0].lease_flags |= 3 << SLOT_SHIFT
        gateway.under_way["t:b:/r", bytes([doubtful] * 16).hex()] = 1
        known: list[KeyState | None] = [None] * 3
        found: list[Any] = []
        for entries in bodies:
            body, at = b"".join(frames.ENTRY.pack(*entry) for entry in entries), 0
            rows = bytearray(len(entries) * frames.ROW.size)
            while (at := gateway.spender.spend_entries(body, at, PLACES, known, rows)) < len(entries):
                found.append(at)
                at += 1
            found.append(bytes(rows))
        answered.append((found, [None if key is None else key.name for key in known]))
    assert answered[0] == answered[1]
    hashes = [gateway.recorder.ring.identities_of(len(gateway.recorder.ring.take())).tolist() for gateway in both]
    assert hashes[0] == hashes[1]
    for gateway in both:
        gateway.close()


def test_keys_that_were_found_are_not_looked_up_again(gateway: Gateway) -> None:
    """Until whoever keeps them is told that they are void: then by what is known now."""
    body, known = frames.ENTRY.pack(0, 1, bytes(16)), [None] * 3
    rows = bytearray(frames.ROW.size)
    assert gateway.spender.spend_entries(body, 0, PLACES, known, rows) == 1
    gateway.keys.clear()
    assert gateway.spender.spend_entries(body, 0, PLACES, known, rows) == 1
    assert gateway.spender.spend_entries(body, 0, PLACES, [None] * 3, rows) == 0
    with pytest.raises(IndexError):
        gateway.spender.spend_entries(body, 0, PLACES, [], rows)


def _answer(gateway: Gateway, way: str, place: Place, cost: int, identity: str | None) -> Any:
    try:
        if way == "check":
            return gateway.spender.check_now(*place, cost, identity)
        key = gateway.keys.get(place)
        return None if key is None else gateway.spender.spend(key, cost, identity)
    except errors.KeyReused:
        return "reused"
