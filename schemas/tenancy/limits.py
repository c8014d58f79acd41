"""Bounds of tenants, in every layer."""

from __future__ import annotations

from typing import Final

# --- tenants
TENANCY_PARTITIONS: Final = 8
TENANT_NAME_LENGTH_MAX: Final = 200
TIME_ZONE_LENGTH_MAX: Final = 64
DIMENSION_LENGTH_MAX: Final = 64
DIMENSIONS_MAX: Final = 100  # with a limit or a price, of one tenant
ENTITLEMENT_LENGTH_MAX: Final = 100  # of a value that is a text
PRICE_DIGITS_MAX: Final = 12  # before the point, and behind it
PRICE_TIERS_MAX: Final = 20  # of one price
PRICES_READ_MAX: Final = 1_000  # prices with tiers that a process keeps read
SEALED_LENGTH_MAX: Final = 48 * 1024  # the same, sealed, as text
MOVE_ROWS_PER_SECOND_MAX: Final = 100_000
#: of a store, by mode: a schema that tenants share; all schemas, or all databases, of tenants' own. What a release says
#: of it where no operator has (`millrace tenants store`)
STORE_TENANTS_MAX: Final = {"pooled": 1_000_000, "partitioned": 10_000, "dedicated": 1_000}
STORES_MEASURED_S: Final = 60  # between two looks of the mover at how many bytes they have
TENANTS_CACHED_S: Final = 1  # what the ingress knows of a tenant is no older; the owner decides all the same
TENANTS_CACHED_MAX: Final = 20_000  # of one ingress process
MOVE_PAGE_ROWS: Final = 500  # copied, compared, applied or removed at once
MOVE_DIGEST_ROWS: Final = 20_000  # compared at once by their sums
MOVE_PAGES_PER_SECOND: Final = 4  # of a copy that is bounded
MOVE_FENCE_S: Final = 20  # a fence that is not committed by then is given up
MOVE_CATCH_UP_ROWS_MAX: Final = 200  # images on their way when a move begins to verify, and when it fences
MOVE_SOAK_S: Final = 86_400
DRAIN_MOVES_MAX: Final = 8  # of one store on their way at once, beside those that soak
DRAIN_AGAIN_S: Final = 60  # after a move that was given up, before its tenant is moved again
MOVE_PASSES_MAX: Final = 20  # comparisons of a whole tenant before its fence; then the move is given up
MOVER_ITEMS_MAX: Final = 50  # of one kind, before the next kind has its turn
MOVER_KEYS_AGAIN_S: Final = 600  # between two looks for keys under an old root key, where the root keys did not change
RESEAL_AFTER_S: Final = 60  # after a rotation: what was sealed before has come to its owner by then, or is refused
RESEAL_LOOK_S: Final = 1  # between two looks for tenants whose rows are to be sealed anew, where there were none
RESEAL_TENANTS_AT_ONCE: Final = 4
RESEAL_PAGE_ROWS: Final = 200  # of one tenant, before another one has its turn
RESEAL_ROWS_PER_SECOND: Final = 5_000  # of all tenants
ROOT_KEYS_MAX: Final = 16  # that unwrap at once
MOVER_IDLE_MS: Final = 50
MOVER_IDLE_MAX_MS: Final = 400  # while nothing waits for long
MOVER_RETRY_S: Final = 1
MOVER_STATEMENT_TIMEOUT_MS: Final = 30_000
# of a mover that stands still in a transaction: an export reads and opens a page of a dedicated database between two of
# its statements, for as long as a statement may take, and once more for a new connection there
MOVER_HELD_MS: Final = 2 * MOVER_STATEMENT_TIMEOUT_MS
# of one that stands still outside of a transaction, with the lock on its work: longer than it asks other databases only
MOVER_IDLE_SESSION_MS: Final = 4 * MOVER_STATEMENT_TIMEOUT_MS
MOVER_DELETE_MAX_MS: Final = 600_000  # of the statement that removes all heads of a tenant, which writes no more
EXPORT_PAGE_ROWS: Final = 500
SHRED_CERTIFIED_AFTER_S: Final = 5  # of processes without a lease: by then their caches of a second have ended
SHRED_ACKNOWLEDGED_S: Final = 60  # who has a lease, and has not acknowledged a shred by then, is told
KEY_LEASE_S: Final = 10  # of a process that opens keys of tenants; one that is killed delays certificates by it
KEY_LEASE_RENEWED_S: Final = 2  # shreds are heard of with it
KEY_LEASE_ANSWER_S: Final = 4  # of one question, in an ingress; the mover waits for as long as for any statement
KEY_LEASE_MARGIN_S: Final = 2  # by which the database's clock may jump before a lease counts as ended
SHRED_SAMPLE_ROWS: Final = 20
DEDICATED_POOL_MAX: Final = 2  # connections of one ingress process to one dedicated database
DEDICATED_STORES_MAX: Final = 20  # dedicated databases that it is connected to at once
TENANTS_LISTED_MAX: Final = 100  # by a command
TENANT_CONTEXT_TTL_S: Final = 60  # of a signed context: a transaction lasts no longer
TENANT_CLOCK_BEHIND_MAX_S: Final = 60  # of who signs it: further off the database, owners and ingresses do nothing
DUAL_READS_UNDER_WAY_MAX: Final = 16  # of one ingress process; reads beyond are not compared
TENANT_READ_TRIES_MAX: Final = 4  # a read that meets a move on its way looks again

NOISE_DATABASE_BUSY_MIN: Final = 0.5  # of a window, that all statements together took: below it nobody is noisy
NOISY_STATEMENTS_MAX: Final = 1  # under way in one ingress process, of a tenant that was noisy in the last window
COST_WINDOWS: Final = 6  # of ten seconds, before what tenants cost is kept for analytics
CLICKHOUSE_COSTS_KEPT_S: Final = 60  # between two times that a sink keeps what ClickHouse took for usage of tenants
OWNER_COSTS_KEPT_S: Final = 60  # between two times that an owner keeps what tenants cost it, with a commit
BYTES_STORED_KEPT_S: Final = 1_800  # between two looks of the mover at the bytes of each tenant
BYTES_STORED_TENANTS: Final = 200  # looked at by one statement
COST_REMOVED_AT_ONCE: Final = 1_000

# --- usage
USAGE_EVENTS_MAX: Final = 1_000  # of one request
USAGE_BODY_BYTES_MAX: Final = 2 * 1024 * 1024  # of one request
USAGE_EVENT_BYTES_MAX: Final = 512 * 1024  # of one event: no Kafka client sends a record of a megabyte as it is set up
USAGE_KEPT_S: Final = 400 * 86_400  # then a row is removed; the database says so itself (usage_remove)
USAGE_KEEPING_INTERVAL_S: Final = 600.0
USAGE_REMOVED_AT_ONCE: Final = 5_000
USAGE_TEXT_LENGTH_MAX: Final = 255  # of an id, a source or a subject
USAGE_AGE_MAX_S: Final = 35 * 86_400  # identities are remembered for longer, so what is older could be counted twice
USAGE_AHEAD_MAX_S: Final = 300
USAGE_ERRORS_MAX: Final = 100  # told of one request
USAGE_WINDOWS_MAX: Final = 10_000  # of one question
USAGE_ROWS_MAX: Final = 10_000  # of one answer
USAGE_CORRECTIONS_MAX: Final = 100  # told of one question, the newest; all are in its sum
USAGE_QUESTIONS_MAX: Final = 4  # of one ingress process at once: half of its connections to Postgres
USAGE_QUESTIONS_OF_TENANT_MAX: Final = 2
USAGE_SPAN_MAX_S: Final = 400 * 86_400  # of one question
USAGE_JUDGED_SLACK_S: Final = 86_400  # between the ingress, which judged, and the broker: what was taken counts
USAGE_BATCH_MAX: Final = 5_000  # records of one read
USAGE_POLL_S: Final = 0.1
USAGE_REFUSED_KEPT_MAX: Final = 1_000  # records of one sender in one partition that do not count and wait for people
USAGE_REFUSED_SAID_BYTES_MAX: Final = 16 * 1024  # of one record
USAGE_REFUSED_TEXT_LENGTH_MAX: Final = 4 * USAGE_TEXT_LENGTH_MAX  # of one attribute
USAGE_REFUSED_FIELDS_MAX: Final = 32  # of one record
USAGE_REFUSED_SHAPE_LENGTH: Final = 200  # of what cannot be read
USAGE_REFUSED_LISTED_MAX: Final = 100
USAGE_REFUSED_POLL_S: Final = 1.0
USAGE_IN_FLIGHT_MAX: Final = 50_000  # events of one ingress process that Kafka has not acknowledged

# --- support grants
SUPPORT_GRANT_DEFAULT_S: Final = 1_800
SUPPORT_GRANT_MIN_S: Final = 5
SUPPORT_GRANT_MAX_S: Final = 14_400
SUPPORT_GRANT_AHEAD_MAX_S: Final = 30 * 86_400  # of when one begins at the earliest
BREAK_GLASS_MAX_S: Final = 1_800  # of one that nobody of the tenant was asked for; the database says so itself
BREAK_GLASS_APPROVERS: Final = 2  # and so it says that of these
MASKS_MAX: Final = 32  # of one grant
MASK_DEPTH_MAX: Final = 8  # names of one mask
MASK_NAME_LENGTH_MAX: Final = 64
SUPPORT_CALLS_UNDER_WAY_MAX: Final = 4  # of one grant, in one ingress process: half of its connections to the log
SUPPORT_TOKEN_MAX_S: Final = 600  # of one token; the requester asks for another while the grant is active

# --- billing
BILLING_PERIOD_AGE_MAX_S: Final = 360 * 86_400  # of where it begins: with the longest grace, its usage is still kept
BILLING_GRACE_MAX_S: Final = 35 * 86_400  # longer, no usage of the period is taken any more
#: how long after its instant usage may still be counted: taken in time, and for a week on its way through Kafka
USAGE_LATE_MAX_S: Final = USAGE_AGE_MAX_S + USAGE_JUDGED_SLACK_S + 9 * 86_400
BILLING_INVOICE_MAX_MS: Final = 600_000  # of the transaction that makes one; it reads every event of a period
BILLING_POLL_S: Final = 0.5
BILLING_POLL_REST: Final = 19  # times as long as a look for due runs took, until the next one
BILLING_POLL_MAX_S: Final = 20.0
BILLING_RUNS_AT_ONCE: Final = 20
INVOICE_AGAIN_TOLD_S: Final = 3_600  # of one that was made again in the background; asked for later, it is made anew
INVOICE_AGAIN_ASK_S: Final = 5  # until a caller asks whether it is made
INVOICE_AGAIN_POLL_S: Final = 2.5
BILLING_AGAIN_S: Final = 1  # before a run whose invoice could not be made is tried again; then twice as long each time
BILLING_AGAIN_MAX_S: Final = 60

# --- isolation
ISOLATION_STALE_S: Final = 30
