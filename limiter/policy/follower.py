"""Keeps a gateway's policies in step with what is published: looked at again and again, used only when verified.

A snapshot that is refused, or does not come, changes nothing: the one in use stays, also when it has expired, which is
an alarm. Longer than ``max_stale_s`` after that nobody decides by it. The last revision is kept over restarts, so that
an old snapshot cannot come back. Source: reference limiter 2.9.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from limiter.policy.policies import PolicySet
from limiter.policy.snapshot import Snapshot, SnapshotRefused, described, verified
from schemas.errors import PlatformError
from schemas.limiter import limits
from sinks import private_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from limiter.policy.shard_map import ShardMap

_log: Final = structlog.get_logger(__name__)


class Published(Protocol):
    """Where snapshots are read."""

    async def newer(self, known: str, wait_s: int) -> tuple[str, bytes] | None:
        """The tag and the document of the newest one; None while ``known`` is its tag. Raises PlatformError.

        It may wait for so long until there is a newer one.
        """


class SnapshotFollower:
    """Looks at one place. ``run`` it on the loop of the limiter that it feeds."""

    def __init__(
        self,
        published: Published,
        keys: Callable[[], dict[str, Ed25519PublicKey]],
        use: Callable[[PolicySet], None],
        remembered: Path,
        use_shards: Callable[[ShardMap], None] | None = None,
        lapse: Callable[[], None] = lambda: None,
        max_stale_s: int = limits.LIMIT_SNAPSHOT_MAX_STALE_S,
        chosen: Callable[[PolicySet], PolicySet] = lambda policies: policies,
    ) -> None:
        """``chosen``: of the policies of a snapshot those that are used; not on the loop."""
        self._published = published
        self._keys = keys
        self._use = use
        self._remembered = remembered
        self._use_shards = use_shards
        self._hurried = asyncio.Event()
        self._patience: asyncio.Timeout | None = None  # of a look that waits
        self._lapse = lapse
        self._max_stale_s = max_stale_s
        self._chosen = chosen
        self._tag = ""
        self._on_disk: int | None = None
        self.is_lapsed = False
        self.snapshot: Snapshot | None = None
        self.has_one = asyncio.Event()
        self.refused = 0

    @property
    def is_ready(self) -> bool:
        """Whether a snapshot that is not expired is in use."""
        return self.snapshot is not None and self.snapshot.not_after > time.time()

    def expires_in_s(self, now_s: float) -> float | None:
        """How long the snapshot in use is still valid; negative after its end, None without one."""
        return None if self.snapshot is None else self.snapshot.not_after - now_s

    def judge_age(self, now_s: float) -> None:
        """Says once that the snapshot in use is too old to decide by."""
        left_s = self.expires_in_s(now_s)
        if left_s is None or self.is_lapsed or left_s + self._max_stale_s > 0:
            return
        self.is_lapsed = True
        _log.error(
            "snapshot_lapsed", max_stale_s=self._max_stale_s, hint="failure modes decide until a newer one comes"
        )
        self._lapse()

    async def run(self) -> None:
        """Follows until cancelled."""
        while True:
            await self._round()
            await asyncio.sleep(limits.LIMIT_MAP_SOONEST_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(limits.LIMIT_SNAPSHOT_FOLLOW_S - limits.LIMIT_MAP_SOONEST_S):
                    await self._hurried.wait()

    def hurry(self) -> None:
        """Looks soon, and waits no more for what is published: a store says that the map in use is old."""
        self._hurried.set()
        patience, self._patience = self._patience, None
        if patience is not None:
            patience.reschedule(asyncio.get_running_loop().time())

    async def _newer(self) -> tuple[str, bytes] | None:
        """What is newer, as soon as it is published; in a hurry without a wait, as it stands from now on."""
        if not self._hurried.is_set():
            with suppress(TimeoutError):
                try:
                    async with asyncio.timeout(None) as self._patience:
                        return await self._published.newer(self._tag, limits.LIMIT_SNAPSHOT_WAIT_S)
                finally:
                    self._patience = None
        self._hurried.clear()
        return await self._published.newer(self._tag, 0)

    async def _round(self) -> None:
        self.judge_age(time.time())
        try:
            found = await self._newer()
            if found is not None:
                tag, document = found
                # a loop that decides does not wait for signatures, the disk, and tens of thousands of policies
                self._put_in_use(*await asyncio.to_thread(self._read, document))
                self._tag = tag
        except OSError as error:  # a full disk
            _log.error("revision_not_kept", reason=str(error), hint="the policies before it stay in use")
        except SnapshotRefused as error:
            self.refused += 1
            _log.error("snapshot_refused", reason=error.public)
        except PlatformError as error:
            _log.warning("snapshot_not_fetched", code=error.code, reason=error.public)

    def take(self, document: bytes) -> None:
        """Uses a document from now on. Raises SnapshotRefused or OSError, and then nothing changed."""
        self._put_in_use(*self._read(document))

    def _read(self, document: bytes) -> tuple[Snapshot, PolicySet]:
        """Verified, computed, its revision on the disk; whoever asks is alone in it. Raises SnapshotRefused, OSError.

        Rule: what was decided by once is remembered before, or a loss of power would let an older one in again.
        """
        snapshot = verified(document, self._keys(), self._last_revision(), time.time())
        policies = PolicySet(snapshot.policies, snapshot.revision, snapshot.calendars, denied=snapshot.denied)
        policies = self._chosen(policies)
        self._remember(snapshot.revision)
        return snapshot, policies

    def _put_in_use(self, snapshot: Snapshot, policies: PolicySet) -> None:
        if snapshot.shards is not None and self._use_shards is not None:
            self._use_shards(snapshot.shards)
        self._use(policies)
        self.snapshot, self.is_lapsed = snapshot, False
        self.has_one.set()
        _log.info("snapshot_in_use", **described(snapshot))

    def _remember(self, revision: int) -> None:
        """Whole or not at all, and on the disk before it takes its place: it has to outlive a loss of power."""
        if revision == self._on_disk:  # renewed: the disk is not waited for
            return
        self._remembered.parent.mkdir(parents=True, exist_ok=True)
        private_file.replace(self._remembered, str(revision))
        self._on_disk = revision

    def _last_revision(self) -> int:
        """What came last, before a restart too. Raises SnapshotRefused: without it an old snapshot could come back."""
        if self.snapshot is not None:
            return self.snapshot.revision
        try:
            return int(self._remembered.read_text())
        except FileNotFoundError:  # the first start
            return 0
        except (OSError, ValueError) as error:
            raise SnapshotRefused(f"the last revision cannot be read in {self._remembered.name}: restore it") from error
