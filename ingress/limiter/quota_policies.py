"""Quota policies as their publishers see them, the signed snapshot that gateways fetch, and what a key has used."""

from __future__ import annotations

import asyncio
import math
import re
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from ingress.commands.arrivals import woken
from ingress.http.pages import NewestFirst
from limiter.policy.keys import limit_key, parts_of, signed_hash
from limiter.policy.policies import PolicySet
from limiter.policy.snapshot import Envelope, Snapshot, SnapshotRefused
from limiter.spending.buckets import Bucket
from limiter.store import durable_counters
from limiter.store.store import StoreUnavailable
from schemas import errors, rendering
from schemas.limiter import limits
from schemas.limiter.limit_policy import NETWORK, LimitPolicy, rendered

if TYPE_CHECKING:
    from ingress.http.cursors import Cursors
    from ingress.http.pages import Place
    from ingress.http.store import Store
    from limiter.policy.level import Level
    from limiter.store.sharded_store import ShardedStore

LIST: Final = "policies"
_policy: Final = msgspec.json.Decoder(LimitPolicy)
_IN_SHADOW: Final = "limit_usage_shadow_by_key"
_DIGEST: Final = re.compile("[0-9a-f]{64}")
_US: Final = 1_000_000
_FIELDS: Final = ("policy_id", "publisher", "body", "version", "active_version", "created_at", "updated_at")
_log: Final = structlog.get_logger(__name__)


class QuotaPolicies:
    """Reads. Publication is a command like any other."""

    def __init__(self, store: Store, cursors: Cursors, counters: ShardedStore | None) -> None:
        self._store = store
        self._counters = counters
        self._pages = NewestFirst(store, cursors)
        self._digest = ""
        self._set = PolicySet([], 0)
        self._reading = asyncio.Lock()
        self._seen, self._seen_at = "", -math.inf  # the newest snapshot, as somebody was told
        self._news = asyncio.Event()  # of the next one
        self._is_draining = False

    async def get(self, publisher: str, policy_id: str) -> dict[str, Any]:
        """The policy in force with its versions, newest first. Raises NotFound."""
        rows = await self._store.rows("limit_policy_by_id", {"id": policy_id})
        if not rows or (policy := _read(rows[0]))["publisher"] != publisher:
            raise errors.NotFound
        parameters = {"id": policy_id, "limit": limits.LIMIT_VERSIONS_SHOWN_MAX}
        versions = await self._store.rows("limit_policy_versions", parameters)
        shown = [
            {**rendered(_policy.decode(body)), "version": version, "published_at": rendering.timestamp(at)}
            for version, body, at in versions
        ]
        return {**_render(policy), "versions": shown}

    async def page(self, publisher: str, limit: int, cursor: str | None) -> dict[str, Any]:
        """One page of the publisher's policies, newest first."""
        query = "limit_policies_newest"
        return await self._pages.page(query, LIST, publisher, {}, limit, cursor, _read, _place, _render)

    async def newer(self, known: str) -> tuple[str, bytes] | None:
        """The digest and the document of the newest signed snapshot; None while ``known`` is its digest.

        Raises NotFound before the first.
        """
        asked_at = time.monotonic()
        rows = await self._store.rows("limit_snapshot_newest", {"known": known})
        if not rows:
            raise errors.NotFound
        digest, document = rows[0]
        self._seen_at = asked_at
        if digest != self._seen:
            self._seen = digest
            self._news.set()
            self._news = asyncio.Event()
        return None if document is None else (digest, bytes(document))

    async def newer_within(self, known: str, wait_s: float) -> tuple[str, bytes] | None:
        """As ``newer``, waiting while ``known`` is the newest: for what anybody sees, and whoever waits looks in time.

        The limiter in front of this process looks by itself, so that waiting asks the database nothing.
        """
        until = time.monotonic() + wait_s
        found = await self.newer(known)
        while found is None and not self._is_draining and (left := until - time.monotonic()) > 0:
            await woken(self._news, min(left, limits.LIMIT_SNAPSHOT_LOOK_S))
            if self._seen != known or time.monotonic() - self._seen_at >= limits.LIMIT_SNAPSHOT_LOOK_S:
                found = await self.newer(known)
        return found

    def drain(self) -> None:
        """Ends every wait."""
        self._is_draining = True
        self._news.set()

    async def snapshot_of(self, digest: str) -> bytes:
        """The signed snapshot of that digest. Raises NotFound when there is none, or none any more."""
        is_one = _DIGEST.fullmatch(digest)
        rows = await self._store.rows("limit_snapshot_by_digest", {"digest": digest}) if is_one else []
        if not rows:
            raise errors.NotFound
        return bytes(rows[0][0])

    async def usage(self, key: str, client: str | None = None) -> dict[str, Any]:
        """What a key has used: at the counter store now, and in the stream of decisions.

        ``client``: an address, for what policies by network have counted of it. Without one these are named only.
        Raises NotFound, InvalidCommand.
        """
        parts = parts_of(key, client)
        name = limit_key(parts)
        policies = await self._in_force()
        level = _shown(policies.levels(parts))
        by_network = [level for level in policies.by_network(parts) if not level.policy.shadow]
        refused = {id_: (count, as_of) for id_, count, as_of in await self._store.rows(_IN_SHADOW, {"key": name})}
        shadows = policies.shadows(parts, refused)
        rows = await self._store.rows("limit_usage_by_key", {"key": name, "hash": signed_hash(name)})
        if level is None and not by_network and not shadows and not rows:
            raise errors.NotFound
        found: dict[str, Any] = {"object": "usage", "limit_key": name, "policy_id": None, "policy_version": None}
        if level is not None:
            found |= {"policy_id": level.id_, "policy_version": level.version}
        live = None if level is None else await self._live(level, parts)
        every = [await self._of_limit(limit, parts) for limit in policies.limits(parts)]
        networks = [await self._of_network(level, parts) for level in by_network]
        would = [await self._of_shadow(level, parts, *refused.get(level.id_, (0, None))) for level in shadows]
        both = {"by_network": networks, "in_shadow": would}
        return {**found, "live": live, "stream": _stream(rows), "limits": every, **both}

    async def _of_limit(self, level: Level, parts: dict[str, str]) -> dict[str, Any]:
        return {
            "policy_id": level.id_,
            "policy_version": level.version,
            "algorithm": level.policy.algorithm,
            "per": list(level.policy.per),
            "live": await self._live(level, parts),
        }

    async def _of_network(self, level: Level, parts: dict[str, str]) -> dict[str, Any]:
        return {
            "policy_id": level.id_,
            "policy_version": level.version,
            "algorithm": level.policy.algorithm,
            "network": level.network_from(parts),
            "live": await self._live(level, parts) if NETWORK in parts or not level.policy.is_by_network else None,
        }

    async def _of_shadow(self, level: Level, parts: dict[str, str], count: int, as_of: int | None) -> dict[str, Any]:
        """Beside what it has counted: how many decisions on the key it would have refused."""
        told = {"refused": count, "as_of": None if as_of is None else rendering.timestamp(as_of)}
        return await self._of_network(level, parts) | {"per": list(level.policy.per)} | told

    async def _live(self, level: Level, parts: dict[str, str]) -> dict[str, Any] | None:
        if not level.policy.is_counted:
            return None
        if level.policy.consistency == "durable":
            rows = await self._store.rows("quota_counter_by_key", durable_counters.place(level, parts))
            counted = durable_counters.counted(level, rows[0] if rows else None)
            return {**counted.rendered(), "as_of": rendering.timestamp(time.time_ns() // 1_000)}
        if self._counters is None:
            return None
        try:
            counted = await self._counters.peek(Bucket(level, level.counted_by(parts)))
        except StoreUnavailable:  # what the stream knows is told all the same
            return None
        return {**counted.rendered(), "as_of": rendering.timestamp(time.time_ns() // 1_000)}

    async def _in_force(self) -> PolicySet:
        try:
            found = await self.newer(self._digest)
        except errors.NotFound:
            return self._set
        if found is not None:
            async with self._reading:
                await self._take(*found)
        return self._set

    async def _take(self, digest: str, document: bytes) -> None:
        """Of several at once the first reads it; one that was asked for earlier and came later changes nothing."""
        if digest == self._digest:
            return
        try:
            snapshot, policies = await asyncio.to_thread(_snapshot_of, document)
        except SnapshotRefused as error:  # gateways refuse it too, and go on with the one before
            self._digest = digest
            _log.error("snapshot_refused", reason=error.public)
            return
        if policies.revision < self._set.revision:
            return
        self._digest, self._set = digest, policies
        if self._counters is not None and snapshot.shards is not None:
            self._counters.use(snapshot.shards)


def _snapshot_of(document: bytes) -> tuple[Snapshot, PolicySet]:
    """Seconds, of tens of thousands of policies: no loop waits for it. Raises SnapshotRefused."""
    text = msgspec.json.decode(document, type=Envelope).snapshot
    snapshot = msgspec.json.decode(text, type=Snapshot)
    return snapshot, PolicySet(snapshot.policies, snapshot.revision, snapshot.calendars)


def _shown(levels: tuple[Level, ...]) -> Level | None:
    """The level that is nearest to the key: kept by most of its parts, from wherever it is asked for."""
    real = [level for level in levels if not level.policy.shadow and not level.policy.is_by_network]
    return max(real, key=lambda level: len(level.policy.per), default=None)


def _stream(rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    if not rows:
        return {"allowed": 0, "denied": 0, "allowed_cost": 0, "refunded": 0, "refunded_cost": 0, "as_of": None}
    _, _, allowed, denied, allowed_cost, as_of, refunded, refunded_cost = rows[0]
    counted = {"allowed": allowed, "denied": denied, "allowed_cost": allowed_cost}
    given_back = {"refunded": refunded, "refunded_cost": refunded_cost}  # of what was allowed: retries elsewhere
    return {**counted, **given_back, "as_of": rendering.timestamp(as_of)}


def _read(row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(_FIELDS, row, strict=True))


def _place(policy: dict[str, Any]) -> Place:
    return policy["created_at"], policy["policy_id"]


def _render(policy: dict[str, Any]) -> dict[str, Any]:
    found = _policy.decode(policy["body"])
    return {
        "id": policy["policy_id"],
        **rendered(found),
        "active_version": policy["active_version"],
        "withdrawn": found.withdrawn,
        "created_at": rendering.timestamp(policy["created_at"]),
        "updated_at": rendering.timestamp(policy["updated_at"]),
    }
