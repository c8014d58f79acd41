"""Every bound of Millrace by name: sizes, counts, waits, retries and pools.

Units stand last in a name. A queue, batch, pool, retry or wait without a name in this module is a bug:
``tests/tidy`` looks for naked numbers where bounds belong.
"""

from __future__ import annotations

from typing import Final

# --- values of a command ---------------------------------------------------------------------------------
AMOUNT_MINOR_MAX: Final = 2**53 - 1  # exact in every JSON reader, RFC 8259 section 6
IDEMPOTENCY_KEY_LENGTH_MAX: Final = 255
REQUEST_ID_LENGTH_MAX: Final = 128
AGGREGATE_KEY_LENGTH_MAX: Final = 64
SCOPE_LENGTH_MAX: Final = 64
TOKEN_LENGTH_MAX: Final = 128
REFERENCE_LENGTH_MAX: Final = 64  # a merchant's own name of a payment
EMAIL_LENGTH_MAX: Final = 254  # RFC 5321, section 4.5.3.1.3, without its brackets
STATEMENT_DESCRIPTOR_LENGTH_MAX: Final = 22  # what card networks print
METADATA_KEYS_MAX: Final = 50
METADATA_KEY_LENGTH_MAX: Final = 40
METADATA_VALUE_LENGTH_MAX: Final = 500
TEXT_LENGTH_MAX: Final = 500

# --- social posts ----------------------------------------------------------------------------------------
POST_TEXT_LENGTH_MAX: Final = 5_000
POST_MEDIA_MAX: Final = 4
POST_MENTIONS_MAX: Final = 20  # users that one post tells
DISPLAY_NAME_LENGTH_MAX: Final = 100
HOME_POSTS_MAX: Final = 800  # so far back goes a home
BACKFILL_POSTS_MAX: Final = 100  # of an author, when somebody begins to follow
PUSH_FOLLOWERS_MAX: Final = 500  # of a pushed author; above, readers pull its posts; below half of it, no more
FANOUT_CHUNK_FOLLOWERS: Final = 1_000
FANOUT_AUTHORS_AT_ONCE: Final = 50  # whose next followers one statement reads
HOME_DELIVERIES_AT_ONCE: Final = 2_000  # of one call of Valkey, 5 to 10 ms in which it serves nobody else
HOME_DELIVERIES_SENT_MAX: Final = 20_000  # before their answers are read, well within HOME_TIMEOUT_MS
HOME_TIMEOUT_MS: Final = 1_000  # of the store of homes; without it readers pull
HOME_EQUAL_TIMES: Final = 16  # posts of one microsecond that a page may begin among
HOME_STREAM_INTERVAL_S: Final = 1.0  # between two looks at a home for one stream
HOME_TTL_S: Final = 14 * 86_400  # of a home that nobody reads
TIMELINE_MARGIN: Final = 20  # posts that are examined beyond those that a page has room for
SEARCH_TEXT_LENGTH_MAX: Final = 200
TIMELINE_ROUNDS_MAX: Final = 5  # then the page is short

# --- ingress ---------------------------------------------------------------------------------------------
BODY_BYTES_MAX: Final = 64 * 1024  # one command
COMMANDS_BODY_BYTES_MAX: Final = 2 * 1024 * 1024  # one NDJSON request
COMMANDS_LINES_MAX: Final = 2_000
JSON_DEPTH_MAX: Final = 32
HEADERS_MAX: Final = 64
HEADERS_READ_TIMEOUT_MS: Final = 10_000  # for the header fields of a request; past it the line is cut
RESULT_WAIT_DEFAULT_S: Final = 10
RESULT_WAIT_MAX_S: Final = 30
RESULT_STORE_POLL_FIRST_MS: Final = 250  # the stored result is the truth that a lost reply falls back to
RESULT_STORE_POLL_SLOW_MS: Final = 2_000  # the first time while decisions of other commands come
RESULT_STORE_POLL_MAX_MS: Final = 2_000
RESULTS_SILENT_MAX_S: Final = 30.0  # without a question to Kafka: then the reader of results is dead or hangs
COMMANDS_IN_FLIGHT_MAX: Final = 20_000  # per ingress process; past it 503 overloaded
PAGE_LIMIT_DEFAULT: Final = 20
PAGE_LIMIT_MAX: Final = 100
LIST_PASSED_MAX: Final = 20_000  # that a page of a filtered list looks at: some tens of milliseconds of the database
METADATA_FILTERS_MAX: Final = 5
EVENTS_PAGE_LIMIT_MAX: Final = 500
EVENT_STREAMS_MAX: Final = 500  # open SSE streams of one ingress process
EVENT_STREAMS_OF_CALLER_MAX: Final = 100  # of those
RESOURCE_WAITS_OF_CALLER_MAX: Final = 256  # long polls for one kind of object; past it the answer comes at once
REQUESTS_OF_CALLER_MAX: Final = 1_024  # under way in one process: half of what it takes
REQUESTS_OF_STRANGERS_MAX: Final = 512  # of all who show no token, processors' webhooks and sign-ins among them
REQUESTS_OF_ADDRESS_MAX: Final = 256  # of those, from one address
AUDIT_REFUSALS_WINDOW_S: Final = 60.0
AUDIT_REFUSALS_EACH_MAX: Final = 10  # rows of one person and action in that time; all further are one row
AUDIT_REFUSALS_KEYS_MAX: Final = 1_000  # persons and actions told apart
EVENT_POLL_INTERVAL_MS: Final = 100
EVENT_STREAM_HEARTBEAT_S: Final = 15
RESOURCE_POLL_INTERVAL_MS: Final = 25
TOKEN_TTL_DEFAULT_S: Final = 3_600
TOKEN_TTL_MAX_S: Final = 86_400
JWKS_STALE_MAX_S: Final = 3_600
CLOCK_SKEW_MAX_S: Final = 30
INGRESS_POSTGRES_POOL_MAX: Final = 8
POSTGRES_CONNECT_TIMEOUT_S: Final = 5
POSTGRES_RECONNECT_S: Final = 2  # a pool's growing pauses begin anew then: so late it may see that Postgres is back
POSTGRES_STATEMENT_TIMEOUT_MS: Final = 10_000

# --- owner -----------------------------------------------------------------------------------------------
BATCH_MESSAGES_MAX: Final = 2_000
BATCH_BYTES_MAX: Final = 4 * 1024 * 1024
BATCH_POLL_TIMEOUT_MS: Final = 20
OWNER_IDLE_WAIT_MS: Final = 200  # of a lane or the reader while nothing comes and nothing is left to acknowledge
BATCHES_AHEAD_MAX: Final = 6  # full ones, decoded while Postgres works on the ones before
ROUND_MESSAGES_ENOUGH: Final = 500  # with so many commands a round takes no further partition, and waits for none
ROUND_GATHER_MS: Final = 5  # the longest that fewer wait for others while another lane is at work
TURN_UNITS: Final = 16  # of a caller, where callers take turns: a command is one, and each KiB of it
TURNS_OF_CALLER_UNITS_MAX: Final = 64  # in one round, while others have commands, too
TURNS_OF_NOISY_UNITS_MAX: Final = 16  # the same of a caller that was found to be noisy
TURNS_ROUND_UNITS: Final = 500  # of one partition
NOISE_WINDOW_S: Final = 10.0
NOISE_SHARE_MIN: Final = 0.2  # of what was done: below it nobody is noisy
NOISE_SHARE_MAX: Final = 0.5  # and above it whoever has commands left
NOISE_FAIR_SHARES: Final = 3  # between the two: so many fair shares
NOISE_AGAIN_S: Final = 600  # windows further apart are not of one occasion
NOISE_MOVE_WINDOWS: Final = 3  # of one occasion: then a move is proposed
PREFETCH_KBYTES_MAX: Final = 16_384
PUBLISH_BACKLOG_MAX: Final = 20_000  # committed, not yet acknowledged events of one process: past it, stop reading
PUBLISH_RESUME_CHUNK: Final = 2_000  # outbox rows read at once after a take-over
OWNER_SESSION_TIMEOUT_MS: Final = 6_000
OWNER_HEARTBEAT_MS: Final = 1_000
OWNER_JOIN_TIMEOUT_S: Final = 60.0  # outside its consumer group for so long, an owner starts over with a new consumer
OWNER_RETRY_MAX: Final = 1  # retries of a whole batch before it is bisected
OWNER_DATABASE_BACKOFF_MAX_MS: Final = 2_000
OWNER_STATEMENT_TIMEOUT_MS: Final = 15_000  # also the longest wait for the lock of the owner before us
OWNER_DRAIN_TIMEOUT_S: Final = 10
OWNER_TRANSACTION_TIMEOUT_MS: Final = 5_000

# --- tenants ---------------------------------------------------------------------------------------------
TENANCY_PARTITIONS: Final = 8
TENANT_NAME_LENGTH_MAX: Final = 200
TIME_ZONE_LENGTH_MAX: Final = 64
DIMENSION_LENGTH_MAX: Final = 64
DIMENSIONS_MAX: Final = 100  # with a limit or a price, of one tenant
ENTITLEMENT_LENGTH_MAX: Final = 100  # of a value that is a text
PRICE_DIGITS_MAX: Final = 12  # before the point, and behind it
PRICE_TIERS_MAX: Final = 20  # of one price
PRICES_READ_MAX: Final = 1_000  # prices with tiers that a process keeps read
RESOURCE_BYTES_MAX: Final = 32 * 1024  # a payload as its caller wrote it
SEALED_LENGTH_MAX: Final = 48 * 1024  # the same, sealed, as text
MOVE_ROWS_PER_SECOND_MAX: Final = 100_000
TENANTS_CACHED_S: Final = 1  # what the ingress knows of a tenant is no older; the owner decides all the same
TENANTS_CACHED_MAX: Final = 20_000  # of one ingress process
MOVE_PAGE_ROWS: Final = 500  # copied, compared, applied or removed at once
MOVE_DIGEST_ROWS: Final = 20_000  # compared at once by their sums
MOVE_PAGES_PER_SECOND: Final = 4  # of a copy that is bounded
MOVE_FENCE_S: Final = 20  # a fence that is not committed by then is given up
MOVE_CATCH_UP_ROWS_MAX: Final = 200  # images on their way when a move begins to verify, and when it fences
MOVE_SOAK_S: Final = 86_400
MOVE_PASSES_MAX: Final = 20  # comparisons of a whole tenant before its fence; then the move is given up
MOVER_ITEMS_MAX: Final = 50  # of one kind, before the next kind has its turn
MOVER_IDLE_MS: Final = 50
MOVER_IDLE_MAX_MS: Final = 400  # while nothing waits for long
MOVER_RETRY_S: Final = 1
MOVER_STATEMENT_TIMEOUT_MS: Final = 30_000
EXPORT_PAGE_ROWS: Final = 500
SHRED_CERTIFIED_AFTER_S: Final = 5  # by then no process has a key of what was shredded
SHRED_SAMPLE_ROWS: Final = 20
DEDICATED_POOL_MAX: Final = 2  # connections of one ingress process to one dedicated database
DEDICATED_STORES_MAX: Final = 20  # dedicated databases that it is connected to at once
TENANTS_LISTED_MAX: Final = 100  # by a command
TENANT_CONTEXT_TTL_S: Final = 60  # of a signed context: a transaction lasts no longer
DUAL_READS_UNDER_WAY_MAX: Final = 16  # of one ingress process; reads beyond are not compared
TENANT_READ_TRIES_MAX: Final = 4  # a read that meets a move on its way looks again

# --- processor attempts ----------------------------------------------------------------------------------
ATTEMPT_LEASE_MS: Final = (
    10_000  # more than a query and a send that both time out; a killed worker's attempts wait so long
)
ATTEMPT_CALL_TIMEOUT_MS: Final = 3_000  # a payer waits: past it the outcome is unknown and asked for after 2 s
ATTEMPT_CALLS_IN_FLIGHT_MAX: Final = 128  # bulkhead of one worker process and processor
ATTEMPT_POLL_SCHEDULE_S: Final = (
    2,
    10,
    60,
    300,
    3_600,
    *(86_400,) * 5,
)  # reference: seconds first, then days

# --- processor simulator (an outside system: it imports this module and nothing else of ours) ---------------
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

# --- Kafka clients ---------------------------------------------------------------------------------------
KAFKA_DELIVERY_TIMEOUT_MS: Final = 30_000
KAFKA_PRODUCER_QUEUE_MAX: Final = 200_000
KAFKA_FETCH_WAIT_MS: Final = 500  # an idle fetch parks at the broker so long; records end it at once
KAFKA_ADMIN_TIMEOUT_S: Final = 10
KAFKA_TOPICS_TIMEOUT_S: Final = 60  # until a new topic has leaders, on a machine that starts everything at once

# --- embedded stack, supervisor and CLI ------------------------------------------------------------------
HOME_FREE_BYTES_MIN: Final = 2 * 1024**3  # less than this on the home's disk and nothing is started
SERVER_START_TIMEOUT_S: Final = 60
SERVER_RECOVERY_TIMEOUT_S: Final = 900  # after a kill: who ends a recovery because it is slow begins it anew for ever
SERVICE_START_TIMEOUT_S: Final = 60
STACK_START_TIMEOUT_S: Final = 180  # cold: Kafka's jars are fetched first
HEALTH_POLL_INTERVAL_S: Final = 0.05
HEALTH_CHECK_TIMEOUT_S: Final = 2
SUPERVISOR_TICK_S: Final = 0.2
GUARD_READ_BYTES_MAX: Final = 64 * 1024
FORK_TIMEOUT_S: Final = 60  # of the first fork: modules are imported before it
FORK_ORDER_BYTES_MAX: Final = 192 * 1024  # the command and environment of a process; a longer one is executed
FORK_ANSWER_BYTES_MAX: Final = 32
FORK_DESCRIPTORS_MAX: Final = 16
SERVICE_STOP_TIMEOUT_S: Final = 15  # a draining service, then KILL
SERVER_STOP_TIMEOUT_S: Final = 20
STACK_STOP_TIMEOUT_S: Final = 60
RESTART_BACKOFF_FIRST_S: Final = 0.5
RESTART_BACKOFF_MAX_S: Final = 5
RESTARTS_PER_MINUTE_MAX: Final = 10  # past it a process is started at the slowest pace
FIRST_START_KILLED_MAX: Final = 3  # how often a process that a signal ends at its first start is started again
RESTART_PAUSE_S: Final = 15  # and this is the slowest pace
BACKGROUND_NICENESS: Final = 5  # a third of a core against one who is waited for, and all that is left over
LIVENESS_INTERVAL_S: Final = 10  # how often a service that serves is asked whether it lives
LIVENESS_AGAIN_S: Final = 3  # after a question without an answer
LIVENESS_SILENCES_MAX: Final = 6  # in a row, then it is killed and started again: 25 to 40 s after it froze
DISK_RESERVE_BYTES: Final = 256 * 1024**2  # given back to a disk that is full, so that servers can end what they write
DISK_LOOK_INTERVAL_S: Final = 2
INGRESS_PROCESSES_MAX: Final = 32
OWNER_PROCESSES_MAX: Final = 32
LOG_BYTES_MAX: Final = 64 * 1024 * 1024  # a log file is turned over at start past this
LOG_TAIL_LINES_DEFAULT: Final = 50
LOG_TAIL_BYTES_MAX: Final = 1024 * 1024
KAFKA_HEAP_MEGABYTES_MAX: Final = 512
KAFKA_ARCHIVE_TIMEOUT_S: Final = 90  # Java writes the archive of Kafka's classes, once for a user
KAFKA_MESSAGE_BYTES_MAX: Final = 8 * 1024 * 1024
KAFKA_SESSION_TIMEOUT_MS_MIN: Final = 3_000
POSTGRES_ROLE_TRIES_MAX: Final = 5  # installations on one server may alter its roles at once
POSTGRES_CONNECTIONS_MAX: Final = 300
REDIS_DATABASES: Final = 256  # installations that share one server have a database each
REDIS_MEMORY_BYTES_MAX: Final = 512 * 1024 * 1024

# --- the ClickHouse front --------------------------------------------------------------------------------
CLICKHOUSE_CLIENTS_MAX: Final = 256  # open HTTP connections; past it the kernel's backlog holds them
CLICKHOUSE_QUERIES_MAX: Final = 16  # running at once; the rest wait
CLICKHOUSE_QUERY_WAIT_MAX_S: Final = 60  # for a free place among them, then error 202
CLICKHOUSE_QUERY_BYTES_MAX: Final = 1024 * 1024  # SQL text without an INSERT's data
CLICKHOUSE_BODY_BYTES_MAX: Final = 1024 * 1024 * 1024  # after decompression
CLICKHOUSE_SPOOL_MEMORY_BYTES_MAX: Final = 8 * 1024 * 1024  # of one request; past it the body goes to disk
CLICKHOUSE_MEMORY_BYTES_MAX: Final = 4 * 1024**3  # of one query
CLICKHOUSE_EXECUTION_TIME_MAX_S: Final = 300
CLICKHOUSE_IDLE_TIMEOUT_S: Final = 60  # of a kept-alive connection
CLICKHOUSE_CHUNK_BYTES: Final = 256 * 1024
POSTGRES_KEEPALIVE_S: Final = 5

# --- publishing and replies of an owner ------------------------------------------------------------------
RESULTS_PER_RECORD_MAX: Final = 400
RESULT_RECORD_BYTES_MAX: Final = 512 * 1024
PUBLISH_DRAIN_TIMEOUT_S: Final = 5
PUBLISH_MARK_INTERVAL_MS: Final = 500  # between two looks for positions that no claim has carried yet: each is a commit
DEAD_LETTERS_RESUME_MAX: Final = 500
PUBLISH_AGAIN_INTERVAL_S: Final = 1.0  # after Kafka has refused an event: then its partition is published again

# --- ingress, further ------------------------------------------------------------------------------------
BODY_DRAIN_BYTES_MAX: Final = 16 * 1024 * 1024  # read and dropped so that a refusal is heard; past it the line is cut
BODY_DRAIN_S: Final = 5.0
BODY_READ_S: Final = 60.0  # for a body to come, from the first look at it; two megabytes at half a megabit
EXPECTED_VERSION_MAX: Final = 2**53 - 1
DEADLINE_MS_MAX: Final = 3_600_000
DEADLINE_GRACE_MS: Final = 250  # a wait that ends with the deadline still hears "expired"
DEADLINE_SETTLED_S: Final = 60  # past a deadline by this, an owner can neither start nor finish the command
PREFER_LENGTH_MAX: Final = 256
QUERY_TEXT_LENGTH_MAX: Final = 1_024  # cursors
RETRY_AFTER_S: Final = 1
ACK_WAIT_MAX_S: Final = 5  # for Kafka's acks=all; past it 503, and the same identity finds out
INGRESS_DELIVERY_TIMEOUT_MS: Final = 10_000
INGRESS_LINGER_MS: Final = 1  # the lines of a list share requests to Kafka, at a millisecond of latency
LISTEN_POLL_INTERVAL_S: Final = 0.01
COMMANDS_IN_FLIGHT_BULK_MAX: Final = 18_000  # bulk work is shed before single commands
COMMANDS_IN_FLIGHT_MERCHANT_MAX: Final = 10_000  # past it 429: one merchant cannot starve the others
EVENTS_PAGE_LIMIT_DEFAULT: Final = 100
RESULTS_FETCH_WAIT_MS: Final = 5_000  # one partition, for good: no fetch under way ever delays another one
RESULT_RECORDS_READ_MAX: Final = 500
STORED_LOOKUPS_MAX: Final = 4_000  # identities asked for in one query
STORED_LOOKUPS_RUNNING_MAX: Final = 4  # such queries at once
COMMANDS_PER_TURN: Final = 100  # lines of a long list that are worked on before others get their turn
ACCEPTED_NOTES_MAX: Final = 2_000  # of one insert
ACCEPTED_REMEMBERED_MAX: Final = 50_000  # requests answered 202 that one process keeps in mind
ACCEPTED_RETENTION_S: Final = 7 * 86_400
ACCEPTED_CLEANING_INTERVAL_S: Final = 3_600
STORE_POOL_WAIT_S: Final = 2
STORE_RETRY_MAX: Final = 1
STORE_RETRY_BACKOFF_MS: Final = 50
BREAKER_FAILURES_MAX: Final = 5
BREAKER_OPEN_S: Final = 1
TOKEN_BYTES_MAX: Final = 8_192
TOKENS_CACHED_MAX: Final = 4_096
JWKS_BYTES_MAX: Final = 256 * 1024
JWKS_KEYS_MAX: Final = 64
JWKS_REFRESH_S: Final = 60
JWKS_REFRESH_COOLDOWN_S: Final = 5  # unknown key ids cannot make us hammer the issuer
JWKS_TIMEOUT_S: Final = 3
INGRESS_CONNECTIONS_MAX: Final = 2_048  # requests under way in one process
INGRESS_DRAIN_TIMEOUT_S: Final = 10
INGRESS_DRAIN_ACKNOWLEDGED_S: Final = 5  # for Kafka to acknowledge what a draining process has sent
READY_CACHE_MS: Final = 500
OWNERSHIP_LOOK_INTERVAL_S: Final = 2.0  # between two questions who owns what
OWNERSHIP_WAIT_S: Final = 1.0  # for Kafka's answer to one
READY_PROBE_TIMEOUT_S: Final = 1.5  # less than HEALTH_CHECK_TIMEOUT_S, so that who asks hears the reason

# --- client ----------------------------------------------------------------------------------------------
CLIENT_TRIES_MAX: Final = 12  # with their pauses about 15 s: longer than a restart of a service
CLIENT_BACKOFF_FIRST_MS: Final = 50
CLIENT_BACKOFF_MAX_MS: Final = 3_000
CLIENT_CONNECT_TIMEOUT_S: Final = 5
CLIENT_READ_SLACK_S: Final = 5  # a read may last the asked wait and this much more
CLIENT_CONNECTIONS_MAX: Final = 256
CLIENT_SEEN_EVENTS_MAX: Final = 10_000  # event ids remembered against repetition

# --- processor attempts: the worker's loops and its HTTP connections -----------------------------------------
ATTEMPT_EVENTS_BATCH_MAX: Final = 500  # events of one poll, written in one statement
ATTEMPT_FETCH_BYTES_MIN: Final = 16 * 1024  # or what came within the wait: one fetch for many events
ATTEMPT_FETCH_WAIT_MS: Final = (
    100  # a payer waits, but not for this alone; each is a fetch and a commit, also when idle
)
ATTEMPT_EVENTS_POLL_MS: Final = 200
STREAM_STORE_INTERVAL_S: Final = 1  # a follower stores positions that often; killed in between, it reads so much again
STREAM_JOIN_AGAIN_S: Final = 0.5  # after Kafka or Postgres failed it, or it was fenced
WORKER_EVENTS_MAX: Final = 500  # of one reading of a service's worker
WORKER_FETCH_WAIT_MS: Final = 500  # an idle fetch parks at the broker so long; records end it at once
WORKER_POLL_MS: Final = 200
ATTEMPT_SWEEP_INTERVAL_MS: Final = 250
ATTEMPT_IDLE_AFTER_S: Final = 10  # nothing to carry out for so long; sweeps are then as rare as this:
ATTEMPT_SWEEP_IDLE_INTERVAL_MS: Final = 1_000
ATTEMPT_RECORD_INTERVAL_MS: Final = 100
ATTEMPT_REPORTED_AFTER_MS: Final = 300  # a fact whose event is back by then needs no 'reported' in between
ATTEMPT_RECORD_BATCH_MAX: Final = 1_000
ATTEMPT_REPEAT_INTERVAL_MS: Final = 1_000  # how often unconfirmed facts are looked for
ATTEMPT_REPEAT_BATCH_MAX: Final = 200
ATTEMPT_CONFIRM_SCHEDULE_S: Final = (
    15,
    30,
    60,
    120,
    *(300,) * 12,
)  # a fact's event is back by then, or it is repeated
ATTEMPT_RETRY_FIRST_MS: Final = 100  # after a call that proved not executed
ATTEMPT_RETRY_MAX_MS: Final = 10_000
ATTEMPT_UNREACHABLE_MAX_S: Final = 900  # never sent for so long: the attempt has failed, the payer may try again
ATTEMPT_CONNECT_TIMEOUT_MS: Final = 1_000
ATTEMPT_CONNECTION_IDLE_S: Final = (
    30  # an older idle connection is closed, not reused: the processor may have dropped it
)
ATTEMPT_ANSWER_BYTES_MAX: Final = 64 * 1024
ATTEMPT_BREAKER_FAILURES: Final = 20  # outages in a row until the processor is left alone
ATTEMPT_BREAKER_OUTAGES_MIN: Final = 3  # or so many, when nothing was answered for so long: one payment alone finds out
ATTEMPT_BREAKER_SILENT_MS: Final = 1_500
ATTEMPT_BREAKER_OPEN_MS: Final = 1_000  # then one call probes it
ATTEMPT_POSTGRES_POOL_MAX: Final = 4
ATTEMPT_POSTGRES_BACKOFF_MAX_MS: Final = 2_000
ATTEMPT_STATEMENT_TIMEOUT_MS: Final = 10_000
ATTEMPT_PRODUCER_POLL_MS: Final = 100
ATTEMPT_PRODUCER_FULL_WAIT_MS: Final = 20
ATTEMPT_DRAIN_TIMEOUT_S: Final = 8  # calls in flight end by themselves before: a query and a send time out after 6 s

# --- ClickHouse sink, check and replay ---------------------------------------------------------------------
CLICKHOUSE_CONNECT_TIMEOUT_S: Final = 5
CLICKHOUSE_STATEMENT_TIMEOUT_S: Final = 60
SINK_BLOCK_EVENTS_MAX: Final = 10_000  # of one group commit
SINK_BLOCK_INTERVAL_MS: Final = 500  # a smaller block is inserted after this
SINK_FETCH_BYTES_MIN: Final = 64 * 1024  # or what came within the block's interval
SINK_READ_MESSAGES_MAX: Final = 1_000
SINK_READ_TIMEOUT_MS: Final = 50
SINK_RECOVERY_READ_TIMEOUT_S: Final = 30  # for the records of a plan, which lie in Kafka already
SINK_HEARTBEAT_MS: Final = 1_000
SINK_LEASE_MS: Final = 5_000  # a holder that did not say a word for so long has lost the sink
SINK_CLAIM_POLL_MS: Final = 250
SINK_BACKOFF_FIRST_MS: Final = 100
SINK_BACKOFF_MAX_MS: Final = 2_000
SINK_PLAN_AGE_MAX_S: Final = 3  # an older plan is not inserted before the fence is read again
SINK_PLANS_KEPT: Final = 10_000  # inserted plans kept for the operator
SINK_PLANS_PRUNE_EVERY: Final = 500
CHECK_SAMPLE_MAX: Final = 5  # violating rows shown per invariant unless all are asked for
CHECK_STATEMENT_TIMEOUT_MS: Final = 600_000
CHECK_SINK_WAIT_S: Final = 10  # for ClickHouse to reach the outbox's end of the snapshot
CHECK_POLL_MS: Final = 100
CHECK_KAFKA_READ_TIMEOUT_S: Final = 120  # without a single new record
CHECK_FETCH_ROWS: Final = 5_000
CHECK_BOOK_TIMEOUT_S: Final = 60
CHECK_ACKNOWLEDGED_CHUNK: Final = 50_000  # each costs one pass over the outbox
REPLAY_CHUNK_EVENTS: Final = 10_000
REPLAY_DIFFERENCES_SHOWN_MAX: Final = 20
REPLAY_HOLD_WAIT_S: Final = 30  # for a running sink to let go before a swap
CHECKPOINTS_LISTED_MAX: Final = 100
PARKED_LISTED_MAX: Final = 200
MONEY_PROPOSALS_LISTED_MAX: Final = 200
POLICIES_PROPOSED_MAX: Final = 50  # listed of one kind
ATTEMPT_BACKLOG_INTERVAL_S: Final = 5  # how often the backlog is measured
HALTED_POLL_INTERVAL_S: Final = 1
PRODUCER_NAME_LENGTH_MAX: Final = 40
SENDERS_LOOK_INTERVAL_S: Final = 1.0  # within which a producer that was removed is not taken any more
REFUSED_RECORDS_KEPT_MAX: Final = 1_000  # of a partition; what is refused after that is only counted
REFUSED_RECORD_BYTES_MAX: Final = 4_096  # that are kept of each
TOPIC_WATCH_INTERVAL_S: Final = 10  # between two looks whether the command topic still holds what is read next

# --- demo and the HTTP benchmark ---------------------------------------------------------------------------
DEMO_INVOICES_MAX: Final = 200_000  # of one file; its plan is held in memory
DEMO_INVOICE_COUNT: Final = 250  # made when no file is given
DEMO_RATE_PER_S: Final = 30.0  # payments started per second when no rate is given
DEMO_RATE_MAX_PER_S: Final = 2_000.0
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
BENCH_WARM_UP_S: Final = 8.0  # before anything is counted; the JVM compiles for so long
BENCH_CLOSED_WARM_UP_S: Final = 2.0
BENCH_IDLE_SETTLE_S: Final = 3  # after its start a stack is not idle yet
BENCH_IDLE_S: Final = 5
BENCH_LATENCY_MAX_US: Final = 120_000_000  # past it a latency is counted as this
BENCH_REPEATS_MAX: Final = 3  # of a request whose connection was lost; the identity is the same
BENCH_SAMPLE_MAX: Final = 20_000  # commands whose stages are looked up
BENCH_DRAIN_WAIT_S: Final = 120  # for the attempts of one run to come to their end before the next
KAFKA_RECONNECT_BACKOFF_MAX_MS: Final = 1_000

# --- owner, further --------------------------------------------------------------------------------------
OWNER_LANES: Final = 2  # batches of different partitions that one process has in work at once
OWNER_COLLECT_ALLOCATIONS: Final = 500_000  # container objects that came and stayed between two collections
OWNER_COLLECT_GENERATIONS: Final = 20
PAYMENTS_REMEMBERED_MAX: Final = 4_096  # payments under way that an owner keeps in mind, per partition; about 2 KB each
BENCH_OWNER_COMMANDS_DEFAULT: Final = 120_000
BENCH_OWNER_COMMANDS_MAX: Final = 5_000_000
BENCH_OWNER_RATE_PER_S: Final = 500.0  # of the latency measurement
BENCH_REPEATS_OF_RUN_MAX: Final = 20

# --- payments in full --------------------------------------------------------------------------------------
JOURNAL_ENTRIES_MAX: Final = 32  # lines of one ledger transaction without a payment

# --- webhooks of processors --------------------------------------------------------------------------------
WEBHOOK_BODY_BYTES_MAX: Final = 256 * 1024
WEBHOOK_TOLERANCE_S: Final = 300  # a signature older or newer than this is no signature: replays end here
WEBHOOK_HEADER_BYTES_MAX: Final = 4_096  # of a signature header
WEBHOOK_SIGNATURES_MAX: Final = 16  # in one header: a rotation has two
WEBHOOK_SECRET_BYTES_MIN: Final = 16
WEBHOOK_ITEMS_MAX: Final = 100  # notifications of one batch
WEBHOOK_EVENT_ID_LENGTH_MAX: Final = 200
WEBHOOK_EVENT_TYPE_LENGTH_MAX: Final = 100
WEBHOOK_REFERENCE_LENGTH_MAX: Final = 200
WEBHOOK_REQUESTS_PER_COMMIT_MAX: Final = 100
WEBHOOK_COMMITS_RUNNING_MAX: Final = 2  # of one ingress process
WEBHOOK_CLAIM_MAX: Final = 200  # events of one round of the worker
WEBHOOK_ROUND_INTERVAL_MS: Final = 100  # between looks at an empty inbox
WEBHOOK_IDLE_AFTER_S: Final = 5  # without a webhook; then it is looked at as often as this:
WEBHOOK_ROUND_IDLE_INTERVAL_MS: Final = 250
WEBHOOK_RETRY_SCHEDULE_MS: Final = (300, 700, 1_500, 3_000, 6_000, 12_000, 30_000, 60_000)  # then every last one
WEBHOOK_PARKED_MAX_S: Final = 900  # an event whose attempt is not to be seen for so long is a person's
WEBHOOK_UNDECIDED_TRIES_MAX: Final = 20  # about a quarter of an hour: then a person hears of it too
WEBHOOK_FLUSH_TIMEOUT_S: Final = 10  # for Kafka's acks=all; what was not taken is told again
WEBHOOK_BACKLOG_INTERVAL_S: Final = 5
WEBHOOK_STATEMENT_TIMEOUT_MS: Final = 10_000
WEBHOOK_POSTGRES_BACKOFF_FIRST_MS: Final = 50
WEBHOOK_POSTGRES_BACKOFF_MAX_MS: Final = 2_000
WEBHOOK_BACKOFF_DOUBLINGS_MAX: Final = 6

# --- ingress: balances --------------------------------------------------------------------------------------
PAST_BALANCES_RUNNING_MAX: Final = 2  # of one process: sums over long histories leave connections to everybody else

# --- processor simulator: refunds, webhooks, disputes, settlements -----------------------------------------
SIMULATOR_REFUND_FAILS_AFTER_MS: Final = 2_000  # of the card whose refunds fail later
SIMULATOR_CLOCK_MS: Final = 250  # how often the book is asked for refunds whose time to fail has come
SIMULATOR_DUE_REFUNDS_MAX: Final = 500  # refunds that fail in one commit
SIMULATOR_DISPUTE_FEE_MINOR: Final = 1_500
SIMULATOR_FEE_BPS: Final = 60  # what it keeps of a capture, rounded half up
SIMULATOR_WEBHOOK_BATCH_MAX: Final = 64  # deliveries under way before what came of them is booked
SIMULATOR_WEBHOOK_LANES: Final = 4  # connections to the receiver; what is about one reference goes over one
SIMULATOR_WEBHOOK_TIMEOUT_S: Final = 5
SIMULATOR_WEBHOOK_ANSWER_BYTES_MAX: Final = 16 * 1024  # read of a receiver's answer, which says nothing to us
SIMULATOR_WEBHOOK_POLL_MS: Final = 250  # how often the outbox is looked at when nothing wakes the sender
SIMULATOR_WEBHOOK_BACKOFF_FIRST_MS: Final = 500  # after a refusal of one delivery; doubles
SIMULATOR_WEBHOOK_BACKOFF_MAX_MS: Final = 60_000
SIMULATOR_WEBHOOK_PAUSE_FIRST_MS: Final = 250  # after a receiver that cannot be reached at all; doubles
SIMULATOR_WEBHOOK_PAUSE_MAX_MS: Final = 4_000
SIMULATOR_WEBHOOK_AGE_MAX_S: Final = 3 * 86_400  # then a delivery is given up, and counted
SIMULATOR_WEBHOOK_STORM_COPIES: Final = 5
SIMULATOR_WEBHOOK_STORM_SPREAD_MS: Final = 1_500  # copies come within this, in any order
SIMULATOR_WEBHOOK_FIRST_WAIT_MS: Final = 2_500  # an answer waits for its webhook so long, less than a call's time-out
SIMULATOR_WEBHOOK_FIRST_POLL_MS: Final = 20
SIMULATOR_STOP_SENDER_S: Final = 2 * SIMULATOR_WEBHOOK_TIMEOUT_S
SIMULATOR_SETTLEMENT_FAULTS_MAX: Final = 1_000  # planted in one report
SIMULATOR_SETTLEMENT_BODY_BYTES_MAX: Final = 512 * 1024
SIMULATOR_SETTLEMENT_PAGE_LINES: Final = 5_000  # lines that a download holds in memory at once

# --- processor attempts: refunds, the vault's route, old rows ----------------------------------------------
ATTEMPT_DONE_KEPT_S: Final = 7 * 86_400  # finished dispatch rows; the attempt itself is kept for ever
ATTEMPT_PRUNE_INTERVAL_S: Final = 60
ATTEMPT_PRUNE_BATCH_MAX: Final = 1_000  # rows of one statement

# --- card vault --------------------------------------------------------------------------------------------
CARD_NUMBER_LENGTH_MAX: Final = 40  # as typed, with blanks and dashes
CARD_YEARS_AHEAD_MAX: Final = 50
VAULT_BODY_BYTES_MAX: Final = 4 * 1024  # of a card
VAULT_FORWARD_BODY_BYTES_MAX: Final = 64 * 1024
VAULT_ANSWER_BYTES_MAX: Final = 64 * 1024  # of a processor
VAULT_PATH_LENGTH_MAX: Final = 256
VAULT_CONNECTIONS_MAX: Final = 1_024  # requests under way in one process
VAULT_REQUESTS_OF_CALLER_MAX: Final = 512  # of those; our workers are one caller, with more than VAULT_FORWARDS_MAX
VAULT_REQUESTS_OF_STRANGERS_MAX: Final = 128  # of all who show no token
VAULT_REQUESTS_OF_ADDRESS_MAX: Final = 64  # of those, from one address
VAULT_FORWARDS_MAX: Final = 256  # calls to processors under way in one process; past it 503, nothing was sent
VAULT_FORWARD_TIMEOUT_MS: Final = 2_700  # within the worker's own wait for a call
VAULT_CONNECT_TIMEOUT_MS: Final = 1_000
VAULT_CONNECTION_IDLE_S: Final = 30
VAULT_POSTGRES_POOL_MAX: Final = 8
VAULT_STATEMENT_TIMEOUT_MS: Final = 2_000
VAULT_SEAL_TRIES_MAX: Final = 3  # a rotation may retire the key between sealing and storing
VAULT_KEYS_REFRESH_S: Final = 30  # how long a retired key stays in a process's memory
VAULT_KEYS_WAIT_S: Final = 0.5  # between two tries of a starting vault while Postgres is away
VAULT_PROCESSES_MAX: Final = 32
VAULT_SECRET_LENGTH_MIN: Final = 32
VAULT_ROTATION_STEP_CARDS: Final = 500  # re-wrapped in one transaction
VAULT_ROTATION_TIMEOUT_MS: Final = 60_000
OWN_TOKENS_LOOKUPS_MAX: Final = 2_000  # of one query of the ingress
OWN_TOKENS_LOOKUPS_RUNNING_MAX: Final = 2
OWN_TOKENS_CACHED_MAX: Final = 20_000
OWN_TOKENS_CACHED_S: Final = 30  # a deleted token may be taken for so long; its payment then fails at the vault

# --- settlement reconciliation -----------------------------------------------------------------------------
SETTLEMENT_LINE_BYTES_MAX: Final = 64 * 1024  # of one row of a report, quoted newlines included
SETTLEMENT_NAME_LENGTH_MAX: Final = 200  # of an identity in a report
SETTLEMENT_NAMES_MAX: Final = 100  # references and words of one bank entry
SETTLEMENT_TEXT_LENGTH_MAX: Final = 4_000  # of what stands on one bank entry in words
FEE_CONTRACTS_MAX: Final = 1_000  # of one published version
FEE_PROPOSAL_LINES_MAX: Final = 10_000  # of one scheme, tier and currency, that a proposal is made of
BANK_RULES_MAX: Final = 1_000  # of one published version
BANK_RULE_TEXT_LENGTH_MAX: Final = 140
SETTLEMENT_PARTS_MAX: Final = 1_000  # lines of one report that may together settle one movement
SETTLEMENT_BLOCK_BYTES: Final = 256 * 1024  # read of a file at once
SETTLEMENT_TOKEN_BYTES_MAX: Final = 64 * 1024  # of one text or tag of an XML file
SETTLEMENT_XML_DEPTH_MAX: Final = 40
SETTLEMENT_XML_NODES_MAX: Final = 100_000  # elements of one entry, and before the first statement
SETTLEMENT_STATEMENTS_MAX: Final = 10_000  # of one file
SETTLEMENT_FINDINGS_MAX: Final = 20  # told of one statement
SETTLEMENT_COPY_LINES: Final = 5_000  # held in memory between the database and a report
SETTLEMENT_DEFECTS_MAX: Final = 1_000  # unreadable lines of one report; past it the whole report is refused
SETTLEMENT_POLL_MS: Final = 50
SETTLEMENT_DECISION_WAIT_S: Final = 60  # without any decision of an owner; then the rest stays due for the next run
SETTLEMENT_LOCK_WAIT_S: Final = 120  # for another run to end
SETTLEMENT_STATEMENT_TIMEOUT_S: Final = 600
SETTLEMENT_WORK_MEM_MB: Final = 64
SETTLEMENT_FETCH_TIMEOUT_S: Final = 30  # without a byte
SETTLEMENT_REPORT_BYTES_MAX: Final = 8 * 1024**3
SETTLEMENT_HORIZON_DAYS: Final = 7  # money that moved longer ago stands in some report, or is a person's
SETTLEMENT_BACK_GRACE_DAYS: Final = 5  # until a refund or dispute that no report names is missing; within the horizon
SETTLEMENT_BANK_DAYS_MAX: Final = 5  # from the announcement of a payout to its day at the bank
SETTLEMENT_SHOWN_MAX: Final = 50  # discrepancies in the table for people

# --- check of refunds, disputes and events of processors ---------------------------------------------------
CHECK_EVENTS_GRACE_S: Final = 60  # how far a processor's events may lie behind before that is a gap
BENCH_SETTLEMENT_LINES_DEFAULT: Final = 1_000_000
BENCH_SETTLEMENT_LINES_MAX: Final = 10_000_000

# --- demo: one of each ------------------------------------------------------------------------------------
DEMO_ACT_WAIT_S: Final = 40  # for one step of an act to show
DEMO_SOCIAL_WAIT_S: Final = 90  # for homes, propagation and an erasure, beside everything else
DEMO_USERS: Final = 12  # of the social act

# --- repairs and audit -------------------------------------------------------------------------------------
REPAIR_NOTE_LENGTH_MAX: Final = 200  # with both names it fits into the note of a journal entry
REPAIR_PERSON_LENGTH_MAX: Final = 128  # a token's subject
REPAIR_POLL_MS: Final = 50
REPAIR_DECISION_WAIT_S: Final = 30  # for the owner; then the repair stays approved and is finished by the next run
REPAIRS_OF_CASE_MAX: Final = 100  # listed of one case
CASE_DECISION_WAIT_S: Final = 30  # of a shell, for the API
REPAIRS_LISTED_MAX: Final = 500
AUDIT_TEXT_LENGTH_MAX: Final = 200  # of an actor or object, as a stranger may have written it
AUDIT_FETCH_ROWS: Final = 2_000
AUDIT_LISTED_MAX: Final = 10_000
CASES_LISTED_MAX: Final = 500

# --- webhooks to merchants ---------------------------------------------------------------------------------
MERCHANT_WEBHOOK_URL_LENGTH_MAX: Final = 2_048
MERCHANT_WEBHOOK_PORT_MIN: Final = 1_024  # beside 80 and 443: below are mail, shells and directories
MERCHANT_WEBHOOK_ENDPOINTS_MAX: Final = 50  # of one merchant; each gets every event that it asked for
MERCHANT_WEBHOOK_SECRET_BYTES: Final = 32
MERCHANT_WEBHOOK_SECRET_OVERLAP_S: Final = 86_400  # a replaced secret still signs for so long
MERCHANT_WEBHOOK_SECRETS_MAX: Final = 5  # that sign at once: rotations within the overlap
MERCHANT_WEBHOOK_RETRY_SCHEDULE_S: Final = (0, 5, 300, 1_800, 7_200, 18_000, 36_000, *(50_400,) * 3)  # 2.5 days in all
MERCHANT_WEBHOOK_JITTER: Final = 0.1  # of a wait, either way: those that failed together do not come back together
MERCHANT_WEBHOOK_CONNECT_TIMEOUT_S: Final = 5
MERCHANT_WEBHOOK_SEND_TIMEOUT_S: Final = 15  # from the connection to the status; a dripping answer is cut
MERCHANT_WEBHOOK_LEASE_S: Final = 90  # longer than resolving and sending; a killed sender's deliveries wait so long
MERCHANT_WEBHOOK_ANSWER_BYTES_MAX: Final = 16 * 1024
MERCHANT_WEBHOOK_SENDS_MAX: Final = 32  # under way in one process
MERCHANT_WEBHOOK_SENDS_ENDPOINT_MAX: Final = 4  # claimed at once for one endpoint: a slow one leaves room for others
MERCHANT_WEBHOOK_CLAIM_INTERVAL_MS: Final = 200
MERCHANT_WEBHOOK_EVENTS_BATCH_MAX: Final = 500
MERCHANT_WEBHOOK_READ_TIMEOUT_MS: Final = 500
MERCHANT_WEBHOOK_POSTGRES_POOL_MAX: Final = 6
MERCHANT_WEBHOOK_STATEMENT_TIMEOUT_MS: Final = 10_000
MERCHANT_WEBHOOK_BACKOFF_MS: Final = 500  # when Postgres or Kafka is away
MERCHANT_WEBHOOK_KEPT_S: Final = 30 * 86_400  # finished deliveries in the log
MERCHANT_WEBHOOK_PRUNE_INTERVAL_S: Final = 60
MERCHANT_WEBHOOK_PRUNE_BATCH_MAX: Final = 1_000

# --- export of the ledger ----------------------------------------------------------------------------------
EXPORT_FETCH_ROWS: Final = 5_000  # in memory at once
EXPORT_STATEMENT_TIMEOUT_MS: Final = 600_000

# Policies of owners (risk rules, routing): how old they may be
POLICIES_REFRESH_S: Final = 1.0  # a published policy is in force everywhere within about this
POLICIES_READ_TIMEOUT_S: Final = 5.0
POLICIES_RECENT_S: Final = 2 * POLICIES_REFRESH_S  # older ones are read again before a partition is taken
SESSION_RETRY_S: Final = 1.0  # of background work, after Postgres went away
ROUND_TIMEOUT_S: Final = 5.0  # of a statement of what a process does again and again in the background
POLICIES_FIRST_WAIT_S: Final = 0.05  # how often a starting owner looks whether they were read

# --- operator console --------------------------------------------------------------------------------------
CONSOLE_SESSION_S: Final = 3_600  # or as long as the token that opened it, if that is shorter
CONSOLE_SIGN_INS_REFUSED_MAX: Final = 20  # told and audited by one process within the window; the rest is a 429
CONSOLE_SIGN_IN_WINDOW_S: Final = 60
CONSOLE_FORM_BYTES_MAX: Final = 16 * 1024
CONSOLE_FORM_FIELDS_MAX: Final = 20
CONSOLE_SEARCH_LENGTH_MAX: Final = 256
CONSOLE_HITS_MAX: Final = 100
CONSOLE_SCOPES_SEARCHED_MAX: Final = 2_000  # merchants and processors in which a bare idempotency key is looked up
CONSOLE_PROCESSORS_MAX: Final = 200  # and banks, in which an event or line is looked up
CONSOLE_STORY_ROWS_MAX: Final = 300  # of each kind on one timeline
CONSOLE_ROWS_MAX: Final = 100  # of one queue or list
CONSOLE_FEE_DAYS: Final = 30  # over which the fees of a merchant are added up
CONSOLE_COUNTED_MAX: Final = 20_000  # rows that a board or a rate looks at; past it the page says so
CONSOLE_USAGE_DAYS: Final = 30  # of a tenant's charts
CONSOLE_DIMENSIONS_MAX: Final = 12  # that have one
CONSOLE_ACCOUNTS_MAX: Final = 200  # of one page of the trial balance
CONSOLE_DOCUMENT_LENGTH_MAX: Final = 64 * 1024  # of a body that is shown
CONSOLE_LAG_WAIT_S: Final = 1.5  # for the ends of topics; then the page is shown without
CONSOLE_POSTGRES_POOL_MAX: Final = 4
CONSOLE_REFUSED_FACTS_MAX: Final = 1_000  # newest ones that the queue looks at
CONSOLE_STATIC_KEPT_S: Final = 300
CONSOLE_TOTALS_KEPT_S: Final = 15  # the trial balance on the overview

# --- pages of users ----------------------------------------------------------------------------------------
APP_SESSION_S: Final = 8 * 3_600  # or as long as the token that opened it, if that is shorter
APP_FORM_BYTES_MAX: Final = 64 * 1024  # a post's text, each character written as up to twelve
APP_FORM_FIELDS_MAX: Final = 20
APP_STATIC_KEPT_S: Final = 300

# --- processors: several of them, and how they are ------------------------------------------------------------
PROCESSORS_MAX: Final = 16  # each has connections, a bulkhead and a circuit breaker of its own in every worker
PROCESSOR_HEALTH_WINDOW_S: Final = 60
PROCESSOR_HEALTH_BUCKETS: Final = 12
PROCESSOR_HEALTH_INTERVAL_MS: Final = 1_000  # how often a worker tells what changed
PROCESSOR_HEALTH_KEPT_S: Final = 15  # what is older says nothing any more: told again well before, changed or not
PROCESSOR_HEALTH_REPEAT_S: Final = 5
ATTEMPT_UNAVAILABLE_AFTER_S: Final = (
    7  # never sent, and its processor silent for so long: failed; elsewhere within 10 s
)
ATTEMPT_GIVE_UP_BATCH_MAX: Final = 200
ATTEMPT_GIVE_UP_INTERVAL_S: Final = 5  # while its processor answers
STRIPE_IDENTITY_KEPT_S: Final = 23 * 3_600  # Stripe forgets an idempotency key after 24 h: then nothing is sent again

# --- hardening ---------------------------------------------------------------------------------------------
MERCHANT_WEBHOOK_SEAL_BATCH_MAX: Final = 500  # secrets that are sealed in one transaction

# --- forecasts of policies ---------------------------------------------------------------------------------
FORECAST_DAYS_DEFAULT: Final = 7.0
FORECAST_DAYS_MAX: Final = 366.0
FORECAST_RECORDS_MAX: Final = 1_000_000  # commands that one forecast reads
FORECAST_BATCH_MAX: Final = 500  # at once from Kafka, and then from Postgres
FORECAST_EXAMPLES_MAX: Final = 10  # payments named for each change

# --- soak --------------------------------------------------------------------------------------------------
SOAK_MINUTES_DEFAULT: Final = 3.0
SOAK_MINUTES_MAX: Final = 23 * 60.0  # a token lives for a day
SOAK_RATE_PER_S: Final = 3.0  # payments started per second; most of them are several commands
SOAK_RATE_MAX_PER_S: Final = 200.0
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
SOAK_SETTLEMENT_ROUNDS: Final = 3  # the last one when nothing is killed any more
SOAK_PROGRESS_INTERVAL_S: Final = 10
SOAK_PROBLEMS_SHOWN_MAX: Final = 20
SOAK_HISTORIES: Final = 3  # of social posts at once
SOAK_HISTORIES_MAX: Final = 50
SOAK_CHECKS_PER_S: Final = 250.0  # identities of the limiter's soak; each is asked for once or twice
SOAK_CHECKS_MAX_PER_S: Final = 5_000.0
SOAK_CHECKS_OPEN_MAX: Final = 2_000  # under way at once; past it the schedule waits
SOAK_CHECK_TIMEOUT_S: Final = 2.0  # for one answer of a gateway
SOAK_KILL_TAKES_S: Final = 0.5  # from its decision until the process is gone
SOAK_LEASES_CALM_S: Final = 10.0  # nothing is open for so long: charges that were told last have been looked at
REPAIR_LOOP_INTERVAL_S: Final = 5
REPAIR_LOOP_INTERVAL_MAX_S: Final = 60  # while owners do not decide
REPAIR_LOOP_GRACE_S: Final = 15  # the ingress that heard the approval waits for the owner itself
REPAIR_LOOP_DECISION_WAIT_S: Final = 3  # of one round; what is not decided then is sent again by the next
REPAIR_LOOP_STATEMENT_TIMEOUT_MS: Final = 10_000
#: for how long a processor may send an event again that it has no receipt for (their documentation; the longest counts)
PROVIDER_RETRY_HORIZON_S: Final = {
    "stripe": 3 * 86_400,
    "adyen": 30 * 86_400,
    "standard": 5 * 86_400,
    "simulator": SIMULATOR_WEBHOOK_AGE_MAX_S,
}
PROVIDER_EVENTS_KEPT_S: Final = 45 * 86_400  # after it was settled: longer than every horizon above, with room
PROVIDER_EVENTS_PRUNE_INTERVAL_S: Final = 60
PROVIDER_EVENTS_PRUNE_BATCH_MAX: Final = 1_000
PROVIDER_EVENTS_PRUNE_BATCHES_MAX: Final = 10  # in a row; what is left waits for the next time

# --- merchant accounts -------------------------------------------------------------------------------------
PAYOUT_DESTINATION_LENGTH_MAX: Final = 128  # the merchant's own name of its bank account
PAYOUT_HORIZON_DAYS: Final = 7  # a payout that is pending for longer gets a case
FX_RATE_DIGITS_MAX: Final = 12  # of an exchange rate, before the point and after it
REPORT_PAGE_LIMIT_DEFAULT: Final = 100
REPORT_PAGE_LIMIT_MAX: Final = 1_000
REPORT_DAYS_MAX: Final = 400  # between the two ends of a report
REPORT_CSV_ROWS_MAX: Final = 1_000_000  # of one file; the next one begins where it ended
REPORTS_RUNNING_MAX: Final = 4  # pages that one process reads at once; the others wait

# --- risk --------------------------------------------------------------------------------------------------
RISK_SCORE_MAX: Final = 100
IP_LENGTH_MAX: Final = 45
RISK_RULES_MAX: Final = 100
RISK_CONDITIONS_MAX: Final = 10  # of one rule
RISK_CHOICES_MAX: Final = 50  # currencies or networks of one condition
RISK_LISTS_MAX: Final = 20
RISK_LIST_ENTRIES_MAX: Final = 2_000
RISK_LIST_ENTRY_LENGTH_MAX: Final = 128
VELOCITY_WINDOW_S_MIN: Final = 10
VELOCITY_WINDOW_S_MAX: Final = 7 * 86_400
VELOCITY_COUNTERS_MAX: Final = 16  # that the rules of one policy need: what one confirm costs in Valkey
VELOCITY_BUCKETS: Final = 30  # of one window: a count looks back by the window and at most a thirtieth of it more
VELOCITY_IDENTITY_KEPT_S: Final = 3_600  # a confirm that is retried later, still undecided, counts once more
VELOCITY_TIMEOUT_MS: Final = 250  # then the confirm goes on without counts, and each rule says what that means
VELOCITY_CONNECTIONS_MAX: Final = 16  # of one ingress process
VELOCITY_PIPELINE_MAX: Final = 200  # confirms of one bulk request that are counted in one round trip
POLICY_BODY_BYTES_MAX: Final = 512 * 1024
POLICY_FAULTS_TOLD_MAX: Final = 50
POLICIES_PAGE_LIMIT_DEFAULT: Final = 10  # a version may be half a megabyte
POLICIES_PAGE_LIMIT_MAX: Final = 20
FEE_VERSIONS_READ_MAX: Final = 100  # for the terms of one merchant; the one in force is among the newest
POLICY_VERSION_MAX: Final = 10**9
RISK_ASSESSMENTS_LISTED_MAX: Final = 200
POLICY_ACTIVE_READ_S: Final = 1.0  # how often an ingress looks for policies that name its signals, and for maintenance
MAINTENANCE_RETRY_AFTER_S: Final = 30  # people work: nobody has to ask every second
CARD_SIGNALS_CACHED_S: Final = 600
CARD_SIGNALS_CACHED_MAX: Final = 20_000

# --- routing -----------------------------------------------------------------------------------------------
FEE_BPS_MAX: Final = 10_000
FEE_FIXED_MINOR_MAX: Final = 1_000_000_000  # of one capture
FEE_CURRENCIES_MAX: Final = 200
FEE_MERCHANTS_MAX: Final = 5_000  # with terms of their own
FEE_LEAD_S: Final = 60  # from publication to force, as in policy_publish: by then every owner has read it

ROUTING_RULES_MAX: Final = 100
ROUTING_CANDIDATES_MAX: Final = 16  # of one rule
ROUTING_CHOICES_MAX: Final = 200  # values of one condition
ROUTING_NAME_LENGTH_MAX: Final = 64  # of a rule
ROUTING_WEIGHT_MAX: Final = 10_000
ROUTING_FAILOVERS_MAX: Final = 3  # of one confirm: each is another attempt
ROUTING_SAMPLE_DEFAULT: Final = 50  # outcomes of a processor within its window, before its rates count
ROUTING_SAMPLE_MAX: Final = 1_000_000
ROUTING_FAILURE_RATE_BPS_DEFAULT: Final = 2_000
ROUTE_LENGTH_MAX: Final = 200  # of the reason on an attempt

# --- the payer's actions, holds and evidence -----------------------------------------------------------------
REDIRECT_URL_LENGTH_MAX: Final = 2_048
TIME_US_MAX: Final = 253_402_300_799_999_999  # the end of the year 9999: later is no time that a store of ours holds
AUTHORIZATION_VALID_S: Final = 7 * 86_400  # a hold whose processor does not say when it ends
AUTHORIZATION_RELEASE_GRACE_S: Final = 10  # the processor's own word comes first
AUTHORIZATION_RELEASE_RETRY_S: Final = 3_600  # after the time of a hold, how often its release is asked for
AUTHORIZATION_RELEASE_TRIES_MAX: Final = 72  # then people have long had the case of the refused releases
AUTHORIZATION_RELEASE_BATCH_MAX: Final = 200
AUTHORIZATION_RELEASE_INTERVAL_S: Final = 1  # how often holds are looked for whose time is over
ATTEMPT_ACTION_POLL_S: Final = 60  # a payer is busy with the bank; a webhook tells sooner
ATTEMPT_ACTION_MAX_S: Final = 25 * 3_600  # longer than any processor waits for a payer; then a person looks
EVIDENCE_KINDS_MAX: Final = 20
EVIDENCE_KIND_LENGTH_MAX: Final = 40
EVIDENCE_TEXT_LENGTH_MAX: Final = 2_000
SIMULATOR_ACTION_MS: Final = 15 * 60_000  # how long it waits for a payer
SIMULATOR_AUTHORIZATION_MS: Final = 7 * 86_400_000
SIMULATOR_SHORT_AUTHORIZATION_MS: Final = 3_000  # of the card whose holds end soon
SIMULATOR_DUE_MAX: Final = 500  # actions and holds that end in one commit
# Rate limiter: policies
LIMIT_WINDOW_MS_MAX: Final = 366 * 24 * 3_600_000  # a year; in milliseconds as policies say it
LIMIT_SLOTS_MAX: Final = 60
LIMIT_FURTHER_LIMITS_MAX: Final = 3  # of one policy, beside its first
LIMIT_KEY_PART_LENGTH_MAX: Final = 1_024
LIMIT_PROXIES_MAX: Final = 16  # in a row, in front of an application
LIMIT_NETWORK_PREFIX_V4: Final = 24  # of the networks that counters are kept by, unless the policy says otherwise
LIMIT_NETWORK_PREFIX_V6: Final = 56  # what one customer of a provider gets
LIMIT_VERSIONS_SHOWN_MAX: Final = 100
LIMIT_USAGE_NETWORKS_MAX: Final = 50  # policies by network that a usage view names when no network is asked for
LIMIT_SNAPSHOT_POLL_S: Final = 0.4  # a published policy is in force on every gateway within 2 s: signed within this,
LIMIT_SNAPSHOT_FOLLOW_S: Final = 0.8  # and fetched within this
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
LIMIT_DECISIONS_IDLE_S: Final = 0.1  # between two looks at a ring that nobody has written for some time
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

# --- Batched binary CHECK frames (limiter/frames/frames.py)
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
BENCH_LIMITER_DECISIONS_DEFAULT: Final = 1_000_000
BENCH_LIMITER_DECISIONS_MAX: Final = 50_000_000
BENCH_OUTAGE_S: Final = 60.0  # of the broker
BENCH_OUTAGE_AROUND_S: Final = 5.0

# --- Quota lent to Envoys (limiter/edge/rlqs.py)
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
DEMO_LOG_LINES_MAX: Final = 200_000  # of an access log that is replayed
DEMO_LOG_LINES_GENERATED: Final = 10_000
DEMO_LOG_SECONDS: Final = 20  # a replay takes about so long when no speed is asked for
DEMO_LOG_SPEED_MAX: Final = 1_000_000
DEMO_LIMITER_LINES: Final = 800  # of the act in `make demo`: a few seconds, in which quotas run out
DEMO_LIMITER_SPEED: Final = 8_000
EXPANSIONS_MAX: Final = 10  # values of expand[] in one read

# --- Signed requests (schemas/http_signature.py, ingress/identity/signed_requests.py)
SIGNATURE_FIELD_LENGTH_MAX: Final = 4_096  # of Signature-Input and of Signature
SIGNATURES_MAX: Final = 4  # of one request: ours, and those of proxies and agents on the way
SIGNATURE_COMPONENTS_MAX: Final = 32
SIGNATURE_AGE_MAX_S: Final = 300  # after `created`; a retry later is signed again
SIGNING_KEYS_ACTIVE_MAX: Final = 10  # of one merchant at once
SIGNING_KEY_PEM_LENGTH_MAX: Final = 1_024
SIGNING_KEYS_CACHED_S: Final = 10  # a revoked key may be taken, and a requirement be unknown, for so long
SIGNING_KEYS_CACHED_MAX: Final = 20_000  # merchants of one ingress process
SIGNING_KEYS_ASKED_MAX: Final = 500  # merchants asked for in one query
SIGNING_KEYS_ASKED_RUNNING_MAX: Final = 2
SIGNING_KEYS_RELOAD_S: Final = 1  # an unknown key is looked for again that often: it may just have been registered
SIGNED_REQUESTS_SHOWN_MAX: Final = 500  # of one aggregate, by millrace audit signatures

# --- who asks for what -------------------------------------------------------------------------------------
ACCESS_WINDOW_S: Final = 60
ACCESS_MISSES_MAX: Final = 100  # different paths of one caller that lead nowhere: an id that was mistyped is one
ACCESS_OBJECTS_MAX: Final = 300  # different paths of one operator: a person does not read faster
ACCESS_MERCHANTS_MAX: Final = 50  # that one network speaks for
ACCESS_UNPROVEN_MAX: Final = 300  # answers 401 to one network
ACCESS_PREFIX_V4: Final = 24
ACCESS_PREFIX_V6: Final = 56
ACCESS_BITMAP_BYTES: Final = 512  # of one subject: 4,096 bits, enough for the bounds to be passed
ACCESS_SUBJECTS_MAX: Final = 20_000  # 10 MiB

# --- Usage of tenants (schemas/tenancy/usage_event.py, dataflows/tenancy/usage)
USAGE_EVENTS_MAX: Final = 1_000  # of one request
USAGE_BODY_BYTES_MAX: Final = 2 * 1024 * 1024  # of one request
USAGE_KEPT_S: Final = 400 * 86_400  # then a row is removed; the database says so itself (usage_remove)
USAGE_KEEPING_INTERVAL_S: Final = 600.0
USAGE_REMOVED_AT_ONCE: Final = 5_000
USAGE_TEXT_LENGTH_MAX: Final = 255  # of an id, a source or a subject
USAGE_DIMENSION_LENGTH_MAX: Final = 64
USAGE_AGE_MAX_S: Final = 35 * 86_400  # identities are remembered for longer, so what is older could be counted twice
USAGE_AHEAD_MAX_S: Final = 300
USAGE_ERRORS_MAX: Final = 100  # told of one request
USAGE_WINDOWS_MAX: Final = 10_000  # of one question
USAGE_ROWS_MAX: Final = 10_000  # of one answer
USAGE_SPAN_MAX_S: Final = 400 * 86_400  # of one question
USAGE_JUDGED_SLACK_S: Final = 86_400  # between the ingress, which judged, and the broker: what was taken counts
USAGE_BATCH_MAX: Final = 5_000  # records of one read
USAGE_POLL_S: Final = 0.1
USAGE_FEED_BLOCK_MAX: Final = 20_000  # rows of one block for ClickHouse
USAGE_FEED_POLL_S: Final = 0.25
USAGE_IN_FLIGHT_MAX: Final = 50_000  # events of one ingress process that Kafka has not acknowledged

# --- Support grants (dataflows/tenancy/domain/support_grant.py)
SUPPORT_GRANT_DEFAULT_S: Final = 1_800
SUPPORT_GRANT_MIN_S: Final = 5
SUPPORT_GRANT_MAX_S: Final = 14_400
SUPPORT_TOKEN_MAX_S: Final = 600  # of one token; the requester asks for another while the grant is active

# --- Billing of tenants
BILLING_PERIOD_AGE_MAX_S: Final = 360 * 86_400  # of where it begins: with the longest grace, its usage is still kept
BILLING_GRACE_MAX_S: Final = 35 * 86_400  # longer, no usage of the period is taken any more
#: how long after its instant usage may still be counted: taken in time, and for a week on its way through Kafka
USAGE_LATE_MAX_S: Final = USAGE_AGE_MAX_S + USAGE_JUDGED_SLACK_S + 9 * 86_400
BILLING_POLL_S: Final = 0.5
BILLING_RUNS_AT_ONCE: Final = 20

# --- The isolation monitor (compose/isolation)
ISOLATION_ROUND_S: Final = 10
ISOLATION_LOG_PART_BYTES: Final = 4 * 1024 * 1024  # read at once of a log
ISOLATION_STALE_S: Final = 30
ISOLATION_ANSWER_S: Final = 5  # a probe that is not answered by then is not carried out
ISOLATION_TOKEN_S: Final = 3_600
ISOLATION_NAMED_MAX: Final = 5  # of what a lint finds amiss
BENCH_TENANTS_DEFAULT: Final = 5_000
BENCH_TENANTS_MAX: Final = 1_000_000
BENCH_MOVE_ROWS_DEFAULT: Final = 50_000
BENCH_MOVE_ROWS_MAX: Final = 10_000_000
BENCH_TENANCY_WAIT_S: Final = 900.0  # for a hundred thousand tenants, or a million rows
BENCH_NOISY_TIMES: Final = 50  # what a noisy tenant sends, for one command of another
BENCH_QUIET_RATE_PER_S: Final = 8.0  # of each of the others
BENCH_USAGE_EVENTS_DEFAULT: Final = 200_000
BENCH_USAGE_EVENTS_MAX: Final = 10_000_000
BENCH_METERING_MAX_S: Final = 600.0  # until all of them are in ClickHouse
READ_AHEAD_MAX: Final = 2  # reads of a stream whose batches wait for the database
# --- media of posts ----------------------------------------------------------------------------------------
MEDIA_BYTES_MAX: Final = 512 * 1024 * 1024
MEDIA_PARTS_MAX: Final = 10_000
MEDIA_PART_BYTES_MIN: Final = 512  # but for the last; 1 KiB is what the contract promises to take
MEDIA_UPLOAD_BODY_BYTES_MAX: Final = 1024 * 1024  # of the command that names all parts
MEDIA_URL_TTL_MAX_S: Final = 900  # of a part
MEDIA_FRESH_URL_S: Final = 30  # at least so long is one good that is asked for again
MEDIA_VIEW_TTL_S: Final = 300  # of a signed rendition
MEDIA_PUBLIC_AGE_S: Final = 10  # what a cache may keep: by then a hidden medium is nowhere
MEDIA_CACHE_FETCH_S: Final = 5  # a cache waits no longer for the next byte of the origin
MEDIA_CACHE_SLACK_S: Final = 5  # and has the last one by then
MEDIA_CACHE_BYTES: Final = 256 * 1024 * 1024
MEDIA_HELD_BYTES: Final = 1024 * 1024  # of a part, before they are hashed and written
MEDIA_DRAFT_S: Final = 3_600  # then its writer is gone
BUCKET_PART_BYTES: Final = 8 * 1024 * 1024  # of what is sent to a bucket
BUCKET_TIMEOUT_S: Final = 60  # of one request, and of all of its tries
BUCKET_CONNECT_TIMEOUT_S: Final = 5
BUCKET_RETRIES_MAX: Final = 3
MEDIA_CHUNK_BYTES: Final = 256 * 1024
MEDIA_PIXELS_MAX: Final = 50_000_000
MEDIA_FRAMES_MAX: Final = 100
MEDIA_RENDERING_CPU_S: Final = 30  # of the sandboxed process
MEDIA_RENDERING_WAIT_S: Final = 90
MEDIA_RENDERING_MEMORY_BYTES: Final = 2 * 1024 * 1024 * 1024
MEDIA_RENDERING_FILE_BYTES: Final = 64 * 1024 * 1024
MEDIA_MANIFEST_LENGTH_MAX: Final = 16 * 1024
MEDIA_THUMB_PIXELS: Final = 320  # the longer side
MEDIA_FULL_PIXELS: Final = 2_048
MEDIA_VIDEO_CPU_S: Final = 240  # of the sandboxed process
MEDIA_VIDEO_WAIT_S: Final = 300
MEDIA_VIDEO_S_MAX: Final = 300
MEDIA_VIDEO_PIXELS: Final = 480  # the shorter side
MEDIA_SCANS_AT_ONCE: Final = 2  # of one scanner
MEDIA_SCAN_LEASE_S: Final = 120  # then another scanner may take it
MEDIA_VIDEO_LEASE_S: Final = 420
MEDIA_SCAN_POLL_S: Final = 0.2
MEDIA_SWEEP_S: Final = 5.0  # how often what nobody may see is looked for
MEDIA_SWEEP_MAX: Final = 200
MEDIA_ORPHAN_S: Final = 24 * 3_600
MEDIA_CONNECTIONS_MAX: Final = 1_024  # requests under way in one process of the origin
MEDIA_POSTGRES_POOL_MAX: Final = 8
CLAMD_TIMEOUT_S: Final = 30.0

# --- moderation and erasure of posts -------------------------------------------------------------------------
CERTIFICATE_LENGTH_MAX: Final = 8_192
PROPAGATION_POLL_S: Final = 0.5
PROPAGATION_AT_ONCE: Final = 20  # decisions looked at in one round
PROPAGATION_RETRY_MAX_S: Final = 15  # between two looks at one consumer, for ever
PROPAGATION_MEDIA_MAX: Final = 100  # of one object, whose old URLs are asked for
PROPAGATION_VERSIONS: Final = 3  # access versions before the present one that must be dead
PROPAGATION_READERS: Final = 20  # followers in whose name is looked
PROPAGATION_FETCH_S: Final = 5.0
ERASURE_ROWS: Final = 500  # of one step
EXPORT_ROWS: Final = 200  # read at once
