"""Bounds of the card vault."""

from __future__ import annotations

from typing import Final

CARD_NUMBER_LENGTH_MAX: Final = 40  # as typed, with blanks and dashes
CARD_YEARS_AHEAD_MAX: Final = 50
VAULT_BODY_BYTES_MAX: Final = 4 * 1024  # of a card
VAULT_FORWARD_BODY_BYTES_MAX: Final = 64 * 1024
VAULT_ANSWER_BYTES_MAX: Final = 64 * 1024  # of a processor
VAULT_PATH_LENGTH_MAX: Final = 256
VAULT_REQUESTS_OF_CALLERS_MAX: Final = 1_024  # under way in one process; our workers have VAULT_FORWARDS_MAX besides
VAULT_REQUESTS_OF_STRANGERS_MAX: Final = 128  # of all who show no token
VAULT_BURST_OF_CALLER_MAX: Final = 2_000  # requests of one merchant at once, in one process; past it 429
VAULT_RATE_OF_CALLER: Final = 200  # a second, from then on
VAULT_BURST_OF_STRANGERS_MAX: Final = 300  # requests of one network without a valid token
VAULT_RATE_OF_STRANGERS: Final = 10  # a second, from then on
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
