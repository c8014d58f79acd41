"""Bounds of the processor simulator."""

from __future__ import annotations

from typing import Final

# --- the processor simulator
SIMULATOR_IDENTITY_LENGTH_MAX: Final = 255  # operation ids, references, tokens, provider references
SIMULATOR_BODY_BYTES_MAX: Final = 256 * 1024  # evidence is the largest
SIMULATOR_QUEUE_MAX: Final = 10_000  # operations that wait for the book's writer; past it 503 overloaded
SIMULATOR_BATCH_OPERATIONS_MAX: Final = 512  # operations of one durable commit
SIMULATOR_BOOK_PAGE_ENTRIES: Final = 5_000  # entries that GET /book holds in memory at once
SIMULATOR_HOLD_MS: Final = 30_000  # how long a lost answer keeps its connection open
SIMULATOR_HOLDS_MAX: Final = 2_000  # connections held at once; past it they are dropped at once
SIMULATOR_CONNECTIONS_MAX: Final = 4_096  # requests under way; more than the holds, which last long
SIMULATOR_SLOW_ANSWER_MS: Final = 2_000
SIMULATOR_GARBAGE_QUERIES: Final = 2  # unreadable answers of a garbage operation before a query reads true
SIMULATOR_RETRY_AFTER_S: Final = 1
SIMULATOR_READY_TIMEOUT_S: Final = 2
SIMULATOR_LOCK_WAIT_MS: Final = 5_000  # SQLite's wait for another process that has the book's write lock
SIMULATOR_DRAIN_TIMEOUT_S: Final = 5

# --- refunds, webhooks, disputes, settlements
SIMULATOR_REFUND_FAILS_AFTER_MS: Final = 2_000  # of the card whose refunds fail later
SIMULATOR_CLOCK_MS: Final = 500  # how often the book is asked for refunds whose time to fail has come
SIMULATOR_DUE_REFUNDS_MAX: Final = 500  # refunds that fail in one commit
SIMULATOR_DISPUTE_FEE_MINOR: Final = 1_500
SIMULATOR_EVIDENCE_MS: Final = 7 * 86_400_000  # from the opening of a dispute until evidence comes too late
SIMULATOR_FEE_BPS: Final = 60  # what it keeps of a capture, rounded half up
SIMULATOR_WEBHOOK_BATCH_MAX: Final = 64  # deliveries under way before what came of them is booked
SIMULATOR_WEBHOOK_LANES: Final = 4  # connections to the receiver; what is about one reference goes over one
SIMULATOR_WEBHOOK_TIMEOUT_S: Final = 5
SIMULATOR_WEBHOOK_ANSWER_BYTES_MAX: Final = 16 * 1024  # read of a receiver's answer, which says nothing to us
SIMULATOR_WEBHOOK_POLL_MS: Final = 250  # how often a sender looks at its outbox that nothing wakes
SIMULATOR_WEBHOOK_IDLE_MS: Final = 1_000  # the same of one that everything new wakes
SIMULATOR_WEBHOOK_BACKOFF_FIRST_MS: Final = 500  # after a refusal of one delivery; doubles
SIMULATOR_WEBHOOK_BACKOFF_MAX_MS: Final = 60_000
SIMULATOR_WEBHOOK_PAUSE_FIRST_MS: Final = 250  # after a receiver that cannot be reached at all; doubles
SIMULATOR_WEBHOOK_PAUSE_MAX_MS: Final = 4_000
SIMULATOR_WEBHOOK_STORM_COPIES: Final = 5
SIMULATOR_WEBHOOK_STORM_SPREAD_MS: Final = 1_500  # copies come within this, in any order
SIMULATOR_WEBHOOK_FIRST_WAIT_MS: Final = 2_500  # an answer waits for its webhook so long, less than a call's time-out
SIMULATOR_WEBHOOK_FIRST_POLL_MS: Final = 20
SIMULATOR_STOP_SENDER_S: Final = 2 * SIMULATOR_WEBHOOK_TIMEOUT_S
SIMULATOR_SETTLEMENT_FAULTS_MAX: Final = 1_000  # planted in one report
SIMULATOR_SETTLEMENT_BODY_BYTES_MAX: Final = 512 * 1024
SIMULATOR_SETTLEMENT_PAGE_LINES: Final = 5_000  # lines that a download holds in memory at once

# --- the payer's actions, and holds
SIMULATOR_ACTION_MS: Final = 15 * 60_000  # how long it waits for a payer
SIMULATOR_AUTHORIZATION_MS: Final = 7 * 86_400_000
SIMULATOR_SHORT_AUTHORIZATION_MS: Final = 3_000  # of the card whose holds end soon
SIMULATOR_DUE_MAX: Final = 500  # actions and holds that end in one commit
