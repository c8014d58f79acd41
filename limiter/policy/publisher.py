"""Signs what is in force: a snapshot for every revision of policies, shard map and denied callers, renewed in time.

Runs beside the owners of policies. Two of them may sign the same revision: either document is as good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import psycopg
import structlog

from limiter.policy.calendars import calendars_of, named_calendars
from limiter.policy.denied_keys import digests
from limiter.policy.shard_map import decoded
from limiter.policy.snapshot import Snapshot, described, digest, key_id, sign
from schemas.limiter import limits
from schemas.limiter.limit_policy import LimitPolicy
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SQL: Final = queries("sinks.postgres.queries.limiter", "policies.sql")
_policy: Final = msgspec.json.Decoder(LimitPolicy)
_log: Final = structlog.get_logger(__name__)


def publish(connection: psycopg.Connection[Any], key: Ed25519PrivateKey) -> bool:
    """Signs and stores a snapshot when there is none of this revision by this key, or it grows old.

    Raises psycopg.Error.
    """
    signer = key_id(key.public_key())
    row = connection.execute(SQL["snapshot_standing"]).fetchone()
    assert row is not None  # noqa: S101 - an aggregate gives one row
    revision, now, signed, issued_at, signed_by = row
    if signed is not None:
        is_young = issued_at + limits.LIMIT_SNAPSHOT_RENEW_S > now
        if signed >= revision and is_young and signed_by == signer:
            return False
    rows = connection.execute(SQL["snapshot_contents"]).fetchall()
    revision, shards, _ = rows[0]
    # read after the revision that counts them: a snapshot never has less than its revision says
    denied = connection.execute(SQL["snapshot_denied"]).fetchall()
    policies = [_policy.decode(body) for _, _, body in rows if body is not None]
    calendars = calendars_of(policies, now)
    if unknown := named_calendars(policies) - {found.calendar for found in calendars}:
        zones = sorted({calendar.time_zone for calendar in unknown})
        _log.error("time_zones_unknown", time_zones=zones, hint="update tzdata: failure modes decide meanwhile")
    snapshot = Snapshot(
        revision=revision,
        issued_at=now,
        not_after=now + limits.LIMIT_SNAPSHOT_LIFE_S,
        policies=policies,
        shards=decoded(shards),
        calendars=calendars,
        denied=tuple(sorted({one for row in denied for one in digests(*row)})),
    )
    document = sign(snapshot, key)
    connection.execute(SQL["snapshot_insert"], (snapshot.revision, now, digest(document), document, signer))
    connection.execute(SQL["snapshot_prune"], (snapshot.revision, now))
    _log.info("snapshot_published", **described(snapshot))
    return True
