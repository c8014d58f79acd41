"""Wires one gateway of the rate limiter: Envoy's two services and CHECK frames in front of the library."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog

from compose.services.limiting import kept_going
from compose.services.ops import LOOPBACK, serve_ops, turning
from compose.services.owner_quotas import OwnerQuotas
from compose.settings.limiter_gateways import gateway_address, gateways_everywhere
from compose.stack.errors import StackError
from ingress.identity.issuer import SERVICES_ISSUER, issue_token
from limiter.decide.limiter import Limiter
from limiter.decide.quota_lender import QuotaLender
from limiter.edge.envoy_server import envoys_server
from limiter.edge.frame_server import FrameServer
from limiter.edge.metrics import GatewayMetrics, ShardMetrics
from limiter.policy.follower import SnapshotFollower
from limiter.policy.published import PublishedOverHttp
from limiter.policy.signing_keys import SigningKeys
from limiter.store.sharded_store import ShardedStore
from limiter.store.store import StoreUnavailable
from limiter.stream.charges import Charges
from limiter.stream.decisions import Recorder
from limiter.stream.kafka_blocks import KafkaBlocks, KafkaReports
from limiter.stream.lease_accounts import LeaseAccounts
from schemas.limiter import limits, topics
from schemas.senders import GATEWAY

if TYPE_CHECKING:
    from pathlib import Path

    import grpc

    from compose.settings.settings import Settings
    from ingress.identity.issuer import KeyFolder

_TOKEN_LIFE_S: Final = 3_600
_log = structlog.get_logger(__name__)


class SnapshotToken:
    """A token of our services' own issuer for reading snapshots, made again before it expires."""

    def __init__(self, keys: KeyFolder) -> None:
        self._keys = keys
        self._token, self._until = "", 0.0

    def __call__(self) -> str:
        """The token of the moment. Raises Unavailable without the issuer's key."""
        if time.time() > self._until - _TOKEN_LIFE_S / 2:
            scopes = ("limits:read",)
            self._token = issue_token(self._keys, "limiter_gateway", scopes, _TOKEN_LIFE_S, issuer=SERVICES_ISSUER)
            self._until = time.time() + _TOKEN_LIFE_S
        return self._token

    def forget(self) -> None:
        """The next one is made anew: what this one says of times is wrong, if the clock was."""
        self._until = 0.0


def run(settings: Settings, instance: int) -> None:
    """Decides until SIGTERM, then gives its leases back. StackError when the port is taken."""
    asyncio.run(_serve(settings, instance))


async def _serve(settings: Settings, instance: int) -> None:
    addresses = settings.addresses()
    home = settings.the_home().path
    name = f"limiter-gateway-{socket.gethostname()}-{os.getpid()}-{instance}"
    keys = SigningKeys(home / "keys")
    keys.ensure()
    issuer = settings.service_issuer(home / "keys")
    store = ShardedStore(
        addresses.redis_url_of("limiter_gateway"),
        timeout_s=settings.limiter_store_timeout_ms / 1_000,
        encrypted=settings.is_production,
    )
    kafka = settings.kafka_of("limiter_gateway", GATEWAY)
    blocks = KafkaBlocks(kafka, name)
    ring_file = settings.the_home().data("limiter") / f"decisions-{instance}.ring"
    reports = KafkaReports(kafka, f"{name}-leases")
    leases = LeaseAccounts(ring_file.with_name(f"leases-{instance}.book"), ring_file, reports)
    charged = None
    if settings.limiter_refunds:
        charged = KafkaReports(kafka, f"{name}-identities", topics.IDENTITIES)
    recorder = Recorder(name, blocks, ring_file, leases=leases, charges=None if charged is None else Charges(charged))
    quotas = OwnerQuotas(kafka, "limiter-gateway", instance)
    limiter = Limiter(store, recorder, name, quotas, gateways_everywhere(settings))
    remembered = settings.the_home().data("limiter") / f"revision-{instance}"
    token = SnapshotToken(issuer)
    published = PublishedOverHttp(addresses.base_url, token, token.forget)
    follower = SnapshotFollower(
        published,
        keys.verifying_keys,
        limiter.use,
        remembered,
        store.use,
        limiter.lapse,
        settings.limiter_max_stale_s,
    )
    store.when_stale(follower.hurry)
    ShardMetrics(store)
    GatewayMetrics(limiter, recorder, blocks, follower)
    lender = QuotaLender(limiter, store, recorder, name)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    with suppress(StoreUnavailable):
        await store.load()
    listening = asyncio.Event()
    alive = turning(asyncio.get_running_loop())
    serve_ops(None, lambda: _why_not_ready(store, follower, listening) or True, alive=alive)
    # a part that fails ends the process; the supervisor starts another
    async with kept_going(limiter, store, recorder, follower, lambda _: ended.set()):
        # Without policies nothing would be limited: until then others are asked, and callers' failure modes decide.
        # An address that is shared is not listened at before either: the kernel would give us connections.
        await _first_of(follower.has_one, ended)
        if not ended.is_set():
            await _listen(settings, instance, limiter, lender, listening, ended)
    await published.close()
    await quotas.close()
    await asyncio.to_thread(blocks.close)
    if charged is not None:
        charged.close()
    reports.close()  # on this thread: what is said of reports changes the accounts
    leases.shut()
    await store.close()


async def _listen(
    settings: Settings,
    instance: int,
    limiter: Limiter,
    lender: QuotaLender,
    listening: asyncio.Event,
    ended: asyncio.Event,
) -> None:
    """Answers until the end. StackError when a port is taken."""
    server, frame_server = _envoys_server(limiter, lender, settings.addresses().rls_port), FrameServer(limiter)
    await server.start()
    await serve_frames(frame_server, *gateway_address(settings, instance)[1:])
    gc.freeze()
    gc.set_threshold(*limits.LIMIT_GC_THRESHOLDS)
    listening.set()
    await ended.wait()
    await server.stop(limits.LIMIT_STORE_TIMEOUT_S)
    await frame_server.close()


def _why_not_ready(store: ShardedStore, follower: SnapshotFollower, listening: asyncio.Event) -> str | None:
    if lacks := store.unfit or store.clock_off:
        return lacks
    if not follower.is_ready:
        return "no policy snapshot, or none that is valid"
    return None if listening.is_set() else "does not listen yet"


async def _first_of(*events: asyncio.Event) -> None:
    waiting = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()


async def serve_frames(frame_server: FrameServer, path: Path, port: int | None) -> None:
    """Over a Unix socket, and over TCP of this machine where a port is set. StackError when that is taken."""
    try:
        await frame_server.serve_unix(path)
    except OSError as error:  # the path of a home may be too long for a socket
        _log.warning("frames_not_served", reason=str(error))
    if port is None:
        return
    try:
        await frame_server.serve_tcp(LOOPBACK, port)
    except OSError as error:
        raise StackError(f"port {port} is taken: set MILLRACE_LIMITER_FRAMES_PORT to another") from error


def _envoys_server(limiter: Limiter, lender: QuotaLender, port: int) -> grpc.aio.Server:
    """Both of Envoy's services, not started. StackError when the port is taken."""
    server = envoys_server(limiter, lender)
    if not server.add_insecure_port(f"{LOOPBACK}:{port}"):
        raise StackError(f"port {port} is taken: set MILLRACE_RLS_PORT to another")
    return server
