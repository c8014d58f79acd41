"""Bounds of the clients of Kafka, Postgres, ClickHouse, Valkey and buckets."""

from __future__ import annotations

from typing import Final

# --- ingress
POSTGRES_CONNECT_TIMEOUT_S: Final = 5
POSTGRES_STATEMENT_TIMEOUT_MS: Final = 10_000

# --- Postgres clients
PREFETCH_KBYTES_MAX: Final = 16_384
GATHERED_FETCH_BYTES_MAX: Final = 4 * 1024 * 1024  # of a partition at once, where records gather between fetches
OWNER_SESSION_TIMEOUT_MS: Final = 6_000
OWNER_HEARTBEAT_MS: Final = 1_000
OWNER_STATEMENT_TIMEOUT_MS: Final = 15_000  # also the longest wait for the lock of the owner before us
OWNER_TRANSACTION_TIMEOUT_MS: Final = 5_000
PLAN_KEPT_AFTER: Final = 3  # calls of a statement on one connection, before it is prepared there
PLANS_KEPT_MAX: Final = 128  # on one connection; what was asked longest ago goes
# names that the server did not know, on one connection: then it keeps none any more. Above what one deallocation loses
PLANS_LOST_MAX: Final = 200
#: longer than a statement may take, and than what is done elsewhere within a transaction
IDLE_IN_TRANSACTION_TIMEOUT_MS: Final = 30_000
SESSION_RETRY_S: Final = 1.0  # of background work, after Postgres went away
CANCELLED_AGAIN_S: Final = 1.0  # a background task that did not hear that it is to end
ROUND_TIMEOUT_S: Final = 5.0  # of a statement of what a process does again and again in the background

COPY_ROWS_MIN: Final = 100  # fewer rows are inserted: a round trip would cost more than COPY saves
COPY_SIZES_PACKED: Final = 1_024  # sizes of values below this are packed once

# --- Kafka clients
KAFKA_DELIVERY_TIMEOUT_MS: Final = 30_000
KAFKA_PRODUCER_QUEUE_MAX: Final = 200_000
# an idle fetch parks at the broker so long; records end it at once. A partition that a consumer gets beside others is
# read when the fetch under way has ended, so consumers of a group park for less
KAFKA_FETCH_WAIT_MS: Final = 1_000
KAFKA_FETCH_WAIT_ASSIGNED_MS: Final = 5_000
KAFKA_FETCH_FULL_WAIT_MS: Final = 20  # of a consumer that has read ahead as far as it may; by default a second
KAFKA_IDLE_WAIT_S: Final = 0.5  # of who reads, while nothing comes: so soon it hears that it is to stop
KAFKA_ADMIN_TIMEOUT_S: Final = 10
KAFKA_TOPICS_TIMEOUT_S: Final = 60  # until topics have leaders and users rules, where everything starts at once
KAFKA_RECONNECT_BACKOFF_MAX_MS: Final = 1_000

# --- servers
HEALTH_POLL_INTERVAL_S: Final = 0.05
POSTGRES_ROLE_TRIES_MAX: Final = 5  # installations on one server may alter its roles at once
MIGRATION_LOCK_TIMEOUT_MS: Final = 2_000  # a migration waits so long for a table: all who come behind it wait, too
MIGRATION_LOCK_TRIES_MAX: Final = 60
MIGRATION_LOCK_PAUSE_S: Final = 1.0  # between two tries those who waited are served

# --- the ClickHouse front
POSTGRES_KEEPALIVE_S: Final = 5

# --- streams
STREAM_STORE_INTERVAL_S: Final = 1  # a follower stores positions that often; killed in between, it reads so much again
STREAM_GATHER_S: Final = 0.01  # for all of what one fetch brings
STREAM_JOIN_AGAIN_S: Final = 0.5  # after Kafka or Postgres failed it, or it was fenced

# --- ClickHouse
CLICKHOUSE_CONNECT_TIMEOUT_S: Final = 5
CLICKHOUSE_STATEMENT_TIMEOUT_S: Final = 60
SINK_BLOCK_EVENTS_MAX: Final = 10_000  # of one group commit
SINK_BLOCK_INTERVAL_MS: Final = 500  # a smaller block is inserted after this
SINK_FETCH_BYTES_MIN: Final = 64 * 1024  # or what came within this:
SINK_FETCH_WAIT_MS: Final = 1_000
SINK_GATHER_MS: Final = 2_000  # the same of a sink that reads the first event at once
SINK_READ_MESSAGES_MAX: Final = 1_000
SINK_READ_TIMEOUT_MS: Final = 50
SINK_RECOVERY_READ_TIMEOUT_S: Final = 30  # for the records of a plan, which lie in Kafka already
SINK_HEARTBEAT_MS: Final = 2_000
PLACED_ROWS_BLOCK_MAX: Final = 20_000  # rows of one block that Postgres keeps in places
PLACED_ROWS_POLL_S: Final = 0.25
PLACED_ROWS_IDLE_AFTER_S: Final = 10  # without rows it looks once a heartbeat
STREAM_LEASE_S: Final = 5.0  # who follows records and said nothing for so long has lost them to who stands by
STREAM_STAND_BY_POLL_S: Final = 0.5
SINK_LEASE_MS: Final = 5_000  # a holder that did not say a word for so long has lost the sink
SINK_CLAIM_POLL_MS: Final = 250
SINK_BACKOFF_FIRST_MS: Final = 100
SINK_BACKOFF_MAX_MS: Final = 2_000
SINK_PLAN_AGE_MAX_S: Final = 3  # an older plan is not inserted before the fence is read again
SINK_TOKENS_MAX: Final = 4  # under which rows of a plan are inserted that ClickHouse says are in, and are not
SINK_PLANS_KEPT: Final = 10_000  # inserted plans kept for the operator
SINK_PLANS_PRUNE_EVERY: Final = 500
PRODUCER_NAME_LENGTH_MAX: Final = 40

# --- media of posts
BUCKET_PART_BYTES: Final = 8 * 1024 * 1024  # of what is sent to a bucket
BUCKET_TIMEOUT_S: Final = 60  # of one request, and of all of its tries
BUCKET_CONNECT_TIMEOUT_S: Final = 5
BUCKET_RETRIES_MAX: Final = 3

# --- risk
VELOCITY_TIMEOUT_MS: Final = 250  # then the confirm goes on without counts, and each rule says what that means
ACCESS_TIMEOUT_MS: Final = 2_000  # of a server of Valkey that is asked for its rules
VELOCITY_CONNECTIONS_MAX: Final = 16  # of one ingress process
SECRETS_LOOK_S: Final = 1  # how often a process looks whether secrets were replaced
