"""Bounds of the check, replays, checkpoints and the audit log."""

from __future__ import annotations

from typing import Final

# --- check and replay
CHECK_SAMPLE_MAX: Final = 5  # violating rows shown per invariant unless all are asked for
CHECK_STATEMENT_TIMEOUT_MS: Final = 600_000
CHECK_SINK_WAIT_S: Final = 10  # for ClickHouse to reach the outbox's end of the snapshot
CHECK_MONITOR_ROUND_S: Final = 300  # without a whole round of the isolation monitor, that is a gap
CHECK_POLL_MS: Final = 100
CHECK_KAFKA_READ_TIMEOUT_S: Final = 120  # without a single new record
CHECK_FETCH_ROWS: Final = 5_000
CHECK_ACKNOWLEDGED_CHUNK: Final = 50_000  # each costs one pass over the outbox
REPLAY_CHUNK_EVENTS: Final = 10_000
REPLAY_DIFFERENCES_SHOWN_MAX: Final = 20
REPLAY_LOCK_WAIT_S: Final = 5  # for the database to notice that the session of a replay before has ended
REPLAY_HOLD_WAIT_S: Final = 30  # for a running sink to let go before a swap
PARKED_LISTED_MAX: Final = 200

# --- check of refunds, disputes and events of processors
CHECK_EVENTS_GRACE_S: Final = 60  # how far a processor's events may lie behind before that is a gap

# --- audit
AUDIT_FETCH_ROWS: Final = 2_000
AUDIT_LISTED_MAX: Final = 10_000
SIGNED_REQUESTS_SHOWN_MAX: Final = 500  # of one aggregate, by millrace audit signatures
MEDIA_BLOCKED_SHOWN_MAX: Final = 10_000  # contents that a shell is shown
