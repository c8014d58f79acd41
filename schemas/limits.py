"""Bounds that more than one owner reads: sizes, counts, waits, retries and pools.

Units stand last in a name. What one package reads alone stands in its own ``limits``, what one service
reads in ``schemas.<service>.limits``. A queue, batch, pool, retry or wait without a name in one of them is a bug:
``tests/tidy`` looks for naked numbers where bounds belong.
"""

from __future__ import annotations

from typing import Final

# --- values of a command
AMOUNT_MINOR_MAX: Final = 2**53 - 1  # exact in every JSON reader, RFC 8259 section 6
IDEMPOTENCY_KEY_LENGTH_MAX: Final = 255
REQUEST_ID_LENGTH_MAX: Final = 128
AGGREGATE_KEY_LENGTH_MAX: Final = 64
SCOPE_LENGTH_MAX: Final = 64
REFERENCE_LENGTH_MAX: Final = 64  # a merchant's own name of a payment
METADATA_KEYS_MAX: Final = 50
METADATA_KEY_LENGTH_MAX: Final = 40
METADATA_VALUE_LENGTH_MAX: Final = 500
TEXT_LENGTH_MAX: Final = 500
REDIRECT_URL_LENGTH_MAX: Final = 2_048
#: a payload that is an object of its caller's own, as the shortest JSON that says it: UTF-8, without space, escaped
#: only where JSON must
DOCUMENT_BYTES_MAX: Final = 32 * 1024
TIME_US_MAX: Final = 253_402_300_799_999_999  # the end of the year 9999: later is no time that a store of ours holds

# --- HTTP and Postgres
BODY_BYTES_MAX: Final = 64 * 1024  # one command
#: one command with a document, of which each byte may be written as six (\u0041), and indented
DOCUMENT_BODY_BYTES_MAX: Final = BODY_BYTES_MAX + 6 * DOCUMENT_BYTES_MAX
CLOCK_SKEW_MAX_S: Final = 30
POSTGRES_RECONNECT_S: Final = 2  # a pool's growing pauses begin anew then: so late it may see that Postgres is back

# --- owner
PUBLISH_RESUME_CHUNK: Final = 2_000  # outbox rows read at once after a take-over

# --- publishing and replies of an owner
PUBLISH_DRAIN_TIMEOUT_S: Final = 5

# --- tokens, and who is denied
TOKEN_TTL_DEFAULT_S: Final = 3_600
TOKEN_TTL_MAX_S: Final = 86_400
ACCESS_DENIED_MAX: Final = 20_000  # rows of the list, which every process reads as a whole when it changes

# --- audit
AUDIT_TEXT_LENGTH_MAX: Final = 200  # of an actor or object, as a stranger may have written it
NOTE_LENGTH_MAX: Final = 200  # of a decision; with two persons' names it fits into the note of a journal entry
REPAIR_PERSON_LENGTH_MAX: Final = 128  # a token's subject

# --- signed requests
SIGNATURE_FIELD_LENGTH_MAX: Final = 4_096  # of Signature-Input and of Signature
SIGNATURES_MAX: Final = 4  # of one request: ours, and those of proxies and agents on the way
SIGNATURE_COMPONENTS_MAX: Final = 32

# --- media of posts
MEDIA_VIEW_TTL_S: Final = 300  # of a signed rendition

# --- refunds, webhooks, disputes, settlements
SIMULATOR_WEBHOOK_AGE_MAX_S: Final = 3 * 86_400  # then a delivery is given up, and counted
