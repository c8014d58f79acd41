"""Tens of thousands of operations of each algorithm (a hundred thousand in the proof) on the real server, every number of every answer against exact ones.

The terms are those at which arithmetic in doubles, windows and clocks break: capacities of 0, 1 and 3, a period that
divides nothing, thirty days, a product of 2^52 - 1; the clock is set forward and back. An adversary who knows what is
left asks for exactly that, and for one more. All operations on one counter travel as one transaction, in which the
server's own time stands still: a slow machine cannot let a record end in the middle.
"""

from __future__ import annotations

import random
import socket
import struct
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import pytest
import redis

from limiter.store.store_script import FUNCTIONS, AsFunctions
from schemas.calendar_windows import Calendar, windows_from
from schemas.limiter.limit_terms import CALENDAR_CODE, SAFE_INTEGER, Terms
from sinks.redis.line import command
from tests.gate import examples
from tests.seeds import seeds
from tests.worlds.limiter.counter_server import server
from tests.worlds.limiter.limit_oracle import FIXED, SLIDING, TOKEN_BUCKET, Oracle, PermitOracle, RunningOracle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.worlds.limiter.counter_server import CounterServer

pytestmark = pytest.mark.servers
__all__ = ["server"]  # the fixture of this module
OPERATIONS = examples(10_000, 100_000)  # of each algorithm
DENIED, OK = 0, 1
PERMITS = 3  # the algorithm
BASE_US = 1_800_000_000_000_000  # the size of real clocks
DAY_MS, SECOND = 86_400_000, 1_000_000
ROW = 7  # numbers of an answer over one bucket
_HEAD: Final = struct.Struct("<6d")
_BUCKET: Final = struct.Struct("<11d")
_MARK: Final = b"\xff" * _HEAD.size
#: capacity, refill, period, slots of a sliding window, microseconds of a tick
EDGES = [
    (0, 1, 60_000, 12, 1_000),
    (1, 1, 997_000, 8, 1),
    (3, 7, DAY_MS, 12, 1_000),
    (100, 7, 997_020, 12, 1),
    (10**6, 10**6, 30 * DAY_MS, 10, 1_000),
    (53 * 157 * 2731, 1, 15 * 8191 * 1613, 5, 1),  # their product is 2^52 - 1
]
assert EDGES[-1][0] * EDGES[-1][2] == SAFE_INTEGER - 1
Operation = tuple[int, int]  # tick of the store's clock, cost


def edge_terms(algorithm: int, *, strict: bool = False) -> list[Terms]:
    return [
        Terms(algorithm, capacity, refill, period, slots if algorithm == SLIDING else 1, tick_us, strict)
        for capacity, refill, period, slots, tick_us in EDGES
    ]


@pytest.fixture(scope="module")
def line(server: CounterServer) -> Iterator[socket.socket]:
    """A connection to a server that has the functions."""
    with redis.Redis.from_url(server.url) as found:
        found.function_load(FUNCTIONS.decode(), replace=True)
    place = urlsplit(server.url)
    assert place.username
    assert place.password
    with socket.create_connection((place.hostname, place.port or 0), timeout=120) as opened:
        opened.sendall(command(b"AUTH", place.username.encode(), place.password.encode()))
        assert opened.recv(100) == b"+OK\r\n"
        yield opened


def answers(line: socket.socket, commands: list[bytes]) -> list[list[int]]:
    """Of all of them, done in one transaction."""
    last = command(b"ECHO", b"end")
    line.sendall(b"".join([command(b"MULTI"), *commands, command(b"EXEC"), last]))
    found = bytearray()
    while not found.endswith(b"$3\r\nend\r\n"):
        some = line.recv(1 << 20)
        assert some, "the server went away"
        found += some
    _, begun, rest = bytes(found).partition(b"*%d\r\n" % len(commands))
    assert begun, bytes(found[-200:])
    rows = [
        [int(number) for number in row.split(b"\r\n:")[1:]]
        for row in rest[: -len(b"\r\n$3\r\nend\r\n")].split(b"\r\n*")
    ]
    assert len(rows) == len(commands)
    return rows


def decisions(name: str, terms: Terms, asked: Sequence[Operation], boundaries: Sequence[int]) -> list[bytes]:
    """The calls; a gateway tells the window of its calendar with each."""

    def around(window: tuple[int, int, int]) -> tuple[bytes, bytes]:
        refill, period, slots = window
        ends = (terms.tick_us, 1, 0, 0, 1_000, terms.strict)
        bucket = _BUCKET.pack(terms.algorithm, terms.capacity, refill, period, slots, *ends)
        keys = [b"rl:epoch", b"", f"rl:{{{name}}}:b".encode(), f"rl:{{{name}}}:l".encode()]
        before, _, after = AsFunctions.call(b"rl1_decide", keys, (_MARK, b"l", b"", bucket)).partition(_MARK)
        return before, after

    known: dict[int, tuple[bytes, bytes]] = {}
    oracle, found, latest = RunningOracle(terms, boundaries), [], 0
    for now, cost in asked:
        latest = max(now, latest)  # a gateway's clock is right
        window = oracle.part(latest) if boundaries else 0
        if window not in known:
            begin, end, after = boundaries[window : window + 3] if boundaries else (0, 0, 0)
            told = (begin, end - begin, after - end) if boundaries else (terms.refill, terms.period, terms.slots)
            known[window] = around(told)
        before, after_head = known[window]
        found.append(before + _HEAD.pack(0, now * terms.tick_us, cost, 0, 0, 1) + after_head)
    return found


def operations(terms: Terms, count: int, random_: random.Random, boundaries: Sequence[int] = ()) -> Iterator[Operation]:
    """Ticks and costs that crowd the edges: of windows and slots, of the capacity, and of what is left at that moment."""
    oracle = RunningOracle(terms, boundaries)
    now = latest = boundaries[1] if boundaries else BASE_US // terms.tick_us
    yield now, 0  # a counter that nobody has used goes by whatever clock comes first
    for _ in range(count - 1):
        if boundaries:
            here = oracle.part(latest)
            slot, edge = boundaries[here + 1] - boundaries[here], boundaries[here + 1]
        else:
            slot = terms.period // terms.slots
            edge = (latest // slot + 1) * slot
        if terms.algorithm == TOKEN_BUCKET:
            edge = oracle.next_token(latest)
        draw = random_.random()
        if draw < 0.7:
            now = latest + random_.choice((0, 0, 1, slot // 97, random_.randrange(slot // 7)))
        elif draw < 0.9:
            now = edge - random_.randrange(3)
        elif draw < 0.95:  # the clock is set back: the counter's time stands still
            now = latest - random_.choice((1, slot, 5 * terms.period))
        else:
            now = latest + slot * (1 if boundaries else random_.choice((1, 2, 3, terms.slots, terms.slots + 1)))
        latest = max(now, latest)
        left = max(0, oracle.available(latest))
        cost = random_.choice(
            (0, 1, left, left + 1, left // 2, left // 10, terms.capacity, terms.capacity + 1, random_.randint(0, left))
        )
        if cost <= left:
            oracle.charge(latest, cost)
        yield now, cost


def judge(terms: Terms, asked: Sequence[Operation], found: Sequence[list[int]], boundaries: Sequence[int] = ()) -> int:
    """Every answer, number by number; how many were refused. After the wait that is told it passes, and no tick before."""
    oracle, now, refused = RunningOracle(terms, boundaries), 0, 0
    for n, ((clock, cost), answer) in enumerate(zip(asked, found, strict=True)):
        now = max(now, clock)
        assert len(answer) == ROW, (n, terms, answer)
        code, left, reset_us, retry_us, version, granted, life_us = answer
        allowed, wait = cost <= oracle.available(now), 0
        if allowed:
            oracle.charge(now, cost)
        elif cost > terms.capacity:
            wait = -1
        else:
            wait, rest = divmod(retry_us, terms.tick_us)
            assert rest == 0
            assert oracle.available(now + wait) >= cost > oracle.available(now + wait - 1), (
                n,
                terms,
                clock,
                cost,
                wait,
            )
        refused += not allowed
        told = (OK if allowed else DENIED, max(0, oracle.available(now)), oracle.reset(now) * terms.tick_us)
        assert (code, left, reset_us) == told, (n, terms, clock, cost)
        expected_us = wait * terms.tick_us if wait > 0 else wait
        assert (retry_us, version, granted, life_us) == (expected_us, 1, 0, 0), (n, terms, clock, cost)
    return refused


@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize(
    ("algorithm", "strict"), [(TOKEN_BUCKET, False), (SLIDING, False), (SLIDING, True), (FIXED, False)]
)
def test_a_long_run_is_answered_as_exact_arithmetic_does(
    line: socket.socket, algorithm: int, strict: bool, seed: int
) -> None:
    random_ = random.Random(seed)
    for terms in edge_terms(algorithm, strict=strict):
        asked = list(operations(terms, -(-OPERATIONS // len(EDGES)), random_))
        name = f"{seed}.{algorithm}.{strict}.{terms.capacity}"
        refused = judge(terms, asked, answers(line, decisions(name, terms, asked, ())))
        assert 0.05 * len(asked) < refused < 0.95 * len(asked)  # both are asked for often


@pytest.mark.parametrize("seed", seeds(1))
def test_a_long_run_over_calendars_is_answered_as_exact_arithmetic_does(line: socket.socket, seed: int) -> None:
    """Hours over a change of clocks by half of one, and days over two years of changes and more."""
    random_, count = random.Random(seed), OPERATIONS // 4
    for unit, zone, begin_s in (
        ("hour", "Australia/Lord_Howe", 1_774_900_000),
        ("day", "Europe/Berlin", 1_774_000_000),
    ):
        calendar = Calendar(unit, zone)  # type: ignore[arg-type]
        windows = windows_from(calendar, begin_s, begin_s + 200 * {"hour": 3_600, "day": 86_400}[unit])
        boundaries = [boundary * SECOND for boundary in windows.boundaries]
        for capacity in (3, SAFE_INTEGER - 1):
            terms = Terms(CALENDAR_CODE, capacity, capacity, boundaries[1] - boundaries[0], 1, 1, False, calendar)
            asked: list[Operation] = []
            while len(asked) < count:  # the windows end: the next counter begins with the first one
                part = []
                for operation in operations(terms, count - len(asked), random_, boundaries):
                    if operation[0] >= boundaries[-4]:
                        break
                    part.append(operation)
                name = f"{seed}.{unit}.{capacity}.{len(asked)}"
                judge(terms, part, answers(line, decisions(name, terms, part, boundaries)), boundaries)
                asked += part


@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize(
    ("capacity", "life", "tick_us"), [(0, 5_000, 1_000), (1, 997_000, 1), (3, DAY_MS, 1_000), (40, 997, 1_000)]
)
def test_a_long_run_of_permits_holds_no_more_than_there_are(
    line: socket.socket, capacity: int, life: int, tick_us: int, seed: int
) -> None:
    """Taken, given back, given back twice or late, and ended by their time; the clock is set both ways."""
    random_ = random.Random(seed)
    keys = [f"rl:{{{seed}.permits.{capacity}}}:{kind}".encode() for kind in "cl"]
    bucket = _BUCKET.pack(PERMITS, capacity, 1, life, 1, tick_us, 1, 0, 0, 1_000, 0)
    now, calls, expected = BASE_US // tick_us, [], []
    oracle = PermitOracle(capacity, life)
    names: list[str] = []
    for n in range(OPERATIONS // 4):
        now += random_.choice((0, 0, 1, life // 97, life // 7, 0, 0, random_.choice((life, life - 1, -1, -life // 3))))
        if names and random_.random() < 0.4:
            name, cost = random_.choice(names[-2 * capacity - 3 :]), capacity
            expected.append([OK, oracle.give_back(now, name)])
        else:
            name = f"{seed}.{capacity}.{n}"
            ends = oracle.ends(now)
            left = capacity - len(ends)
            cost = random_.choice((0, 1, 1, 1, 2, left, left + 1, capacity, capacity + 1))
            wait = 0
            if allowed := cost <= left:
                oracle.take(now, name, cost)
                names.append(name)
            else:
                wait = -1 if cost > capacity else (ends[cost - left - 1] - now) * tick_us
            after = oracle.ends(now)
            reset_us = (after[0] - now) * tick_us if after else 0
            expected.append([int(allowed), capacity - len(after), reset_us, wait, 1, 0, 0])
        function = b"rl1_release" if len(expected[-1]) == 2 else b"rl1_decide"
        head = _HEAD.pack(0, now * tick_us, cost, 60_000, 0, 1)
        identity = name.encode()
        calls.append(
            AsFunctions.call(function, [b"rl:epoch", b"rl:q:" + identity, *keys], (head, b"l", identity, bucket))
        )
    for n, (answer, right) in enumerate(zip(answers(line, calls), expected, strict=True)):
        assert answer == right, n


@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize("terms", [*edge_terms(TOKEN_BUCKET), *edge_terms(SLIDING), *edge_terms(FIXED)], ids=str)
def test_the_running_oracle_says_what_the_whole_history_says(terms: Terms, seed: int) -> None:
    running, whole, now = RunningOracle(terms), Oracle(terms), 0
    for clock, cost in operations(terms, 60, random.Random(seed)):
        now = max(now, clock)
        assert running.available(now) == whole.available(now)
        assert running.available(now + terms.period // 3) == whole.available(now + terms.period // 3)
        if whole.allows(now, cost):
            running.charge(now, cost)
            whole.charge(now, cost)
