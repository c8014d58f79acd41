"""CHECK frames over real sockets to a limiter on a real Valkey: batches, retries, lost answers, hostile bytes."""

from __future__ import annotations

import asyncio
import socket
import stat
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from compose.services.limiter_gateway import serve_frames
from compose.stack.errors import StackError
from compose.stack.ports import PortLeases
from limiter.edge.frame_server import FrameServer
from limiter.frames import frames
from limiter.frames.frame_client import FrameClient
from limiter.frames.frame_client_async import AsyncFrameClient
from limiter.frames.frame_requests import Check, GatewayUnavailable
from schemas.limiter import limits
from tests.worlds.limiter.counter_server import CounterServer, emptied, limiter, policy, server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from schemas.limiter.limit_policy import LimitPolicy

pytestmark = [pytest.mark.servers, pytest.mark.usefixtures("emptied")]
__all__ = ["emptied", "server"]  # the fixtures of this module


PATIENT_S = 60  # here neither store nor gateway is away: a busy machine must not look like one that is


@asynccontextmanager
async def gateway(url: str, folder: Path, *found: LimitPolicy) -> AsyncIterator[tuple[FrameServer, str]]:
    async with limiter(url, folder, *found) as made:
        served = FrameServer(made)
        await served.serve_unix(folder / "g.sock")
        try:
            yield served, str(folder / "g.sock")
        finally:
            await served.close()


async def closed(served: FrameServer) -> None:
    while served.connections:  # noqa: ASYNC110 - the gateway tells nobody
        await asyncio.sleep(0)


async def in_thread(work: Callable[[], Any]) -> Any:
    return await asyncio.to_thread(work)


def test_a_batch_is_decided_in_order_over_either_socket(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        exact = policy(capacity=100, consistency="exact", failure_mode="closed")
        async with gateway(server.url, tmp_path, exact) as (served, path):
            port = await served.serve_tcp("127.0.0.1", 0)
            checks = [Check("t", f"u{n % 3}", "/r", n % 5) for n in range(30)]

            def blocking() -> list[frames.Answer]:
                with FrameClient(path, timeout_s=PATIENT_S) as client:
                    return client.check_many(checks)

            answers = await in_thread(blocking)
            assert all(a.allowed and a.policy_version == 1 for a in answers)
            async with AsyncFrameClient(("127.0.0.1", port), timeout_s=PATIENT_S) as client:
                left = [(await client.check("t", f"u{n}", "/r", 0)).remaining for n in range(3)]
            assert left == [100 - sum(c.cost for c in checks if c.user == f"u{n}") for n in range(3)]
            assert stat.S_IMODE((tmp_path / "g.sock").stat().st_mode) == 0o600
        assert not (tmp_path / "g.sock").exists()

    asyncio.run(test())


def test_tcp_is_this_machines_alone_and_a_taken_port_is_said(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with limiter(server.url, tmp_path, policy(capacity=3)) as made:
            first, second, third = FrameServer(made), FrameServer(made), FrameServer(made)
            ports = PortLeases()
            port = ports.take_any()
            try:
                await serve_frames(first, tmp_path / "1.sock", port)
                assert {s.getsockname() for found in first._servers[1:] for s in found.sockets} == {("127.0.0.1", port)}
                async with AsyncFrameClient(("127.0.0.1", port), timeout_s=PATIENT_S) as client:
                    assert (await client.check("t", "u", "/r")).allowed
                with pytest.raises(StackError, match="MILLRACE_LIMITER_FRAMES_PORT"):
                    await serve_frames(second, tmp_path / "2.sock", port)
                await serve_frames(third, tmp_path / ("x" * 200), None)  # no path of a socket: said in the log
                assert third._servers == []
            finally:
                for found in (first, second, third):
                    await found.close()
                ports.close()

    asyncio.run(test())


@pytest.mark.parametrize("consistency", ["exact", "leased"])
def test_identities_that_come_twice_consume_once(server: CounterServer, tmp_path: Path, consistency: str) -> None:
    """The same identities over two connections, at the same time and again."""

    async def test() -> None:
        async with gateway(server.url, tmp_path, policy(capacity=60, consistency=consistency)) as (_, path):
            checks = [Check("t", "u", "/r", 1, bytes([n + 1]) * 16) for n in range(50)]
            async with (
                AsyncFrameClient(path, timeout_s=PATIENT_S) as one,
                AsyncFrameClient(path, timeout_s=PATIENT_S) as two,
            ):
                both = await asyncio.gather(one.check_many(checks), two.check_many(checks))
                again = await two.check_many(checks)
                assert all(a.allowed for found in (*both, again) for a in found)
                assert sum(not a.flags & frames.DUPLICATE for found in both for a in found) == 50
                assert all(a.flags & frames.DUPLICATE for a in again)
                more = await one.check_many([Check("t", "u", "/r")] * 30)
                assert sum(a.allowed for a in more) == 10
                other_cost = await one.check("t", "u", "/r", 2, bytes([1]) * 16)
                assert (other_cost.allowed, other_cost.flags) == (False, frames.REUSED)

    asyncio.run(test())


def test_a_lost_answer_is_asked_for_again_and_consumes_once(server: CounterServer, tmp_path: Path) -> None:
    """A proxy hands the question on, and cuts the line before the answer."""

    async def test() -> None:
        async with gateway(server.url, tmp_path, policy(capacity=10, consistency="exact")) as (_, path):
            cut = 0
            lines: set[asyncio.Task[None] | None] = set()

            async def proxied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                nonlocal cut
                lines.add(asyncio.current_task())
                behind, before = await asyncio.open_unix_connection(path)
                while data := await reader.read(65_536):
                    before.write(data)
                    answer = await behind.read(65_536)
                    if cut < 2:
                        cut += 1
                        break
                    writer.write(answer)
                before.close()
                writer.close()
                await asyncio.gather(before.wait_closed(), writer.wait_closed(), return_exceptions=True)

            proxy = await asyncio.start_unix_server(proxied, tmp_path / "p.sock")
            with FrameClient(str(tmp_path / "p.sock"), timeout_s=PATIENT_S) as client:
                answer = await in_thread(lambda: client.check("t", "u", "/r", 4))
            assert (answer.allowed, answer.remaining, cut) == (True, 6, 2)
            assert answer.flags & frames.DUPLICATE
            cut = 1
            async with AsyncFrameClient(str(tmp_path / "p.sock"), timeout_s=PATIENT_S) as waiting:
                answer = await waiting.check("t", "u", "/r", 4)
            assert (answer.allowed, answer.remaining, cut) == (True, 2, 2)
            proxy.close()
            await asyncio.gather(*(line for line in lines if line))

    asyncio.run(test())


def test_what_can_be_no_key_or_cost_is_refused_alone(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            gateway(server.url, tmp_path, policy(capacity=10, consistency="exact")) as (_, path),
            AsyncFrameClient(path, timeout_s=PATIENT_S) as client,
        ):
            wrong = [
                Check("", "u", "/r"),
                Check("t", "a\nb", "/r"),
                Check("t", "u", "x" * 10_000),
                Check("t", "u", "/r", 2**31),
            ]
            answers = await client.check_many([Check("t", "u", "/r"), *wrong, Check("t", "u", "/./r")])
            assert [a.flags & frames.INVALID for a in answers] == [0, *[frames.INVALID] * 4, 0]
            assert answers[0].allowed
            assert (await client.check("t", "u", "/%72", 0)).remaining == 8

    asyncio.run(test())


NAMED = frames.keys_frame(0, [("t", "u", "/r")])
GOOD = frames.check_frame(7, [(0, 1, bytes(16))])
HEAD = frames.HEADER


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        bytes(range(200)),
        frames.check_frame(1, [(0, 1, bytes(16))]),
        NAMED + frames.check_frame(1, [(0, 1, bytes(16)), (1, 1, bytes(16))]),
        NAMED + frames.check_frame(1, [(0, 1, bytes(16)), (2**32 - 1, 1, bytes(16))]),
        NAMED + NAMED,
        NAMED + frames.answer_frame(1, bytes(frames.ROW.size)),
        NAMED + HEAD.pack(b"rf", 1, frames.CHECK, 2**32 - 1, 24, 1),
        NAMED + HEAD.pack(b"rf", 1, frames.CHECK, 2, 24, 1) + bytes(24),
        NAMED + HEAD.pack(b"rf", 1, frames.KEYS, 1, 2, 1) + b"\xff\xff",
        HEAD.pack(b"rf", 1, frames.KEYS, 1, 9, 0) + b"\x01\x00\x01\x00\x01\x00\xff\xff\xff",
    ],
    ids=range(11),
)
def test_hostile_bytes_end_the_connection_and_consume_nothing(
    server: CounterServer, tmp_path: Path, sent: bytes
) -> None:
    async def test() -> None:
        async with gateway(server.url, tmp_path, policy(capacity=10, consistency="exact")) as (served, path):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(sent)
            answered = await asyncio.wait_for(reader.read(), PATIENT_S)
            (frame,) = frames.frames(bytearray(answered))
            assert frame.kind == frames.FAILED
            writer.close()
            async with AsyncFrameClient(path, timeout_s=PATIENT_S) as client:
                assert (await client.check("t", "u", "/r", 0)).remaining == 10
            assert len(served.connections) <= 1

    asyncio.run(test())


def test_every_truncation_consumes_nothing(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with gateway(server.url, tmp_path, policy(capacity=10, consistency="exact")) as (served, path):
            for end in range(len(NAMED + GOOD)):
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.connect(path)
                    connection.sendall((NAMED + GOOD)[:end])
            async with AsyncFrameClient(path, timeout_s=PATIENT_S) as client:
                assert (await client.check("t", "u", "/r", 0)).remaining == 10
            async with asyncio.timeout(PATIENT_S):
                await closed(served)

    asyncio.run(test())


def test_a_client_that_does_not_read_is_not_read_from(server: CounterServer, tmp_path: Path) -> None:
    """Its frames wait in its own socket: the gateway holds a bounded number, and goes on for others."""

    async def test() -> None:
        async with gateway(server.url, tmp_path, policy(capacity=2**30, consistency="exact")) as (served, path):
            with socket.socket(socket.AF_UNIX) as deaf:
                deaf.setblocking(False)
                deaf.connect(path)
                deaf.send(NAMED)
                frame = frames.check_frame(1, [(0, 1, bytes(16))] * 32)
                sent = 0
                async with AsyncFrameClient(path, timeout_s=PATIENT_S) as client:
                    for _ in range(60):
                        with suppress(BlockingIOError):
                            sent += deaf.send(frame * 20)
                        assert (await client.check("t", "other", "/r")).allowed
                        assert all(len(c.under_way) <= limits.LIMIT_FRAMES_UNDER_WAY_MAX for c in served.connections)
                assert sent

    asyncio.run(test())


def test_more_than_a_gateway_asks_at_once_waits_for_its_turn(server: CounterServer, tmp_path: Path) -> None:
    """Frames over two connections, twice as many entries as calls may be under way: the store is well, and decides."""
    exact = policy(capacity=1_000_000, consistency="exact", failure_mode="closed")
    frames_each = limits.LIMIT_STORE_CALLS_MAX // limits.LIMIT_FRAME_ENTRIES_MAX
    asked = [Check("t", f"u{n % 64}", "/r") for n in range(frames_each * limits.LIMIT_FRAME_ENTRIES_MAX)]

    async def test() -> None:
        async with (
            limiter(server.url, tmp_path, exact) as made,
            AsyncFrameClient(str(tmp_path / "g.sock"), timeout_s=PATIENT_S) as one,
            AsyncFrameClient(str(tmp_path / "g.sock"), timeout_s=PATIENT_S) as two,
        ):
            served = FrameServer(made)
            await served.serve_unix(tmp_path / "g.sock")
            both = await asyncio.gather(one.check_many(asked), two.check_many(asked))
            assert {answer.flags for found in both for answer in found} == {frames.ALLOWED}
            assert (await one.check("t", "u0", "/r", 0)).remaining == 1_000_000 - 2 * len(asked) // 64
            await served.close()

    asyncio.run(test())


def test_without_a_gateway_the_caller_is_told(tmp_path: Path) -> None:
    with FrameClient(str(tmp_path / "none.sock")) as client, pytest.raises(GatewayUnavailable):
        client.check("t", "u", "/r")

    async def test() -> None:
        async with AsyncFrameClient(str(tmp_path / "none.sock")) as client:
            with pytest.raises(GatewayUnavailable):
                await client.check("t", "u", "/r")

    asyncio.run(test())
