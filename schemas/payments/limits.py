"""Bounds of payments, in every layer."""

from __future__ import annotations

from typing import Final

from schemas.limits import SIMULATOR_WEBHOOK_AGE_MAX_S

# --- values of a command
TOKEN_LENGTH_MAX: Final = 128
EMAIL_LENGTH_MAX: Final = 254  # RFC 5321, section 4.5.3.1.3, without its brackets
STATEMENT_DESCRIPTOR_LENGTH_MAX: Final = 22  # what card networks print

# --- ingress
LIST_PASSED_MAX: Final = 20_000  # that a page of a filtered list looks at: some tens of milliseconds of the database
METADATA_FILTERS_MAX: Final = 5
RESOURCE_WAITS_OF_CALLER_MAX: Final = 256  # long polls for one kind of object; past it the answer comes at once
PAST_BALANCES_RUNNING_MAX: Final = 2  # of one process: sums over long histories leave connections to everybody else
EXPANSIONS_MAX: Final = 10  # values of expand[] in one read

# --- processor attempts
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

# --- processor attempts: the worker's loops and its HTTP connections
ATTEMPT_EVENTS_BATCH_MAX: Final = 500  # events of one poll, written in one statement
ATTEMPT_GATHER_MS: Final = 100  # between two reads that find events: a payer waits, and each is a fetch and a commit
ATTEMPT_EVENTS_POLL_MS: Final = 500
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
ATTEMPT_FACTS_GATHER_MS: Final = 50  # of answers that come one by one
ATTEMPT_PRODUCER_POLL_MS: Final = 100
ATTEMPT_PRODUCER_FULL_WAIT_MS: Final = 20
ATTEMPT_DRAIN_TIMEOUT_S: Final = 8  # calls in flight end by themselves before: a query and a send time out after 6 s

# --- proposals, and the processor's book
CHECK_BOOK_TIMEOUT_S: Final = 60
MONEY_PROPOSALS_LISTED_MAX: Final = 200
POLICIES_PROPOSED_MAX: Final = 50  # listed of one kind
ATTEMPT_BACKLOG_INTERVAL_S: Final = 5  # how often the backlog is measured

# --- owner
PAYMENT_ATTEMPTS_MAX: Final = 500  # of one payment, refunds among them: each command reads and walks all of them
PAYMENTS_REMEMBERED_MAX: Final = 4_096  # payments under way that an owner keeps in mind, per partition; about 2 KB each

# --- payments in full
JOURNAL_ENTRIES_MAX: Final = 32  # lines of one ledger transaction without a payment

# --- webhooks of processors
WEBHOOK_BODY_BYTES_MAX: Final = 256 * 1024
WEBHOOK_BURST_MAX: Final = 20_000  # requests of one network at once, in one process; past it 429: told again later
WEBHOOK_RATE: Final = 1_000  # a second, from then on: as much as a process keeps
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
WEBHOOK_ROUND_IDLE_INTERVAL_MS: Final = 500
WEBHOOK_RETRY_SCHEDULE_MS: Final = (300, 700, 1_500, 3_000, 6_000, 12_000, 30_000, 60_000)  # then every last one
WEBHOOK_PARKED_MAX_S: Final = 900  # an event whose attempt is not to be seen for so long is a person's
WEBHOOK_UNDECIDED_TRIES_MAX: Final = 20  # about a quarter of an hour: then a person hears of it too
WEBHOOK_FLUSH_TIMEOUT_S: Final = 10  # for Kafka's acks=all; what was not taken is told again
WEBHOOK_BACKLOG_INTERVAL_S: Final = 5
WEBHOOK_STATEMENT_TIMEOUT_MS: Final = 10_000
WEBHOOK_POSTGRES_BACKOFF_FIRST_MS: Final = 50
WEBHOOK_POSTGRES_BACKOFF_MAX_MS: Final = 2_000
WEBHOOK_BACKOFF_DOUBLINGS_MAX: Final = 6

# --- processor attempts: refunds, the vault's route, old rows
ATTEMPT_DONE_KEPT_S: Final = 7 * 86_400  # finished dispatch rows; the attempt itself is kept for ever
ATTEMPT_PRUNE_INTERVAL_S: Final = 60
ATTEMPT_PRUNE_BATCH_MAX: Final = 1_000  # rows of one statement

# --- card vault
OWN_TOKENS_LOOKUPS_MAX: Final = 2_000  # of one query of the ingress
OWN_TOKENS_LOOKUPS_RUNNING_MAX: Final = 2
OWN_TOKENS_CACHED_MAX: Final = 20_000
OWN_TOKENS_CACHED_S: Final = 30  # a deleted token may be taken for so long; its payment then fails at the vault

# --- settlement reconciliation
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
SETTLEMENT_FETCH_PAUSES_S: Final = (0.5, 1.0, 2.0, 4.0)  # before asking a processor again that cannot be reached
SETTLEMENT_REPORT_BYTES_MAX: Final = 8 * 1024**3
SETTLEMENT_HORIZON_DAYS: Final = 7  # money that moved longer ago stands in some report, or is a person's
SETTLEMENT_BACK_GRACE_DAYS: Final = 5  # until a refund or dispute that no report names is missing; within the horizon
SETTLEMENT_BANK_DAYS_MAX: Final = 5  # from the announcement of a payout to its day at the bank
SETTLEMENT_SHOWN_MAX: Final = 50  # discrepancies in the table for people

# --- repairs and audit
REPAIR_POLL_MS: Final = 50
REPAIR_DECISION_WAIT_S: Final = 30  # for the owner; then the repair stays approved and is finished by the next run
REPAIRS_OF_CASE_MAX: Final = 100  # listed of one case
REPAIRS_LISTED_MAX: Final = 500
CASES_LISTED_MAX: Final = 500

# --- webhooks to merchants
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
MERCHANT_WEBHOOK_SENDS_MERCHANT_MAX: Final = 8  # of one merchant: its slow endpoints leave room for other merchants
MERCHANT_WEBHOOK_SENDS_ENDPOINT_MAX: Final = 4  # claimed at once for one endpoint: a slow one leaves room for others
MERCHANT_WEBHOOK_CLAIM_INTERVAL_MS: Final = 1_000  # between looks for tries that are due; news are sent at once
MERCHANT_WEBHOOK_EVENTS_BATCH_MAX: Final = 500
MERCHANT_WEBHOOK_READ_TIMEOUT_MS: Final = 500
MERCHANT_WEBHOOK_GATHER_MS: Final = 500  # between two reads that find events
MERCHANT_WEBHOOK_POSTGRES_POOL_MAX: Final = 6
MERCHANT_WEBHOOK_STATEMENT_TIMEOUT_MS: Final = 10_000
MERCHANT_WEBHOOK_BACKOFF_MS: Final = 500  # when Postgres or Kafka is away
MERCHANT_WEBHOOK_KEPT_S: Final = 30 * 86_400  # finished deliveries in the log
MERCHANT_WEBHOOK_PRUNE_INTERVAL_S: Final = 60
MERCHANT_WEBHOOK_PRUNE_BATCH_MAX: Final = 1_000

# --- export of the ledger, and policies in force
EXPORT_FETCH_ROWS: Final = 5_000  # in memory at once
EXPORT_STATEMENT_TIMEOUT_MS: Final = 600_000
# Policies of owners (risk rules, routing): how old they may be
POLICIES_REFRESH_S: Final = 1.0  # a published policy is in force everywhere within about this
POLICIES_RECENT_S: Final = 2 * POLICIES_REFRESH_S  # older ones are read again before a partition is taken
POLICIES_FIRST_WAIT_S: Final = 0.05  # how often a starting owner looks whether they were read

# --- processors: several of them, and how they are
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

# --- hardening
MERCHANT_WEBHOOK_SEAL_BATCH_MAX: Final = 500  # secrets that are sealed in one transaction

# --- forecasts of policies
FORECAST_BATCH_MAX: Final = 500  # at once from Kafka, and then from Postgres
FORECAST_EXAMPLES_MAX: Final = 10  # payments named for each change

# --- the loop of repairs, and events of processors
REPAIR_LOOP_INTERVAL_S: Final = 5
REPAIR_LOOP_INTERVAL_MAX_S: Final = 60  # while owners do not decide
REPAIR_LOOP_GRACE_S: Final = 15  # the ingress that heard the approval waits for the owner itself
REPAIR_LOOP_DECISION_WAIT_S: Final = 3  # of one round; what is not decided then is sent again by the next
REPAIR_LOOP_STATEMENT_TIMEOUT_MS: Final = 10_000
CASE_SWEEP_INTERVAL_S: Final = 3_600  # money that waits for too long has its case within this
CASE_SWEEP_STUCK_S: Final = 6 * CASE_SWEEP_INTERVAL_S  # without one that succeeded; then readiness says so
CASE_SWEEP_RETRY_S: Final = 5  # after one that failed, or while another process is at it; then twice as long, up to:
CASE_SWEEP_RETRY_MAX_S: Final = 300
CASE_SWEEP_STATEMENT_TIMEOUT_MS: Final = 300_000  # it reads every account and a week of the ledger
WAITING_INTERVAL_S: Final = 30  # between two looks at what waits, for those who watch
WAITING_STATEMENT_TIMEOUT_MS: Final = 10_000
CASES_COUNTED_MAX: Final = 10_000  # open ones of a kind: more are told as so many
REPORTS_DEADLINE_S: Final = 6 * 3_600  # after a processor's hour: without a report of that day by then it is a case
REPORTS_RETRY_S: Final = 60  # after a day that is not over; then twice as long, up to:
REPORTS_RETRY_MAX_S: Final = 1_800
REPORTS_TRIES_MIN: Final = 5  # before a day without an answer is given up, however late it is
REPORTS_CATCH_UP_DAYS: Final = 31  # days that nobody looked at; of older ones none is asked for
REPORTS_STUCK_S: Final = REPORTS_DEADLINE_S + 7_200  # with a day that is not over; then readiness says so
REPORTS_STATEMENT_TIMEOUT_MS: Final = 60_000
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

# --- merchant accounts
PAYOUT_DESTINATION_LENGTH_MAX: Final = 128  # the merchant's own name of its bank account
PAYOUT_DESTINATIONS_MAX: Final = 100  # that a merchant ever registers: the owner reads all of them for a payout
#: how long a new destination has to be known before money goes there: over a weekend somebody reads what was told
PAYOUT_COOLING_OFF_S: Final = 48 * 3_600
PAYOUT_COOLING_OFF_S_MAX: Final = 30 * 24 * 3_600
BANK_ACCOUNT_LENGTH_MIN: Final = 4  # as much as is shown of it
BANK_ACCOUNT_LENGTH_MAX: Final = 34  # of an IBAN, ISO 13616
BANK_CODE_LENGTH_MIN: Final = 3
BANK_CODE_LENGTH_MAX: Final = 11  # of a BIC, ISO 9362
DISPUTE_DUE_DAYS: Final = 3  # before its deadline for evidence, a dispute without an answer gets a case
DISPUTE_DUE_UNSEEN_DAYS: Final = 2  # before it, a missing case violates an invariant: a daily sweep has been by then
PAYOUT_HORIZON_DAYS: Final = 7  # a payout that is pending for longer gets a case
FX_BAND_BPS_MAX: Final = 1_000  # how far from the reference an exchange by hand may ever be allowed
FX_PAIRS_MAX: Final = 1_000
FX_REFERENCE_HOURS_MAX: Final = 96  # of one version: over a long weekend
FX_RATE_DIGITS_MAX: Final = 12  # of an exchange rate, before the point and after it
REPORT_PAGE_LIMIT_DEFAULT: Final = 100
REPORT_PAGE_LIMIT_MAX: Final = 1_000
REPORT_DAYS_MAX: Final = 400  # between the two ends of a report
REPORT_CSV_ROWS_MAX: Final = 1_000_000  # of one file; the next one begins where it ended
REPORTS_RUNNING_MAX: Final = 4  # pages that one process reads at once; the others wait

# --- risk
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
VELOCITY_PIPELINE_MAX: Final = 200  # confirms of one bulk request that are counted in one round trip
POLICY_BODY_BYTES_MAX: Final = 512 * 1024
POLICY_FAULTS_TOLD_MAX: Final = 50
POLICIES_PAGE_LIMIT_DEFAULT: Final = 10  # a version may be half a megabyte
FEE_VERSIONS_READ_MAX: Final = 100  # for the terms of one merchant; the one in force is among the newest
POLICY_VERSION_MAX: Final = 10**9
RISK_ASSESSMENTS_LISTED_MAX: Final = 200
POLICY_ACTIVE_READ_S: Final = 1.0  # how often an ingress looks for policies that name its signals, and for maintenance
CARD_SIGNALS_CACHED_S: Final = 600
CARD_SIGNALS_CACHED_MAX: Final = 20_000

# --- routing
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

# --- the payer's actions, holds and evidence
AUTHORIZATION_VALID_S: Final = 7 * 86_400  # a hold whose processor does not say when it ends
AUTHORIZATION_RELEASE_GRACE_S: Final = 10  # the processor's own word comes first
AUTHORIZATION_RELEASE_RETRY_S: Final = 3_600  # after the time of a hold, how often its release is asked for
AUTHORIZATION_RELEASE_TRIES_MAX: Final = 72  # then it is a person's
AUTHORIZATION_RELEASE_BATCH_MAX: Final = 200
AUTHORIZATION_RELEASE_INTERVAL_S: Final = 1  # how often holds are looked for whose time is over
AUTHORIZATION_RELEASES_REMEMBERED_MAX: Final = 20_000  # that a worker asked for, and does not ask for again in the hour
AUTHORIZATION_GIVE_UP_INTERVAL_S: Final = 60  # how often those are looked for that nobody asks for any more
ATTEMPT_ACTION_POLL_S: Final = 60  # a payer is busy with the bank; a webhook tells sooner
ATTEMPT_ACTION_WAIT_S: Final = 24 * 3_600  # then the payment is ended at a processor that would wait for ever
ATTEMPT_ACTION_MAX_S: Final = 25 * 3_600  # longer than any processor waits for a payer; then a person looks
EVIDENCE_KINDS_MAX: Final = 20
EVIDENCE_SUBMISSIONS_MAX: Final = 20  # about one dispute: all that a processor refused, and one for each of its stages
EVIDENCE_KIND_LENGTH_MAX: Final = 40
EVIDENCE_TEXT_LENGTH_MAX: Final = 2_000
NEXT_ACTION_LENGTH_MAX: Final = 4_096  # what a processor says that the payer has to do, as JSON
