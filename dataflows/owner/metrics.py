"""The owner's metrics by name; each comment says what a high value means."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

# Its rate is the throughput of this process.
COMMANDS_COMMITTED: Final = Counter("millrace_owner_commands_committed", "Commands whose batch committed")
# Above zero: records wait for an operator; see `millrace parked list`.
PARKED_RECORDS: Final = Counter("millrace_owner_parked_records", "Records parked because they failed twice, alone")
# Above zero: somebody sends commands without the right to, or a key is wrong; `millrace parked list --all` shows them.
REFUSED_RECORDS: Final = Counter("millrace_owner_refused_records", "Records refused undecided", ["reason"])
# Small under load: the reader does not keep up; at the cap: the owner is the bottleneck.
BATCH_COMMANDS: Final = Histogram(
    "millrace_owner_batch_commands",
    "Commands per transaction",
    buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000),
)
# High: Postgres (locks, fsync, missing index) or a very large batch.
COMMIT_SECONDS: Final = Histogram(
    "millrace_owner_commit_seconds",
    "Time to commit one batch",
    buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5),
)
# Above zero for long: a broken database or network; the process starts over each time.
RESTARTS: Final = Counter("millrace_owner_restarts", "Times the owner loop started over after a failure", ["cause"])
# Zero while others own the partitions; all of them zero: nobody serves.
PARTITIONS_OWNED: Final = Gauge("millrace_owner_partitions_owned", "Partitions that this process owns")
# Above zero: a broken invariant or lost commands halted a partition; page somebody, see `millrace partitions`.
INVARIANT_VIOLATED: Final = Counter("millrace_owner_invariant_violations", "Partitions that this process halted")
