"""Bounds of the rate limiter, in every layer."""

from __future__ import annotations

from typing import Final

# --- policies
POLICIES_READ_TIMEOUT_S: Final = 5.0

# --- decisions, leases and their streams
# Rate limiter: policies
LIMIT_WINDOW_MS_MAX: Final = 366 * 24 * 3_600_000  # a year; in milliseconds as policies say it
LIMIT_SLOTS_MAX: Final = 60
LIMIT_FURTHER_LIMITS_MAX: Final = 3  # of one policy, beside its first
LIMIT_KEY_PART_LENGTH_MAX: Final = 1_024
LIMIT_PROXIES_MAX: Final = 16  # in a row, in front of an application
LIMIT_NETWORK_PREFIX_V4: Final = 24  # of the networks that counters are kept by, unless the policy says otherwise
LIMIT_NETWORK_PREFIX_V6: Final = 56  # what one customer of a provider gets
LIMIT_DENIED_DIGEST_LENGTH: Final = 32  # hexadecimal digits, of a name that must not be read
LIMIT_VERSIONS_SHOWN_MAX: Final = 100
LIMIT_USAGE_IDLE_HOURS: Final = 90 * 24  # totals of a key that was not asked for since are let go
LIMIT_USAGE_TOTALS_MAX: Final = 10_000_000  # about as many are kept; past it the longest idle go
LIMIT_USAGE_IDLE_HOURS_FULL: Final = 2  # then too
LIMIT_USAGE_PRUNED_MAX: Final = 10_000  # in one statement
LIMIT_USAGE_PRUNE_S: Final = 60.0
LIMIT_USAGE_NETWORKS_MAX: Final = 50  # policies by network that a usage view names when no network is asked for
LIMIT_SNAPSHOT_POLL_S: Final = 0.4  # a published policy is in force on every gateway within 2 s: signed within this,
LIMIT_SNAPSHOT_FOLLOW_S: Final = 0.8  # and fetched within this
LIMIT_SNAPSHOT_WAIT_S: Final = 3  # at an ingress, for a newer one; well below POLICIES_READ_TIMEOUT_S
LIMIT_SNAPSHOT_LOOK_S: Final = 1.0  # of who waits there, while nobody else looks
LIMIT_SNAPSHOT_LIFE_S: Final = 3_600  # a snapshot that old and not renewed is expired
LIMIT_SNAPSHOT_RENEW_S: Final = 600
LIMIT_SNAPSHOT_MAX_STALE_S: Final = 4 * 3_600  # for so long after it has expired a snapshot decides, then failure modes
LIMIT_SNAPSHOT_MAX_STALE_MAX_S: Final = 30 * 86_400
LIMIT_CALENDAR_BEFORE_S: Final = 86_400  # windows of calendars in a snapshot begin with the one of so long ago
LIMIT_CALENDAR_AHEAD_S: Final = (  # and last while any gateway may decide by it, and a day more
    LIMIT_SNAPSHOT_LIFE_S + LIMIT_SNAPSHOT_MAX_STALE_MAX_S + 86_400
)
LIMIT_CALENDAR_SKEW_S: Final = 60  # a gateway whose clock is ahead of the store's by less knows the store's window
LIMIT_GATEWAYS_MAX: Final = 10_000  # that share what an open policy allows without the store
LIMIT_GATEWAY_PROCESSES_MAX: Final = 32
LIMIT_MAINTAIN_S: Final = 0.1  # how often leases that ended are settled
LIMIT_MAINTAIN_IDLE_S: Final = 0.5  # the same while there is none: half as long as one lasts
LIMIT_ACQUIRE_POLL_MIN_S: Final = 0.01  # of a caller who waits for a quota: between two looks
LIMIT_ACQUIRE_POLL_MAX_S: Final = 1.0
LIMIT_METRIC_POLICIES_MAX: Final = 1_000  # that have metrics of their own; the others share one
LIMIT_IN_PROCESS_LOOK: Final = 64  # counters of a full limiter of one process, of which some may hold nothing
LIMIT_SYNC_WAITING_MAX: Final = 1_024  # threads that wait for one limiter at once
LIMIT_SYNC_TIMEOUT_S: Final = 5.0  # of a thread: more than every bound of a decision together
LIMIT_SIGNING_KEYS_MAX: Final = 16  # that verify at once
# Rate limiter: decisions
LIMIT_COST_MAX: Final = 2**31 - 1
LIMIT_PERMITS_MAX: Final = 100_000  # of one concurrency limit, when it is published
LIMIT_UNSURE_MAX: Final = 10_000  # requests that were refused without an answer, and may hold permits
LIMIT_DESCRIPTORS_MAX: Final = 64  # of one call of Envoy's RateLimitService
LIMIT_ENVOY_CALLS_MAX: Final = 4_096  # of both of Envoy's services, streams among them; past it they are refused
LIMIT_REQUEST_ID_LENGTH_MAX: Final = 128  # a longer one is remembered by its hash
LIMIT_IDENTITY_MS: Final = 60_000  # how long a request identity is remembered
LIMIT_REPETITIONS_FREE_MAX: Final = 16  # of one HTTP request: more than the tries of a client; then each is charged
LIMIT_REPEATED_MAX: Final = 100_000  # HTTP requests that came again, whose repetitions one process counts
LIMIT_STORE_TIMEOUT_S: Final = 0.25
LIMIT_STORE_SILENCE_S: Final = 0.25  # of a store that owes an answer, before its connection is given up
LIMIT_STORE_RETRY_S: Final = 0.5  # how long a store that failed is left alone; half of it to all of it
LIMIT_STORE_CALLS_MAX: Final = 4_096  # in flight of one gateway; past it a decision takes the failure mode
LIMIT_CLOCK_LOOK_S: Final = 10.0  # between two looks at a store's clock
LIMIT_KEYS_MAX: Final = 500_000  # that one gateway holds at once
LIMIT_KEYS_LET_GO: Final = 5_000  # of void keys and counters, every LIMIT_MAINTAIN_S: some milliseconds
LIMIT_LEASE_MS: Final = 1_000
LIMIT_LEASE_SHARE: Final = 10  # leases of one key hold at most a tenth of its capacity
LIMIT_LEASE_SIZE_MAX: Final = 4_096
LIMIT_SETTLING_MAX: Final = 16  # ended leases of one bucket that wait for the store
LIMIT_DECISIONS_IDLE_S: Final = 0.25  # between two looks at a ring that nobody has written for some time
LIMIT_DECISIONS_IDLE_AFTER_S: Final = 1.0
LIMIT_DECISIONS_FLUSH_S: Final = 0.02  # well below the 50 ms that the unreported part of a lease lasts at a steady rate
LIMIT_DECISIONS_BLOCK_MAX: Final = 8_192
LIMIT_DECISIONS_SENT_AT_ONCE: Final = 2_048  # in one turn of the loop: half a millisecond in which nothing is decided
LIMIT_BLOCKS_MAX: Final = 32_768  # that Kafka has not acknowledged; past it rows are counted as lost, and none waits
LIMIT_BLOCKS_KBYTES_MAX: Final = 131_072  # the same in bytes: minutes of what a gateway decides without leases
LIMIT_REPORTS_MAX: Final = 4_096  # messages of leases that Kafka has not acknowledged; what they say is said again
LIMIT_SINK_INTERVAL_MS: Final = 1_000  # decisions are inserted into ClickHouse that often, or when a block is full
LIMIT_SINK_DECISIONS_MAX: Final = 100_000  # of one block, and what one more reading adds
LIMIT_SINK_MESSAGES_MAX: Final = 8  # of one reading
LIMIT_RING_RECORDS: Final = 524_288  # decisions that may wait for the next flush
LIMIT_ROWS_WAIT_S: Final = 0.03  # once for very many new rows: what was sent of them has to be safe
LIMIT_RING_NUMBER_MAX: Final = 2**62  # no record has such a number
LIMIT_LEASE_SLOTS: Final = 16_384  # leases of one gateway that are not yet accounted for; past it the store is asked
LIMIT_LEASE_UNREPORTED_SHARE: Final = 8  # of a lease at most one of so many parts is spent before Kafka knows
LIMIT_LEASE_FLUSH_MIN_S: Final = 0.005  # between two flushes, however many leases wait for one
LIMIT_LEASE_SILENCE_S: Final = 1.0  # without an acknowledgement: no further lease is asked for
LIMIT_LEASES_REPORTED_MAX: Final = 512  # in one message
LIMIT_LEASE_GRACE_S: Final = (
    2.0  # after its end, before a lease is settled for its gateway: what their clocks may differ
)
LIMIT_LEASE_MESSAGES_MAX: Final = 500  # reports of leases that are folded at once
LIMIT_LEASE_POLL_S: Final = 0.2
LIMIT_LEASE_WATERMARK_S: Final = 0.5  # between two questions for the end of a partition
LIMIT_LEASE_WATERMARK_IDLE_S: Final = 10  # while no lease of it is open: well below LIMIT_REFUND_WAIT_S
LIMIT_LEASE_ASK_S: Final = 2.0
LIMIT_LEASE_SETTLE_S: Final = 1.0  # the store's answer to a settlement: nobody waits for it
LIMIT_LEASES_SETTLED_MAX: Final = 256  # at the store at once
LIMIT_LEASE_PRUNE_S: Final = 60.0
LIMIT_LEASE_SETTLEMENTS_KEPT_S: Final = 7 * 86_400
LIMIT_LEASE_SETTLEMENTS_PRUNED_MAX: Final = 50_000  # in one statement
LIMIT_CHARGES_BLOCK_MAX: Final = 2_048  # under identities, in one message: under 1 MB, each of another lease
LIMIT_CHARGES_UNSENT_MAX: Final = 2_000_000  # of one gateway that Kafka has not acknowledged; past it they are lost
LIMIT_REFUND_LATE_S: Final = 120  # between the charges of one identity, and after them, until both have to be in Kafka
LIMIT_REFUND_CHARGES_MAX: Final = 4_000_000  # kept of one partition, 32 bytes each; past it the oldest are forgotten
LIMIT_REFUND_SEGMENT_S: Final = 3  # of arrivals, sorted in one array
LIMIT_REFUND_BLOCKS_MAX: Final = 200  # of one reading
LIMIT_REFUND_POLL_S: Final = 0.2
LIMIT_REFUND_AT_ONCE: Final = 256  # at the store
LIMIT_REFUND_SKEW_S: Final = 1  # that a gateway's clock may be ahead of the store's; a charge counts as so much older
LIMIT_REFUND_MARK_MS: Final = 1_200_000  # the store remembers a refund; a crash's open one is given up at half
LIMIT_REFUND_WAIT_S: Final = 60  # after a charge every lease that ended then is settled, or was never reported
LIMIT_REFUNDS_KEPT_S: Final = 7 * 86_400
LIMIT_REFUNDS_PRUNED_MAX: Final = 50_000  # in one statement
LIMIT_API_RING_RECORDS: Final = 65_536  # the same in front of our own API
LIMIT_API_LEASE_SLOTS: Final = 2_048
LIMIT_DOUBTS_MAX: Final = 500_000  # identities of unanswered calls: as many as can fail while one is remembered
LIMIT_LEVELS_MAX: Final = 64  # durable policies of one key
LIMIT_DURABLE_TIMEOUT_S: Final = 2.0  # for the owner's answer; past it the failure mode, and a retry finds the answer
LIMIT_DURABLE_CONNECT_POLL_S: Final = 0.05
LIMIT_DURABLE_RETENTION_S: Final = 7 * 24 * 3_600  # of what was consumed: as long as the topic keeps the commands
LIMIT_DURABLE_PRUNE_EVERY_S: Final = 5.0
LIMIT_DURABLE_PRUNE_ROWS: Final = 5_000  # of one round
LIMIT_IDENTITIES_MAX: Final = 4_000_000  # of one generation: a full one makes room at once
LIMIT_ANSWERS_MAX: Final = 500_000  # of the store, of one generation

# --- batched binary CHECK frames, fleets and shards
LIMIT_FRAME_ENTRIES_MAX: Final = 1_024  # decisions, or keys, of one frame
LIMIT_FRAME_BYTES_MAX: Final = 262_144  # after the header
LIMIT_FRAME_KEYS_MAX: Final = 262_144  # that one connection may name
LIMIT_FRAME_KEY_BYTES_MAX: Final = 67_108_864  # of all names of one connection
LIMIT_FRAMES_UNDER_WAY_MAX: Final = 64  # of one connection; past it no more is read until one is answered
LIMIT_FRAME_ENTRIES_WAITING_MAX: Final = 3 * LIMIT_FRAME_ENTRIES_MAX  # for the store, of all connections
LIMIT_FRAME_CONNECTIONS_MAX: Final = 256
LIMIT_FRAME_TIMEOUT_S: Final = 1.0  # of a client, for one attempt: more than the bound of two store calls
LIMIT_FRAME_ATTEMPTS: Final = 3
LIMIT_FLEET_AWAY_S: Final = 5.0  # a gateway that did not answer is asked last for so long
LIMIT_FLEET_KEYS_MAX: Final = 65_536  # whose order of gateways a client remembers
LIMIT_TOP_MINUTES_MAX: Final = 2_880  # sums of keys are kept for two days
LIMIT_TOP_ROWS_MAX: Final = 500
LIMIT_TOP_REFRESH_S: Final = 2.0
LIMIT_DRY_RUN_KEYS_MAX: Final = 200_000  # keys, and counters, that a dry run of policies holds at once
LIMIT_DRY_RUN_SLACK_US: Final = 2_000_000  # between gateways: how much later one's decisions may lie in Kafka
LIMIT_DRY_RUN_MINUTES_MAX: Final = 10_080  # as long as Kafka keeps decisions
LIMIT_DRY_RUN_WARM_UP_MAX_US: Final = 3_600_000_000
LIMIT_SHARDS_MAX: Final = 64
LIMIT_SHARD_PINS_MAX: Final = 1_000
LIMIT_SHARD_LAYOUTS_MAX: Final = 8  # moves of tenants whose counters are still looked for where they were
LIMIT_SHARD_HOMES_MAX: Final = 65_536  # tenants whose shard one process remembers
LIMIT_MAP_SOONEST_S: Final = 0.05  # between two looks for a newer map while a store says that ours is old
LIMIT_REPLICA_LAG_S: Final = 10  # that a replica may be behind: min-replicas-max-lag of the runbook
LIMIT_FAILOVER_DEBT_S: Final = 60  # so long after a failover `closed` policies are charged what may be lost
LIMIT_SHARD_CALL_TIMEOUT_S: Final = 2.0  # of an operator's command, for one answer of a store
LIMIT_RESTORED_WINDOW_MIN_S: Final = 60  # shorter windows are over before anybody has told a store that lost them
LIMIT_RESTORED_AGAIN_S: Final = 30  # after a promotion: by then all leases of gateways that are gone are settled
LIMIT_RESTORED_AGAIN_UNTIL_S: Final = 3_600
LIMIT_RESTORED_AT_ONCE: Final = 256  # buckets that a store is told of at once
LIMIT_RESTORED_ROWS: Final = 5_000  # of leases, in one answer of Postgres
LIMIT_GC_THRESHOLDS: Final = (
    1_000,
    5,
    20_000,
)  # of a gateway: objects live long and form no cycles; each look is short

# --- quota lent to Envoys
LIMIT_RLQS_LEASE_MS: Final = 10_000  # Envoy is told of a second less; it reports every 5 s, whatever it is told
LIMIT_RLQS_MARGIN_MS: Final = 1_000  # an assignment and a report together are under way for at most so long
LIMIT_RLQS_SHARE: Final = 2  # one assignment is at most half of a key's capacity
LIMIT_RLQS_TOKENS_MIN: Final = 8  # of an assignment, where the quota has as much
LIMIT_RLQS_TOKENS_MAX: Final = 1_000_000
LIMIT_RLQS_RETRY_MS: Final = 1_000  # how often a refused key is looked at again
LIMIT_RLQS_IDLE_S: Final = 60  # a bucket that nobody uses for so long is abandoned
LIMIT_RLQS_TICK_S: Final = 0.25
LIMIT_RLQS_STREAMS_MAX: Final = 256  # of one gateway
LIMIT_RLQS_BUCKETS_MAX: Final = 4_096  # of one stream; those past it are abandoned
LIMIT_RLQS_CALLS_MAX: Final = 256  # shares of one gateway that ask the store at once
