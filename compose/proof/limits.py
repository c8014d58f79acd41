"""Bounds of demo, benchmarks and soaks."""

from __future__ import annotations

from typing import Final

from schemas.limiter.limits import POLICIES_READ_TIMEOUT_S
from schemas.payments.limits import MERCHANT_WEBHOOK_LEASE_S, MERCHANT_WEBHOOK_RETRY_SCHEDULE_S, POLICIES_REFRESH_S
from sinks.limits import OWNER_SESSION_TIMEOUT_MS

# --- demo and the HTTP benchmark
DEMO_INVOICES_MAX: Final = 200_000  # of one file; its plan is held in memory
DEMO_PAYMENTS_OPEN_MAX: Final = 500  # under way at once; past it the schedule waits
DEMO_FINAL_WAIT_S: Final = 120  # for one payment to come to its end, a killed owner included
DEMO_PERSISTENCE_S: Final = 90  # a command without a decision is asked for again, with its identity, for so long
DEMO_VIEWS_WAIT_S: Final = 60  # for workers, sink and publisher to be done with the last event
DEMO_SETTLE_POLL_MS: Final = 100
DEMO_KAFKA_READ_TIMEOUT_S: Final = 10  # for the records of one payment
DEMO_PROBLEMS_SHOWN_MAX: Final = 20
DEMO_OWNER_BACK_WAIT_S: Final = 60  # for the partitions of a killed owner to be taken over
DEMO_BULK_WINDOW_MS: Final = 200  # commands that come within it travel in one NDJSON request
BENCH_RATE_DEFAULT_PER_S: Final = 200.0
BENCH_RATE_MAX_PER_S: Final = 20_000.0
BENCH_SECONDS_DEFAULT: Final = 10.0
BENCH_SECONDS_MAX: Final = 3_600.0
BENCH_CONNECTIONS_DEFAULT: Final = 16
BENCH_FOLLOWERS_DEFAULT: Final = 400
BENCH_POSTS_STORED_DEFAULT: Final = 1_000_000  # when homes are read
BENCH_POSTS_STORED_MAX: Final = 20_000_000
BENCH_CONNECTIONS_MAX: Final = 512
BENCH_BULK_CONNECTIONS_DEFAULT: Final = 8
BENCH_CLOSED_CONNECTIONS: Final = (16, 256)  # of the two closed loops of single commands
BENCH_LINES_DEFAULT: Final = 500  # of one NDJSON request
BENCH_WARM_UP_S: Final = 8.0  # before anything is counted
BENCH_SINGLE_WARM_UP_S: Final = 30.0  # of the first part of its run: Kafka's JVM compiles for so long
BENCH_CLOSED_WARM_UP_S: Final = 2.0
BENCH_IDLE_SETTLE_S: Final = 45  # after its start a stack is not idle yet: it compiles what the start has called
BENCH_IDLE_S: Final = 15
BENCH_LATENCY_MAX_US: Final = 120_000_000  # past it a latency is counted as this
BENCH_REPEATS_MAX: Final = 3  # of a request whose connection was lost; the identity is the same
BENCH_SAMPLE_MAX: Final = 20_000  # commands whose stages are looked up
BENCH_DRAIN_WAIT_S: Final = 120  # for the attempts of one run to come to their end before the next

# --- benchmark of owners
BENCH_OWNER_COMMANDS_DEFAULT: Final = 120_000
BENCH_OWNER_COMMANDS_MAX: Final = 5_000_000
BENCH_OWNER_RATE_PER_S: Final = 500.0  # of the latency measurement
BENCH_REPEATS_OF_RUN_MAX: Final = 20

# --- benchmark of settlements
BENCH_SETTLEMENT_LINES_DEFAULT: Final = 1_000_000
BENCH_SETTLEMENT_LINES_MAX: Final = 10_000_000

# --- demo: one of each
DEMO_ACT_WAIT_S: Final = 40  # for one step of an act to show
DEMO_SOCIAL_WAIT_S: Final = 90  # for homes, propagation and an erasure, beside everything else
DEMO_USERS: Final = 12  # of the social act

# --- soak
SOAK_ABORTS: Final = 0.15  # of looks at a move of tenants that is not committed
SOAK_DIFFERENCES_MAX: Final = 5  # of one history: then it has failed, and goes on no further
SOAK_PROBLEM_LENGTH_MAX: Final = 500
SOAK_PAYMENTS_OPEN_MAX: Final = 200  # under way at once; past it the schedule waits
SOAK_AMOUNT_MINOR_MIN: Final = 1_000  # so that every share of it is some money, also in currencies without cents
SOAK_AMOUNT_MINOR_MAX: Final = 90_000
SOAK_PAUSE_MIN_S: Final = 0.5  # between the return of one killed process and the next kill
SOAK_PAUSE_MAX_S: Final = 3.0
SOAK_FREEZE_MS: Final = OWNER_SESSION_TIMEOUT_MS + 3_000  # others own its partitions when a frozen owner wakes up
SOAK_FROZEN_SEEN_S: Final = (
    POLICIES_READ_TIMEOUT_S + 2 * POLICIES_REFRESH_S
)  # until every owner refuses a frozen merchant
SOAK_BACK_WAIT_S: Final = 60  # for a killed process to be ready again
SOAK_ALL_BACK_WAIT_S: Final = 180  # for all of them, when they were killed at once
SOAK_CALL_WAIT_S: Final = 40  # for one answer
SOAK_PERSISTENCE_S: Final = 180  # a call without an answer is made again, with its identity, for so long
SOAK_FINAL_WAIT_S: Final = 240  # for a payment, a refund or a dispute to come to its end, kills included
SOAK_POLL_MS: Final = 100
SOAK_SETTLE_WAIT_S: Final = 180  # for everything behind the last payment: polls of attempts, sink, webhooks
SOAK_SHOP_BACKLOG: Final = 256
#: for what a killed sender held, and was refused when it came again: the third try is minutes after the second
SOAK_DELIVERY_WAIT_S: Final = MERCHANT_WEBHOOK_LEASE_S + sum(MERCHANT_WEBHOOK_RETRY_SCHEDULE_S[:3]) + 60
SOAK_VICTIMS: Final = 12  # payments of a settlement round whose lines are wrong, over all processors
SOAK_YOUNGER_TRIES_MAX: Final = 20  # as many payments again, until each processor of a victim has a younger charge
SOAK_YOUNGER_PAUSE_S: Final = 5.0  # between them: together longer than routing avoids a processor that was away
SOAK_SETTLEMENT_ROUNDS: Final = 3  # the last one when nothing is killed any more
SOAK_PROGRESS_INTERVAL_S: Final = 10
SOAK_LOOK_S: Final = 0.1  # between two looks for an answer
SOAK_PROBLEMS_SHOWN_MAX: Final = 20
SOAK_CHECKS_OPEN_MAX: Final = 2_000  # under way at once; past it the schedule waits
SOAK_CHECK_TIMEOUT_S: Final = 2.0  # for one answer of a gateway
SOAK_KILL_TAKES_S: Final = 0.5  # from its decision until the process is gone
SOAK_LEASES_CALM_S: Final = 10.0  # nothing is open for so long: charges that were told last have been looked at

# --- demo and benchmark of the limiter
BENCH_LIMITER_DECISIONS_DEFAULT: Final = 1_000_000
BENCH_LIMITER_DECISIONS_MAX: Final = 50_000_000
BENCH_OUTAGE_S: Final = 60.0  # of the broker
BENCH_OUTAGE_AROUND_S: Final = 5.0
DEMO_LOG_LINES_MAX: Final = 200_000  # of an access log that is replayed
DEMO_LOG_LINES_GENERATED: Final = 10_000
DEMO_LOG_SECONDS: Final = 20  # a replay takes about so long when no speed is asked for
DEMO_LOG_SPEED_MAX: Final = 1_000_000
DEMO_LIMITER_LINES: Final = 800  # of the act in `make demo`: a few seconds, in which quotas run out
DEMO_LIMITER_SPEED: Final = 8_000

# --- benchmarks of tenants
BENCH_TENANTS_DEFAULT: Final = 5_000
BENCH_TENANTS_MAX: Final = 1_000_000
BENCH_MOVE_ROWS_DEFAULT: Final = 50_000
BENCH_MOVE_ROWS_MAX: Final = 10_000_000
BENCH_TENANCY_WAIT_S: Final = 900.0  # for a hundred thousand tenants, or a million rows
BENCH_NOISY_TIMES: Final = 50  # what a noisy tenant sends, for one command of another
BENCH_QUIET_RATE_PER_S: Final = 8.0  # of each of the others
BENCH_NOISY_HEAD_START_S: Final = 0.5  # from when all is signed to when the first is due
BENCH_NOISY_LINGER_MS: Final = 5  # as of librdkafka's and Kafka's own client, where nothing is said
BENCH_FAIRNESS_SECONDS_DEFAULT: Final = 60.0  # alone, and beside: p99 of less is decided by a stall or two
BENCH_FAIRNESS_WARM_UP_S: Final = 30.0  # so long Kafka's JVM compiles for the noisy one, on a core of its own
BENCH_FAIRNESS_ROUNDS: Final = 4  # alone and beside by turns: what happens to the machine meets both
BENCH_USAGE_EVENTS_DEFAULT: Final = 200_000
BENCH_USAGE_EVENTS_MAX: Final = 10_000_000
BENCH_METERING_MAX_S: Final = 600.0  # until all of them are in ClickHouse
