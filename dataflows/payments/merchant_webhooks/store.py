"""Endpoints and deliveries in Postgres. Every method may raise psycopg.OperationalError: it is done again.

What is durable when: a planned delivery together with the position behind its event; a claim before the send; what
came of a send after it. A claim that is never marked comes due again when its lease is over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
import psycopg_pool
import structlog

from dataflows.owner import fail_points
from dataflows.payments.merchant_webhooks.metrics import MerchantWebhookMetrics
from dataflows.payments.merchant_webhooks.planning import Endpoint, plan
from schemas import limits
from schemas.crypto.sealing import KeyMissing, SealBroken, Sealed
from schemas.errors import PlatformError
from schemas.payments import limits as payments_limits
from schemas.payments.webhook_secret import WebhookSecretKeys
from schemas.records import Event
from sinks import limits as sinks_limits
from sinks.postgres.session import INDEXED, NOT_HELD, Session
from sinks.postgres.sql_files import queries

log = structlog.get_logger()
_SESSION: Final = (
    f"{INDEXED} {NOT_HELD} -c synchronous_commit=on"
    f" -c statement_timeout={payments_limits.MERCHANT_WEBHOOK_STATEMENT_TIMEOUT_MS}"
)


@dataclass(frozen=True, slots=True)
class Claim:
    """One delivery that this process may try now, and where it goes."""

    id: str
    endpoint_id: str
    merchant_id: str
    event_id: str
    tries: int  # this one included
    body: bytes = field(repr=False)
    url: str


class DeliveryStore:
    """A small pool of connections as the role millrace_worker; any thread may use it."""

    def __init__(self, dsn: str, worker: str, keys: WebhookSecretKeys, metrics: MerchantWebhookMetrics) -> None:
        self._worker = worker
        self._keys = keys
        self._metrics = metrics
        self._sql = {
            name: text.encode()
            for name, text in queries("sinks.postgres.queries.payments", "merchant_webhooks.sql").items()
        }
        self._pool = psycopg_pool.ConnectionPool(
            dsn,
            connection_class=Session,
            min_size=1,
            max_size=payments_limits.MERCHANT_WEBHOOK_POSTGRES_POOL_MAX,
            timeout=sinks_limits.POSTGRES_CONNECT_TIMEOUT_S,
            reconnect_timeout=limits.POSTGRES_RECONNECT_S,
            check=psycopg_pool.ConnectionPool.check_connection,
            open=True,
            kwargs={
                "autocommit": True,
                "application_name": worker,
                "options": _SESSION,
                "connect_timeout": sinks_limits.POSTGRES_CONNECT_TIMEOUT_S,
            },
        )

    def close(self) -> None:
        """Closes every connection."""
        self._pool.close()

    # --- the stream -------------------------------------------------------------------------------------------

    def keep(self, events: Sequence[Event], advance: Callable[[psycopg.Connection], None]) -> int:
        """Makes the deliveries of these events durable together with what ``advance`` stores; how many deliveries.

        Nothing is written when ``advance`` raises.
        """
        with self._pool.connection() as connection, connection.transaction():
            merchants = sorted({event.scope for event in events})
            rows = connection.execute(self._sql["endpoints_of"], {"merchants": merchants}).fetchall()
            names = ("id", "merchant_id", "events", "created_at")
            planned = plan(events, [Endpoint(**dict(zip(names, row, strict=True))) for row in rows])
            if planned:
                columns = {
                    "ids": [d.id for d in planned],
                    "endpoints": [d.endpoint_id for d in planned],
                    "events": [d.event_id for d in planned],
                    "aggregates": [d.aggregate_key for d in planned],
                    "seqs": [d.seq for d in planned],
                    "operations": [d.operation for d in planned],
                    "bodies": [d.body for d in planned],
                }
                connection.execute(self._sql["deliveries_plan"], columns)
                fail_points.reach("merchant_webhook_before_plan")
            advance(connection)
            return len(planned)

    # --- deliveries -------------------------------------------------------------------------------------------

    def claim(self, count: int, busy: Sequence[str], sends: Mapping[str, int]) -> list[Claim]:
        """Deliveries that are due, none of the busy endpoints; each is due again when its lease is over.

        ``sends``: how many are under way here, by merchant. Who has the fewest comes first, and none gets more than its
        share.
        """
        parameters = {
            "count": count,
            "busy": list(busy),
            "merchants": list(sends),
            "sends": list(sends.values()),
            "merchant_max": payments_limits.MERCHANT_WEBHOOK_SENDS_MERCHANT_MAX,
            "endpoint_max": payments_limits.MERCHANT_WEBHOOK_SENDS_ENDPOINT_MAX,
            "lease_s": payments_limits.MERCHANT_WEBHOOK_LEASE_S,
        }
        return [Claim(*row) for row in self._rows("deliveries_claim", parameters)]

    def secrets(self, endpoint_id: str) -> tuple[list[str], int]:
        """The secrets that sign now, the newest first, and when that is, in seconds of the database's clock.

        A secret that does not open is left out. Never log them.
        """
        parameters = {"endpoint": endpoint_id, "overlap_s": payments_limits.MERCHANT_WEBHOOK_SECRET_OVERLAP_S}
        opened, rows = [], self._rows("secrets_of", parameters)
        for secret_id, key_id, wrapped, ciphertext, _ in rows:
            sealed = Sealed(key_id=key_id, wrapped_key=bytes(wrapped), ciphertext=bytes(ciphertext))
            try:
                opened.append(self._keys.opened(secret_id, endpoint_id, sealed))
            except (KeyMissing, SealBroken) as error:
                self._tell_unreadable(secret_id, error)
        return opened, rows[0][-1] if rows else 0

    def seal_secrets(self) -> int:
        """Every secret that opens is under the newest key afterwards, also a text from before; how many moved."""
        moved, after = 0, ""
        while True:
            with self._pool.connection() as connection, connection.transaction():
                bounds = {
                    "newest": self._keys.newest,
                    "after": after,
                    "count": payments_limits.MERCHANT_WEBHOOK_SEAL_BATCH_MAX,
                }
                rows = connection.execute(self._sql["secrets_to_seal"], bounds).fetchall()
                if not rows:
                    return moved
                sealed = {row[0]: found for row in rows if (found := self._renewed(*row)) is not None}
                columns = {
                    "ids": list(sealed),
                    "key_ids": [one.key_id for one in sealed.values()],
                    "wrapped_keys": [one.wrapped_key for one in sealed.values()],
                    "ciphertexts": [one.ciphertext for one in sealed.values()],
                }
                connection.execute(self._sql["secrets_seal"], columns)
            moved, after = moved + len(sealed), rows[-1][0]

    def _renewed(
        self, secret_id: str, endpoint: str, text: str | None, key_id: str, wrapped: bytes, ciphertext: bytes
    ) -> Sealed | None:
        if text is not None:
            return self._keys.sealed(secret_id, endpoint, text)
        old = Sealed(key_id=key_id, wrapped_key=bytes(wrapped), ciphertext=bytes(ciphertext))
        try:
            return self._keys.renewed(secret_id, endpoint, old)
        except (KeyMissing, SealBroken) as error:
            self._tell_unreadable(secret_id, error)
            return None

    def _tell_unreadable(self, secret_id: str, error: PlatformError) -> None:
        self._metrics.secrets_unreadable.inc()
        log.error("merchant_webhook_secret_unreadable", secret_id=secret_id, cause=error.public)

    def delivered(self, claim: Claim, status: int) -> None:
        """The receiver has it; the first time, that verifies the endpoint."""
        with self._pool.connection() as connection, connection.transaction():
            marked = {"id": claim.id, "tries": claim.tries, "status": status}
            row = connection.execute(self._sql["delivered"], marked).fetchone()
            if row is not None and claim.tries > 1:  # an earlier try may have put off what follows
                self._follow(connection, row)

    def failed(
        self, claim: Claim, wait_s: float | None, status: int | None, error: str, *, is_gone: bool = False
    ) -> bool:
        """Due again after a wait, or given up (None); whether that disabled the endpoint.

        An endpoint is disabled when it says that it is gone, or took nothing during the whole schedule of a delivery.
        """
        with self._pool.connection() as connection, connection.transaction():
            marked = {"id": claim.id, "tries": claim.tries, "wait_s": wait_s, "status": status, "error": error}
            row = connection.execute(self._sql["failed"], marked).fetchone()
            if row is None:
                return False
            self._follow(connection, row[:4])
            if wait_s is not None:
                return False
            reason = "gone" if is_gone else "failed_for_its_whole_schedule"
            terms = {"endpoint": row[0], "reason": reason, "since": row[4], "always": is_gone}
            if connection.execute(self._sql["endpoint_disable"], terms).fetchone() is None:
                return False
            connection.execute(self._sql["deliveries_give_up"], {"endpoint": row[0]})
            return True

    def prune(self) -> int:
        """Deletes old finished deliveries, a bounded number; how many."""
        bounds = {
            "kept_s": payments_limits.MERCHANT_WEBHOOK_KEPT_S,
            "count": payments_limits.MERCHANT_WEBHOOK_PRUNE_BATCH_MAX,
        }
        return len(self._rows("prune", bounds))

    def end_leftovers(self) -> None:
        """Deletes secrets that sign no more, and ends what was planned while its endpoint was being deleted."""
        self._rows("secrets_prune", {"overlap_s": payments_limits.MERCHANT_WEBHOOK_SECRET_OVERLAP_S})
        self._rows("orphans_end", {})

    def _follow(self, connection: psycopg.Connection, marked: tuple[Any, ...]) -> None:
        names = ("endpoint", "aggregate", "seq", "next_at")
        connection.execute(self._sql["deliveries_follow"], dict(zip(names, marked, strict=True)))

    def _rows(self, name: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        with self._pool.connection() as connection:
            cursor = connection.execute(self._sql[name], parameters)
            return cursor.fetchall() if cursor.description else []
