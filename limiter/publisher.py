"""Signs what is in force: a snapshot for every revision of the policies, renewed before it expires.

Runs beside the owners of policies. Two of them may sign the same revision: either document is as good.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import msgspec
import psycopg
import structlog

from limiter.snapshot import Snapshot, described, digest, sign
from schemas import limits
from schemas.limit_policy import LimitPolicy
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SQL: Final = queries("sinks.postgres.queries", "limiter.sql")
_policy: Final = msgspec.json.Decoder(LimitPolicy)
_log: Final = structlog.get_logger(__name__)


class SnapshotPublisher:
    """A thread that keeps the newest snapshot in Postgres in step with the policies, until ``stop``."""

    def __init__(self, dsn: str, key: Ed25519PrivateKey) -> None:
        self._dsn = dsn
        self._key = key
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="snapshot-publisher", daemon=True)

    def start(self) -> None:
        """Returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread within the bound of one round."""
        self._stop.set()
        self._thread.join(limits.POLICIES_READ_TIMEOUT_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with psycopg.connect(self._dsn, autocommit=True, connect_timeout=5) as connection:
                    while not self._stop.wait(limits.LIMIT_SNAPSHOT_POLL_S):
                        publish(connection, self._key)
            except psycopg.Error as error:
                _log.warning("snapshot_not_published", reason=type(error).__name__)
                self._stop.wait(limits.LIMIT_STORE_RETRY_S)


def publish(connection: psycopg.Connection[Any], key: Ed25519PrivateKey) -> bool:
    """Signs and stores a snapshot when there is none of this revision, or it grows old. Raises psycopg.Error."""
    newest = connection.execute(SQL["snapshot_newest"]).fetchone()
    row = connection.execute(SQL["snapshot_revision"]).fetchone()
    assert row is not None  # noqa: S101 - an aggregate gives one row
    revision, now = row
    if newest and newest[0] >= revision and newest[1] + limits.LIMIT_SNAPSHOT_RENEW_S > now:
        return False
    rows = connection.execute(SQL["snapshot_policies"]).fetchall()
    snapshot = Snapshot(
        revision=rows[0][0] if rows else 0,
        issued_at=now,
        not_after=now + limits.LIMIT_SNAPSHOT_LIFE_S,
        policies=[_policy.decode(body) for _, body in rows],
    )
    document = sign(snapshot, key)
    connection.execute(SQL["snapshot_insert"], (snapshot.revision, now, digest(document), document))
    connection.execute(SQL["snapshot_prune"], (snapshot.revision, now))
    _log.info("snapshot_published", **described(snapshot))
    return True
