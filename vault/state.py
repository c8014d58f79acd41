"""One vault process: its parts, wired in one place, and their start and end."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers

from ingress import limits
from ingress.identity.auth import Authenticator
from ingress.identity.caller import Caller
from ingress.identity.denials import Denials
from ingress.identity.known_keys import KnownKeys
from ingress.identity.signed_requests import SignedRequests
from ingress.trust import Trust
from schemas import errors
from vault import metrics
from vault.audit import OUR_WORKERS, VaultAudit
from vault.cards import Cards
from vault.forwarding import Destination, Forwarder
from vault.key_file import KeyFile, VaultKeysUnusable
from vault.keyring import Keyring
from vault.store import VaultStore

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Scope

    from schemas.client_network import Network

_MS: Final = 1_000
_POSTGRES_AWAY: Final = "Postgres is away"
_BEARER: Final = "Bearer "


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultConfig:
    """Plain values of one process; the wiring that reads settings is compose/services/vault.py."""

    postgres_dsn: str = field(repr=False)  # of the role millrace_vault
    key_file: KeyFile
    forward_secret: str = field(repr=False)  # what workers prove themselves with
    processors: Mapping[str, Destination]  # by name, the only places that a card is sent to
    trusted: tuple[Trust, ...]  # whose tokens are believed; the first is the issuer of callers
    trusted_proxies: tuple[Network, ...] = ()  # whose X-Forwarded-For is believed


class Vault:
    """Stateless but for keys and connections: any process can answer any call."""

    def __init__(self, config: VaultConfig) -> None:
        self.trusted_proxies = config.trusted_proxies
        self._store = VaultStore(config.postgres_dsn)
        self._denials = Denials(self._store)
        self.authenticator = Authenticator.of(config.trusted, self._denials)
        self._keyring = Keyring(config.key_file, self._store)
        self._secret_digest = hashlib.sha256(config.forward_secret.encode()).digest()
        self._refresher: asyncio.Task[None] | None = None
        self._ready: tuple[float, str | None] = (float("-inf"), None)
        self._signed_requests = SignedRequests(KnownKeys(self._store), self._store)
        self.audit = VaultAudit(self._store)
        self.cards = Cards(self._keyring, self._store)
        self.forwarder = Forwarder(self.cards, config.processors)

    async def start(self) -> None:
        """Reads the keys; a database that is away is waited for until this is cancelled.

        Raises VaultKeysUnusable when they are not the right ones.
        """
        await self._store.open()
        await self.authenticator.refresh()
        await self._keyring.wait()
        self._denials.start()
        self._refresher = asyncio.get_running_loop().create_task(self._keyring.stay_fresh())

    async def close(self) -> None:
        """Disconnects. Call it when no request is open."""
        self._denials.close()
        if self._refresher is not None:
            self._refresher.cancel()
        await self.forwarder.close()
        await self.audit.close()
        await self._store.close()

    async def caller(self, request: Request) -> Caller:
        """The verified merchant. Raises Unauthenticated, Suspended."""
        return await self.authenticator.caller_in(request.scope)

    async def signer(self, request: Request, caller: Caller, body: bytes) -> dict[str, str]:
        """The key that signed a call which changes something, as the audit log names it; empty when nobody had to.

        What is signed is not kept here: the digest of a card is as good as the card. Raises SignatureRequired,
        SignatureInvalid or SignatureExpired.
        """
        proof = await self._signed_requests.proof(request, caller.merchant, body)
        return {} if proof is None else {"signed_by": proof.key_id}

    async def holder(self, scope: Scope) -> str:
        """Who has its places: a merchant, or our workers. Raises Unauthenticated for everybody else."""
        is_worker = self._is_worker(Headers(scope=scope).get("authorization"))
        return OUR_WORKERS if is_worker else await self.authenticator.principal_in(scope)

    def require_worker(self, request: Request) -> None:
        """Raises Unauthenticated unless the caller knows the internal secret."""
        if not self._is_worker(request.headers.get("authorization")):
            metrics.FORWARDS.labels("denied").inc()
            raise errors.Unauthenticated("Only our own workers may do this.")

    def _is_worker(self, authorization: str | None) -> bool:
        """Takes as long whatever was sent."""
        said = authorization or ""
        digest = hashlib.sha256(said.removeprefix(_BEARER).encode(errors="replace")).digest()
        return hmac.compare_digest(digest, self._secret_digest) and said.startswith(_BEARER)

    async def why_not_ready(self) -> str | None:
        """None when calls can be served; asked often, so an answer holds for a moment."""
        at, reason = self._ready
        if time.monotonic() - at > limits.READY_CACHE_MS / _MS:
            reason = await self._probe()
            self._ready = (time.monotonic(), reason)
        return reason

    async def _probe(self) -> str | None:
        try:
            self.authenticator.require_fresh()
        except errors.Unavailable as error:
            return error.public
        if self._refresher is None:
            return _POSTGRES_AWAY  # ``start`` waits for it
        try:
            async with asyncio.timeout(limits.READY_PROBE_TIMEOUT_S):
                await self._keyring.refresh()
        except VaultKeysUnusable:
            return "The vault's keys are not the right ones; see its log."
        except (TimeoutError, errors.Unavailable):
            return _POSTGRES_AWAY
        return None
