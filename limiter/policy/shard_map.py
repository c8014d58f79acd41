"""Where counters are: shards with their epochs, pinned tenants, and how the map changes. Pure.

All counters of one decision are charged in one call, so they must be on one shard: the tenant is what is hashed.
A tenant that moves takes its counters along (``decide/bucket_migration.py``): ``before`` says where they may be. The
epoch of a shard is its fence: a store answers only callers that say the same. Source: reference limiter 2.1, 2.7.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import msgspec
import xxhash
from msgspec import Struct

from schemas.errors import PlatformError
from schemas.limiter import limits
from schemas.this_machine import is_here

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_SCHEMES: Final = ("redis", "rediss")
_CACHED: Final = 65_536
_SAMPLE: Final = 10_000


class ShardsRefused(PlatformError):
    """A change of the shard map that cannot be made; the message says why. Nothing was changed."""

    code = "shards_refused"


class Shard(Struct, frozen=True, kw_only=True):
    """One primary with its replicas."""

    name: str
    address: str | None  # redis:// or rediss:// without secrets; None: the store that a process is configured with
    epoch: int = 0  # what the store must say of itself
    reserved: int = 0  # the highest epoch that a change ever took, finished or not
    promoted: int = 0  # the epoch at which this primary took over from another one
    promoted_at: int = 0  # seconds since 1970

    @property
    def state(self) -> str:
        """``changing`` when a change took an epoch and did not end: run it again."""
        return "live" if self.reserved == self.epoch else "changing"


class Layout(Struct, frozen=True):
    """What decides where a tenant's counters are."""

    shards: tuple[str, ...]
    pins: dict[str, str]

    def home_of(self, tenant: str) -> str:
        """The shard of a tenant: its pin, or the one with the highest hash of both (rendezvous)."""
        return self.pins.get(tenant) or max(self.shards, key=lambda name: _weight(name, tenant))


class ShardMap(Struct, frozen=True, kw_only=True):
    """One version of the map."""

    version: int
    shards: tuple[Shard, ...]
    pins: dict[str, str] = {}
    before: tuple[Layout, ...] = ()  # newest first

    @property
    def layout(self) -> Layout:
        """Where tenants are."""
        return Layout(tuple(shard.name for shard in self.shards), self.pins)

    def shard(self, name: str) -> Shard:
        """The shard of that name. Raises ShardsRefused."""
        for shard in self.shards:
            if shard.name == name:
                return shard
        names = ", ".join(shard.name for shard in self.shards)
        raise ShardsRefused(f"There is no shard {name!r}; there are: {names}.")

    def former_of(self, tenant: str) -> tuple[str, ...]:
        """Other shards that a tenant's counters were on, newest first."""
        home = self.layout.home_of(tenant)
        return tuple(dict.fromkeys(was for layout in self.before if (was := layout.home_of(tenant)) != home))

    def shares(self) -> dict[str, float]:
        """The part of all tenants that each shard gets by hash, of a fixed sample."""
        free = Layout(self.layout.shards, {})
        homes = [free.home_of(f"tenant-{n}") for n in range(_SAMPLE)]
        return {name: homes.count(name) / _SAMPLE for name in free.shards}

    # --- changes: each gives the next version

    def with_reserved(self, epochs: dict[str, int]) -> ShardMap:
        """Epochs are taken: no other change will use them, whatever becomes of this one."""
        return self._next(lambda s: msgspec.structs.replace(s, reserved=epochs.get(s.name, s.reserved)))

    def with_fences(self, losing: tuple[str, ...]) -> ShardMap:
        """The epochs that were taken for these shards are theirs."""
        return self._next(lambda s: _fenced(s, losing))

    def with_shard(self, name: str, address: str, losing: tuple[str, ...]) -> ShardMap:
        """A further shard, at epoch 1. It takes its share of the tenants from all others, which are fenced."""
        found = self._next(lambda s: _fenced(s, losing), moves=True)
        added = Shard(name=name, address=address, epoch=1, reserved=1)
        return msgspec.structs.replace(found, shards=(*found.shards, added))

    def with_pin(self, tenant: str, name: str | None, losing: tuple[str, ...]) -> ShardMap:
        """A tenant on a shard of its choice, or (None) where its hash puts it."""
        pins = {of: at for of, at in self.pins.items() if of != tenant} | ({} if name is None else {tenant: name})
        found = self._next(lambda s: _fenced(s, losing), moves=True)
        return msgspec.structs.replace(found, pins=pins)

    def with_primary(self, name: str, address: str | None, now_s: int) -> ShardMap:
        """Another primary for a shard: gateways learn for a lease's life what it does not know."""

        def changed(shard: Shard) -> Shard:
            if shard.name != name:
                return shard
            epoch = shard.reserved
            return msgspec.structs.replace(shard, epoch=epoch, address=address, promoted=epoch, promoted_at=now_s)

        return self._next(changed)

    def check_new(self, name: str, address: str) -> None:
        """Raises ShardsRefused for a shard that cannot be added."""
        if not _NAME.fullmatch(name):
            raise ShardsRefused("A shard's name has 1 to 32 of a-z, 0-9, - and _, and begins with a letter or digit.")
        if any(shard.name == name for shard in self.shards):
            raise ShardsRefused(f"There is a shard {name!r} already: 'promote {name} --to URL' gives it a server.")
        if any(shard.address == address for shard in self.shards):
            raise ShardsRefused(f"The server {address} is a shard already.")
        if len(self.shards) >= limits.LIMIT_SHARDS_MAX:
            raise ShardsRefused(f"There are {limits.LIMIT_SHARDS_MAX} shards, the most that one map may have.")

    def losing_by_pin(self, tenant: str, name: str | None) -> tuple[str, ...]:
        """The shard that a pin takes a tenant from; none when it stays. Raises ShardsRefused."""
        if name is None and tenant not in self.pins:
            raise ShardsRefused(f"The tenant {tenant!r} is not pinned.")
        if name is not None:
            self.shard(name)
            if tenant not in self.pins and len(self.pins) >= limits.LIMIT_SHARD_PINS_MAX:
                raise ShardsRefused(f"{limits.LIMIT_SHARD_PINS_MAX} tenants are pinned, as many as may be.")
        home = self.layout.home_of(tenant)
        free = Layout(self.layout.shards, {})
        return () if (name or free.home_of(tenant)) == home else (home,)

    def _next(self, changed: Callable[[Shard], Shard], *, moves: bool = False) -> ShardMap:
        before = (self.layout, *self.before)[: limits.LIMIT_SHARD_LAYOUTS_MAX] if moves else self.before
        return ShardMap(
            version=self.version + 1, shards=tuple(changed(s) for s in self.shards), pins=self.pins, before=before
        )


def _fenced(shard: Shard, losing: tuple[str, ...]) -> Shard:
    return msgspec.structs.replace(shard, epoch=shard.reserved) if shard.name in losing else shard


@lru_cache(_CACHED)
def _weight(name: str, tenant: str) -> int:
    return xxhash.xxh3_64_intdigest(f"{name}\x1f{tenant}".encode())


def is_read_on_the_way(address: str) -> bool:
    """Whether what is told there, the password first, crosses a network in the clear."""
    parts = urlsplit(address)
    return parts.scheme != "rediss" and not is_here(parts.hostname or "")


def plain_address(text: str, *, encrypted: bool = False) -> str:
    """An address as the map keeps it. Raises ShardsRefused for what is none, or holds a secret.

    ``encrypted``: and for one that is read on the way.
    """
    parts = urlsplit(text)
    try:
        port = parts.port
    except ValueError as error:
        raise ShardsRefused(f"{text!r} is no address: its port is no number.") from error
    if "@" in parts.netloc:
        raise ShardsRefused(
            "The address holds a name or password: leave them out. Gateways use those of their own MILLRACE_REDIS_URL."
        )
    if parts.scheme not in _SCHEMES or not parts.hostname or parts.query or parts.fragment:
        raise ShardsRefused(f"{text!r} is no address of a store: give redis://HOST:PORT/DB, or rediss:// for TLS.")
    if not re.fullmatch(r"/?|/\d+", parts.path):
        raise ShardsRefused(f"{text!r} is no address of a store: what follows the port is the number of a database.")
    database = parts.path.strip("/") or "0"
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    if encrypted and is_read_on_the_way(text):
        raise ShardsRefused(f"{text!r} leads over a network in the clear: production needs a rediss:// address.")
    return f"{parts.scheme}://{host}:{port or 6379}/{database}"


def url_of(address: str | None, own_url: str, *, encrypted: bool = False) -> str:
    """The address to connect to: with the name and password of the store that this process is configured with.

    ``encrypted``: without them where they are read on the way. Such a shard lets us in no more, and is away.
    """
    if address is None:
        return own_url
    if encrypted and is_read_on_the_way(address):
        return address
    secret, at, _ = urlsplit(own_url).netloc.rpartition("@")
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=f"{secret}{at}{parts.netloc}"))


ONE_SHARD: Final = ShardMap(version=0, shards=(Shard(name="main", address=None),))
_encode: Final = msgspec.json.Encoder(order="deterministic").encode
_decode: Final = msgspec.json.Decoder(ShardMap).decode


def encoded(shard_map: ShardMap) -> str:
    """The text of a version in the database."""
    return _encode(shard_map).decode()


def decoded(text: str) -> ShardMap:
    """The map of a text. Raises msgspec.DecodeError."""
    return _decode(text)
