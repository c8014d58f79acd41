"""Wires one gateway of the rate limiter: Envoy's RateLimitService and CHECK frames in front of the library."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import grpc
import structlog
from envoy.service.ratelimit.v3 import rls_pb2_grpc

from compose.services.ops import LOOPBACK, serve_ops
from compose.stack.errors import StackError
from ingress.issuer import KeyFolder, issue_token
from limiter.decisions import Recorder
from limiter.follower import SnapshotFollower
from limiter.frame_server import FrameServer
from limiter.kafka_blocks import KafkaBlocks, KafkaReports
from limiter.lease_accounts import LeaseAccounts
from limiter.limiter import Limiter
from limiter.metrics import GatewayMetrics
from limiter.rls import RateLimitService
from limiter.signing_keys import SigningKeys
from limiter.store import CounterStore, StoreUnavailable
from schemas import limits

if TYPE_CHECKING:
    from compose.settings import Settings

_log = structlog.get_logger(__name__)
_TOKEN_LIFE_S: Final = 3_600
_SETTLE_S: Final = 0.1


def run(settings: Settings, instance: int) -> None:
    """Decides until SIGTERM, then gives its leases back. StackError when the port is taken."""
    asyncio.run(_serve(settings, instance))


class _Token:
    """A token of the development issuer for reading snapshots, made again before it expires."""

    def __init__(self, keys: KeyFolder) -> None:
        self._keys = keys
        self._token, self._until = "", 0.0

    def __call__(self) -> str:
        if time.time() > self._until - _TOKEN_LIFE_S / 2:
            self._token = issue_token(self._keys, "limiter_gateway", ("limits:read",), _TOKEN_LIFE_S)
            self._until = time.time() + _TOKEN_LIFE_S
        return self._token


async def _serve(settings: Settings, instance: int) -> None:
    addresses = settings.addresses()
    home = settings.the_home().path
    name = f"limiter-gateway-{socket.gethostname()}-{os.getpid()}-{instance}"
    keys = SigningKeys(home / "keys")
    keys.ensure()
    issuer = KeyFolder(home / "keys")
    issuer.ensure()
    store = CounterStore(addresses.redis_url)
    blocks = KafkaBlocks(addresses.kafka, name)
    ring_file = settings.the_home().data("limiter") / f"decisions-{instance}.ring"
    reports = KafkaReports(addresses.kafka, f"{name}-leases")
    leases = LeaseAccounts(ring_file.with_name(f"leases-{instance}.book"), ring_file, reports)
    recorder = Recorder(name, blocks, ring_file, leases=leases)
    limiter = Limiter(store, recorder, name)
    remembered = settings.the_home().data("limiter") / f"revision-{instance}"
    follower = SnapshotFollower(addresses.base_url, _Token(issuer), keys.verifying_keys, limiter.use, remembered)
    GatewayMetrics(limiter, recorder, blocks, follower)
    server = grpc.aio.server()
    rls_pb2_grpc.add_RateLimitServiceServicer_to_server(RateLimitService(limiter), server)
    if not server.add_insecure_port(f"{LOOPBACK}:{addresses.rls_port}"):
        raise StackError(f"port {addresses.rls_port} is taken: set MILLRACE_RLS_PORT to another")
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    with suppress(StoreUnavailable):
        await store.load()
    await server.start()
    frame_server = FrameServer(limiter)
    try:
        await frame_server.serve_unix(settings.the_home().run / f"limiter-{instance}.sock")
    except OSError as error:  # the path of a home may be too long for a socket
        _log.warning("frames_not_served", reason=str(error))
    gc.freeze()
    gc.set_threshold(*limits.LIMIT_GC_THRESHOLDS)
    serve_ops(None, lambda: follower.is_ready or "no policy snapshot yet")
    tasks = [asyncio.create_task(part) for part in (follower.run(), recorder.run(), _settling(limiter))]
    for task in tasks:
        task.add_done_callback(lambda _: ended.set())  # one that fails ends the process; the supervisor starts another
    await ended.wait()
    await server.stop(limits.LIMIT_STORE_TIMEOUT_S)
    await frame_server.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    with suppress(StoreUnavailable):
        await limiter.close()
    recorder.flush()
    recorder.close()
    await asyncio.to_thread(blocks.close)
    reports.close()  # on this thread: what is said of reports changes the accounts
    leases.shut()
    await store.close()


async def _settling(limiter: Limiter) -> None:
    while True:
        await asyncio.sleep(_SETTLE_S)
        with suppress(StoreUnavailable):
            await limiter.maintain()
