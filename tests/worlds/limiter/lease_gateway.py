"""A gateway's leases, ring and book without a store: for tests that decide themselves what was granted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from limiter.decide.fast_path import fast_path
from limiter.decide.identities import Identities
from limiter.spending.buckets import Bucket
from limiter.spending.key_state import KeyState
from limiter.store.lease_clock import lease_clock_ns
from limiter.stream.decisions import Recorder
from limiter.stream.lease_accounts import LeaseAccounts
from tests.worlds.limiter.counter_server import Blocks, policies, policy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from limiter.spending.decision import Decision
    from limiter.stream.charges import Charges
    from tests.worlds.limiter.lease_reports import Reports

KEY = ("t", "u", "/r")


class Gateway:
    """One process of a gateway without a store: its lease is simply granted. It ends without a word, as a killed one."""

    def __init__(
        self,
        folder: Path,
        reports: Reports,
        slots: int = 8,
        levels: int = 1,
        charges: Charges | None = None,
        records: int = 1_024,
    ) -> None:
        self.leases = LeaseAccounts(folder / "leases.book", folder / "ring", reports, slots)
        self.recorder = Recorder(
            "g", Blocks(under_way=1), folder / "ring", records=records, leases=self.leases, charges=charges
        )
        level = policies(policy()).levels(dict(zip(("tenant", "user", "route"), KEY, strict=True)))[0]
        self.buckets = tuple(Bucket(level, name, self.leases) for name in ("t", "other", "third")[:levels])
        self.bucket = self.buckets[0]
        state = KeyState("t:u:/r", self.buckets, self.recorder.row("t:u:/r", "pl_a", 1))
        self.low: list[Bucket] = []  # those that asked for a report, or for their next lease
        path = fast_path({KEY: state}, Identities(10**12), {}, self.recorder, self.low.append)
        self.check: Callable[..., Decision | None] = path.check_now

    def grant(self, size: int, name: str = "g.1") -> None:
        """A lease as the store grants it."""
        for at, bucket in enumerate(self.buckets):
            bucket.end_lease()
            bucket.begin_lease(f"{name}{'+' * at}".encode(), size, lease_clock_ns() + 10**12, epoch=1)

    def spend(self, wanted: int, cost: int = 1) -> int:
        """How many decisions the lease allowed."""
        return sum(self.check(*KEY, cost, None) is not None for _ in range(wanted))

    def close(self) -> None:
        """Gives the files back to the operating system; nothing is said."""
        self.recorder.close()
        self.leases.shut()
