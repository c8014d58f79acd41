"""Bounds of the ingress: of requests, waits, streams, sessions and what it keeps in memory."""

from __future__ import annotations

from typing import Final

# --- ingress
COMMANDS_BODY_BYTES_MAX: Final = 2 * 1024 * 1024  # one NDJSON request
COMMANDS_LINES_MAX: Final = 2_000
JSON_DEPTH_MAX: Final = 32
HEADERS_MAX: Final = 64
#: for the header fields of a request; past it the line is cut. Also how long a connection may be idle: longer than the
#: 5 s after which common clients close theirs, or they would send into one that is just being cut
HEADERS_READ_TIMEOUT_MS: Final = 6_000
RESULT_WAIT_DEFAULT_S: Final = 10
RESULT_WAIT_MAX_S: Final = 30
RESULT_STORE_POLL_FIRST_MS: Final = 250  # the stored result is the truth that a lost reply falls back to
RESULT_STORE_POLL_SLOW_MS: Final = 2_000  # the first time while decisions of other commands come
RESULT_STORE_POLL_MAX_MS: Final = 2_000
RESULTS_SILENT_MAX_S: Final = 30.0  # without a question to Kafka: then the reader of results is dead or hangs
COMMANDS_IN_FLIGHT_MAX: Final = 20_000  # per ingress process; past it 503 overloaded
PAGE_LIMIT_DEFAULT: Final = 20
PAGE_LIMIT_MAX: Final = 100
EVENTS_PAGE_LIMIT_MAX: Final = 500
EVENT_STREAMS_MAX: Final = 500  # open SSE streams of one ingress process
EVENT_STREAMS_OF_CALLER_MAX: Final = 100  # of those
REQUESTS_OF_CALLERS_MAX: Final = 3_072  # under way in one process; one alone gets half, two a third each (Slots)
REQUESTS_OF_STRANGERS_MAX: Final = 512  # of all who show no token, processors' webhooks and sign-ins among them
BURST_OF_CALLER_MAX: Final = 20_000  # requests of one caller at once, to one process; past it 429
RATE_OF_CALLER: Final = 1_000  # a second, from then on
BURST_OF_STRANGERS_MAX: Final = 5_000  # requests of one network without a valid token or session
RATE_OF_STRANGERS: Final = 100  # a second, from then on
AUDIT_REFUSALS_WINDOW_S: Final = 60.0
AUDIT_REFUSALS_EACH_MAX: Final = 10  # rows of one person and action in that time; all further are one row
AUDIT_REFUSALS_KEYS_MAX: Final = 1_000  # persons and actions told apart
EVENT_POLL_INTERVAL_MS: Final = 100  # between two looks for events while Kafka does not tell of them
EVENTS_LOOK_UNASKED_S: Final = 1.0  # while it does: a dead owner's events are committed, and published by the next
EVENTS_GATHER_S: Final = 0.01  # between two reads of what Kafka tells
EVENT_LOOK_INTERVAL_MS: Final = 50  # at the least between two looks for events, however much comes
RESOURCE_LOOK_INTERVAL_MS: Final = 10  # the same for objects that somebody waits for
EVENT_STREAM_HEARTBEAT_S: Final = 15
JWKS_STALE_MAX_S: Final = 3_600
INGRESS_POSTGRES_POOL_MAX: Final = 8
BODY_DRAIN_BYTES_MAX: Final = 16 * 1024 * 1024  # read and dropped so that a refusal is heard; past it the line is cut
BODY_DRAIN_S: Final = 5.0
BODY_READ_S: Final = 60.0  # for a body to come, from the first look at it; two megabytes at half a megabit
EXPECTED_VERSION_MAX: Final = 2**53 - 1
DEADLINE_MS_MAX: Final = 3_600_000
DEADLINE_GRACE_MS: Final = 250  # a wait that ends with the deadline still hears "expired"
#: past a deadline by this, an owner can neither start nor finish the command: our clock may be ahead by
#: CLOCK_OFF_MAX_S and the owner's behind by OWNER_CLOCK_OFF_MAX_S, and its transactions, tried again, take a while
DEADLINE_SETTLED_S: Final = 180
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
STORE_ANSWER_S: Final = 12.0  # longer than a statement may take: past it the database is taken to be stopped
STORE_RETRY_MAX: Final = 1
STORE_RETRY_BACKOFF_MS: Final = 50
BREAKER_FAILURES_MAX: Final = 5
BREAKER_OPEN_S: Final = 1
TOKEN_BYTES_MAX: Final = 8_192
TOKENS_CACHED_MAX: Final = 4_096
QUOTA_KEYS_OF_PROCESS_MAX: Final = 20_000  # callers or networks that a process counts by itself
ACCESS_DENIED_SHOWN_MAX: Final = 1_000  # to operators at once
ACCESS_DENIED_POLL_S: Final = 1
ACCESS_DENIED_STALE_MAX_S: Final = 4  # no caller is let in by an older list: with the poll, in force within 5 s
ACCESS_DENIED_READ_TIMEOUT_S: Final = 2
CLOCK_OFF_MAX_S: Final = 60  # of the database: by a clock further away nobody is let in
ACCESS_DENIED_RETRY_S: Final = 0.5  # after a read that failed: callers meanwhile are refused at once
JWKS_BYTES_MAX: Final = 256 * 1024
JWKS_KEYS_MAX: Final = 64
CURSOR_KEY_OVERLAP_S: Final = 90 * 86_400  # a caller may go on from a cursor of so long ago
CURSOR_SEALS_KEPT: Final = 64  # keys made of secrets, in a process: a few secrets for each kind of pages
JWKS_REFRESH_S: Final = 60
JWKS_REFRESH_COOLDOWN_S: Final = 5  # unknown key ids cannot make us hammer the issuer
JWKS_TIMEOUT_S: Final = 3
SIGN_IN_TIMEOUT_S: Final = 5  # of a question to the issuer while a person waits
SIGN_IN_BEGUN_S: Final = 600  # for how long a person may be at the issuer
SIGN_IN_REASON_LENGTH_MAX: Final = 80  # of what the issuer says when it lets nobody in
CONNECTIONS_MAX: Final = 65_536  # open at one process: more than one address has ports; nearly all say nothing
CONNECTIONS_WAITING_MAX: Final = 2_048  # to be taken, in the kernel
FILES_OF_PROCESS_MAX: Final = 512  # besides connections of callers
INGRESS_DRAIN_TIMEOUT_S: Final = 10
INGRESS_DRAIN_ACKNOWLEDGED_S: Final = 5  # for Kafka to acknowledge what a draining process has sent
READY_CACHE_MS: Final = 500
OWNERSHIP_LOOK_INTERVAL_S: Final = 2.0  # between two questions who owns what
OWNERSHIP_WAIT_S: Final = 1.0  # for Kafka's answer to one
OWNERSHIP_GIVEN_UP_S: Final = 30.0  # when a question is dropped, with the client that asks it
OWNERSHIP_NEVER_S: Final = 3_600.0  # when the client would give up itself, which it must not: the most that it takes
READY_PROBE_TIMEOUT_S: Final = 1.5  # less than HEALTH_CHECK_TIMEOUT_S, so that who asks hears the reason

# --- room on the disk
DISK_RESERVE_BYTES: Final = 256 * 1024**2  # given back to a disk that is full, so that servers can end what they write
DISK_LOOK_INTERVAL_S: Final = 2

# --- client
CLIENT_TRIES_MAX: Final = 12  # with their pauses about 15 s: longer than a restart of a service
CLIENT_BACKOFF_FIRST_MS: Final = 50
CLIENT_BACKOFF_MAX_MS: Final = 3_000
CLIENT_CONNECT_TIMEOUT_S: Final = 5
CLIENT_READ_SLACK_S: Final = 5  # a read may last the asked wait and this much more
CLIENT_CONNECTIONS_MAX: Final = 256
CLIENT_SEEN_EVENTS_MAX: Final = 10_000  # event ids remembered against repetition

# --- operator console
CONSOLE_IDLE_S: Final = 900  # without a page asked for: then whoever sits down there has to sign in
CONSOLE_SEEN_S: Final = 60  # so often is a cookie made anew for who works
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
REFERENCE_KEPT_S: Final = 300
CONSOLE_TOTALS_KEPT_S: Final = 15  # the trial balance on the overview

# --- policies and maintenance
POLICIES_PAGE_LIMIT_MAX: Final = 20
MAINTENANCE_RETRY_AFTER_S: Final = 30  # people work: nobody has to ask every second

# --- signed requests
SIGNATURE_AGE_MAX_S: Final = 300  # after `created`; a retry later is signed again
SIGNING_KEYS_ACTIVE_MAX: Final = 10  # of one merchant at once
SIGNING_KEY_PEM_LENGTH_MAX: Final = 1_024
SIGNING_KEYS_CACHED_S: Final = 10  # a revoked key may be taken, and a requirement be unknown, for so long
SIGNING_KEYS_CACHED_MAX: Final = 20_000  # merchants of one ingress process
SIGNING_KEYS_ASKED_MAX: Final = 500  # merchants asked for in one query
SIGNING_KEYS_ASKED_RUNNING_MAX: Final = 2
SIGNING_KEYS_RELOAD_S: Final = 1  # an unknown key is looked for again that often: it may just have been registered

# --- who asks for what
ACCESS_WINDOW_S: Final = 60
ACCESS_MISSES_MAX: Final = 100  # different paths of one caller that lead nowhere: an id that was mistyped is one
ACCESS_OBJECTS_MAX: Final = 300  # different paths of one operator: a person does not read faster
ACCESS_MERCHANTS_MAX: Final = 50  # that one network speaks for
ACCESS_UNPROVEN_MAX: Final = 300  # answers 401 to one network
ACCESS_PREFIX_V4: Final = 24
ACCESS_PREFIX_V6: Final = 56
ACCESS_BITMAP_BYTES: Final = 512  # of one subject: 4,096 bits, enough for the bounds to be passed
ACCESS_SUBJECTS_MAX: Final = 20_000  # 10 MiB
