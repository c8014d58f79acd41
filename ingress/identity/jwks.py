"""The issuer's public keys: from a file or an address, cached, and kept for a bounded time when it is out.

Mode when the issuer is out: stale for JWKS_STALE_MAX_S, then fail_closed (503), never fail_open.
"""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import structlog
from joserfc import jwk
from joserfc.errors import JoseError

from ingress import limits
from ingress.http import metrics
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import Callable

Key = jwk.OKPKey | jwk.ECKey | jwk.RSAKey
_SIGNING: Final[dict[str, type[jwk.OKPKey | jwk.ECKey | jwk.RSAKey]]] = {
    "OKP": jwk.OKPKey,
    "EC": jwk.ECKey,
    "RSA": jwk.RSAKey,
}  # never "oct": a public key is no secret


def read_keys(text: str | bytes, now: float | None = None) -> dict[str, Key]:
    """Key id to public signing key. What cannot verify signatures, or is retired, is left out.

    A key retires at its ``exp``, in seconds since the epoch. Raises ValueError on no JWKS.
    """
    now = time.time() if now is None else now
    document = json.loads(text)
    rows = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(rows, list):
        raise ValueError("not a JSON Web Key Set")  # noqa: TRY004 - callers handle one kind
    found: dict[str, Key] = {}
    for row in rows[: limits.JWKS_KEYS_MAX]:
        if isinstance(row, dict) and row.get("use", "sig") == "sig" and isinstance(row.get("kid"), str):
            if _is_retired(row.get("exp"), now):
                continue
            key = _public_key(row)
            if key is not None:
                found[row["kid"]] = key
    return found


def _is_retired(expires_at: object, now: float) -> bool:
    return isinstance(expires_at, int | float) and not isinstance(expires_at, bool) and expires_at <= now


def _public_key(row: dict[str, Any]) -> Key | None:
    kind = _SIGNING.get(str(row.get("kty")))
    if kind is None:
        return None
    public = {name: value for name, value in row.items() if name not in ("d", "exp")}
    if public.get("alg") == "EdDSA":
        public["alg"] = "Ed25519"  # its name since RFC 9864
    try:
        return kind.import_key(public)
    except (JoseError, ValueError, TypeError, KeyError):
        return None


class KeySource:
    """Holds the newest keys that could be read. Used by one event loop."""

    def __init__(self, location: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._location = location
        self._clock = clock
        self._read_at = float("-inf")
        self._tried_at = float("-inf")
        self._lock = asyncio.Lock()
        self._keys: dict[str, Key] = {}
        self.generation = 0  # grows whenever the keys may have changed: verdicts of older keys do not count

    async def key(self, kid: str) -> Key | None:
        """The key of that id, after one fresh look when it is unknown. Raises Unavailable when all keys are too old.

        An issuer that does not answer makes one caller wait in a cooldown; all others go by the keys that are here.
        """
        if self.due():
            await self.refresh()
        if kid not in self._keys and self._age(self._tried_at) > limits.JWKS_REFRESH_COOLDOWN_S:
            await self.refresh()
        self.require_fresh()
        return self._keys.get(kid)

    def require_fresh(self) -> None:
        """Raises Unavailable when the keys were not confirmed for longer than the bound."""
        if self._age(self._read_at) > limits.JWKS_STALE_MAX_S:
            raise errors.Unavailable("The token issuer's keys cannot be read; try again later.")

    def due(self) -> bool:
        """True when the keys are older than the refresh interval and no try was made just now."""
        return (
            self._age(self._read_at) > limits.JWKS_REFRESH_S
            and self._age(self._tried_at) > limits.JWKS_REFRESH_COOLDOWN_S
        )

    async def refresh(self) -> None:
        """Reads the keys again; keeps the old ones when that fails. Callers at the same time share one read."""
        asked_at = self._clock()
        async with self._lock:
            if self._tried_at >= asked_at:
                return
            self._tried_at = self._clock()
            try:
                keys = read_keys(await self._load())
            except (OSError, ValueError, httpx.HTTPError) as error:
                metrics.KEYS_UNREADABLE.inc()
                structlog.get_logger().warning("jwks_unreadable", location=self._location, cause=repr(error))
                return
            self._read_at = self._clock()
            if {k: v.as_dict() for k, v in keys.items()} != {k: v.as_dict() for k, v in self._keys.items()}:
                self._keys = keys
                self.generation += 1

    async def _load(self) -> bytes:
        if not self._location.startswith(("http://", "https://")):
            return await asyncio.to_thread(Path(self._location).read_bytes)
        async with httpx.AsyncClient(timeout=limits.JWKS_TIMEOUT_S, follow_redirects=False) as client:
            answer = (await client.get(self._location)).raise_for_status()
        if len(answer.content) > limits.JWKS_BYTES_MAX:
            raise ValueError("the JWKS is larger than allowed")
        return answer.content

    def _age(self, at: float) -> float:
        return self._clock() - at
