"""Bounds of servers, supervisor and CLI."""

from __future__ import annotations

from typing import Final

# --- embedded stack, supervisor and CLI
HOME_FREE_BYTES_MIN: Final = 2 * 1024**3  # less than this on the home's disk and nothing is started
SERVER_START_TIMEOUT_S: Final = 120
SERVER_RECOVERY_TIMEOUT_S: Final = 900  # after a kill: who ends a recovery because it is slow begins it anew for ever
SERVICE_START_TIMEOUT_S: Final = 120  # all start at once, beside whatever else the machine does
STACK_START_TIMEOUT_S: Final = 300  # cold: Kafka's jars are fetched first
HEALTH_CHECK_TIMEOUT_S: Final = 2
SUPERVISOR_TICK_S: Final = 0.2
STORE_MAP_EVERY_S: Final = 10  # so long after a shard was added its functions are not looked after
STORE_TEXTS_EVERY_S: Final = 2  # so long after a restart of Valkey who calls a script does without
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
BACKGROUND_NICENESS: Final = 8  # a sixth of what one has who is waited for, and all that is left over
LIVENESS_INTERVAL_S: Final = 10  # how often a service that serves is asked whether it lives
LIVENESS_AGAIN_S: Final = 3  # after a question without an answer
LIVENESS_SILENCES_MAX: Final = 6  # in a row, then it is killed and started again: 25 to 40 s after it froze
LOOP_BEAT_INTERVAL_S: Final = 1.0
LOOP_SILENT_MAX_S: Final = 30.0  # a loop that has not turned for so long hangs: its process is not healthy
INGRESS_PROCESSES_MAX: Final = 32
OWNER_PROCESSES_MAX: Final = 32
LOG_BYTES_MAX: Final = 64 * 1024 * 1024  # a log past this is begun anew, the one before is kept
LOG_LOOK_INTERVAL_S: Final = 60
LOG_TAIL_LINES_DEFAULT: Final = 50
LOG_TAIL_BYTES_MAX: Final = 1024 * 1024
KAFKA_HEAP_MEGABYTES_MAX: Final = 512
KAFKA_YOUNG_MEGABYTES: Final = 32  # of the heap: it is collected often and soon done; by itself Java takes 126
KAFKA_CODE_MEGABYTES_MAX: Final = 128  # addresses alone: half a minute of load takes 7 of them
KAFKA_CLEANER_BYTES: Final = 4 * 1024 * 1024  # for 150,000 keys of a compacted topic at once: Kafka's own are all
KAFKA_ARCHIVE_TIMEOUT_S: Final = 90  # Java writes the archive of Kafka, once for a user
KAFKA_EXERCISE_RECORDS: Final = 20_000  # that each client sends before, one by one
KAFKA_EXERCISE_CLIENTS: Final = 4  # and as many read, and follow in a group
KAFKA_EXERCISE_MAX_S: Final = 300  # on a busy machine; otherwise 20
KAFKA_MESSAGE_BYTES_MAX: Final = 8 * 1024 * 1024
KAFKA_SESSION_TIMEOUT_MS_MIN: Final = 3_000
POSTGRES_CONNECTIONS_MAX: Final = 300
REDIS_DATABASES: Final = 256  # installations that share one server have a database each
REDIS_MEMORY_BYTES_MAX: Final = 512 * 1024 * 1024

BACKUP_FREEZE_MAX_S: Final = 20  # nothing but Postgres runs meanwhile; the supervisor kills who is silent for 25 s
BACKUP_SPARE_BYTES: Final = 256 * 1024 * 1024  # free for a backup beside what the home has: it grows meanwhile
BACKUP_WAL_TIMEOUT_S: Final = 600  # for the checkpoint that begins a backup

# --- the ClickHouse front
CLICKHOUSE_CLIENTS_MAX: Final = 256  # open HTTP connections; past it the kernel's backlog holds them
CLICKHOUSE_QUERIES_MAX: Final = 16  # running at once; the rest wait
CLICKHOUSE_QUERY_WAIT_MAX_S: Final = 60  # for a free place among them, then error 202
CLICKHOUSE_QUERY_BYTES_MAX: Final = 1024 * 1024  # SQL text without an INSERT's data
CLICKHOUSE_BODY_BYTES_MAX: Final = 1024 * 1024 * 1024  # after decompression
CLICKHOUSE_SPOOL_MEMORY_BYTES_MAX: Final = 8 * 1024 * 1024  # of one request; past it the body goes to disk
CLICKHOUSE_MEMORY_BYTES_MAX: Final = 4 * 1024**3  # of one query; stack/clickhouse/users.xml has both bounds, too
CLICKHOUSE_EXECUTION_TIME_MAX_S: Final = 300
CLICKHOUSE_IDLE_TIMEOUT_S: Final = 60  # of a kept-alive connection
CLICKHOUSE_CHUNK_BYTES: Final = 256 * 1024

# --- commands of the CLI
API_COMMAND_WAIT_S: Final = 30  # the API is asked to wait so long for the owner of a command
API_ANSWER_WAIT_S: Final = 40  # and a shell waits for the API
API_SILENCE_MAX_S: Final = 60  # of a command that watches: until then it asks again
TENANT_WATCH_S: Final = 0.25  # between two looks at what changes by itself
TENANT_WAIT_S: Final = 600  # for what other processes do, unless a command says otherwise
CHECKPOINTS_LISTED_MAX: Final = 100
PROCESSORS_MAX: Final = 16  # each has connections, a bulkhead and a circuit breaker of its own in every worker
FORECAST_DAYS_DEFAULT: Final = 7.0
FORECAST_DAYS_MAX: Final = 366.0
FORECAST_RECORDS_MAX: Final = 1_000_000  # commands that one forecast reads

# --- demo
DEMO_INVOICE_COUNT: Final = 250  # made when no file is given
DEMO_RATE_PER_S: Final = 30.0  # payments started per second when no rate is given
DEMO_RATE_MAX_PER_S: Final = 2_000.0

# --- soak
SOAK_MINUTES_DEFAULT: Final = 3.0
SOAK_MINUTES_MAX: Final = 23 * 60.0  # a token lives for a day
SOAK_RATE_PER_S: Final = 3.0  # payments started per second; most of them are several commands
SOAK_RATE_MAX_PER_S: Final = 200.0
SOAK_HISTORIES: Final = 3  # of social posts at once
SOAK_HISTORIES_MAX: Final = 50
SOAK_CHECKS_PER_S: Final = 250.0  # identities of the limiter's soak; each is asked for once or twice
SOAK_CHECKS_MAX_PER_S: Final = 5_000.0

# --- the isolation monitor
ISOLATION_ROUND_S: Final = 10
ISOLATION_LOG_PART_BYTES: Final = 4 * 1024 * 1024  # read at once of a log
ISOLATION_ANSWER_S: Final = 5  # a probe that is not answered by then is not carried out
ISOLATION_TOKEN_S: Final = 3_600
ISOLATION_STREAM_S: Final = 5.0  # for how long a stream without end is listened to
ISOLATION_STREAM_QUIET_S: Final = 0.5  # how long for more, once what was waited for is there
ISOLATION_STREAM_BYTES: Final = 256 * 1024  # of a stream that does not end
ISOLATION_REMEMBERED_S: Final = 60  # canaries that were made, and what is told of nothing at all
ISOLATION_NAMED_MAX: Final = 5  # of what a lint finds amiss
ISOLATION_DATABASES_A_ROUND: Final = 8  # of tenants' own, whose catalogs are looked at
ISOLATION_STATEMENT_LENGTH: Final = 300  # of one that is shown as evidence
ISOLATION_METERED_AGAIN_S: Final = 600  # the same event of a day: counted once, and once more in Kafka to be looked at
ISOLATION_RECORDS_MAX: Final = 256  # of each partition, the newest since the round before
ISOLATION_KEYS_SAMPLED: Final = 200  # of Valkey in a round, from where the one before ended
ISOLATION_VALUES_SAMPLED: Final = 20  # of a key that holds many
ISOLATION_VALUE_BYTES: Final = 4_096  # the first of a text
