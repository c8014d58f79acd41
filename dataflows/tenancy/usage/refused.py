"""Records of usage that do not count are kept for people, up to a bound; what a person sends again is judged again.

Kept in the transaction in which the position moves, so each once. Judged again in one transaction with its count:
killed anywhere, it is counted or still asked. Whose sender is not known is never counted: no key, no effect.
"""

from __future__ import annotations

import hashlib
import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

import psycopg
import structlog

from dataflows.owner import fail_points
from dataflows.tenancy.usage.counting import SQL, Metered, count
from dataflows.tenancy.usage.metrics import count as count_metrics
from dataflows.tenancy.usage.records import metered
from schemas import identity
from schemas.tenancy import limits
from schemas.tenancy.refused_usage import Kept, kept
from schemas.tenancy.usage_topic import USAGE_PARTITIONS
from schemas.topics import partition_for
from sinks import limits as sinks_limits
from sinks.postgres import owner_connection
from sinks.postgres.arrays import Bigints, Booleans, Integers, Texts, Times

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dataflows.owner.senders import Senders
    from sinks.postgres.owner_connection import OwnerConnection

_log: Final = structlog.get_logger(__name__)
_TIME_REASON: Final = "wrong_time"


class Refused(NamedTuple):
    """A record that does not count, as it is kept."""

    refused_id: str
    partition: int
    offset: int
    reason: str
    sender: str  # "" = nobody who is known
    key: str
    kept: Kept
    size_bytes: int
    appended_us: int


def refused(
    place: tuple[int, int], reason: str, sender: str, key: bytes, value: bytes, appended_us: int, headers: Iterable[str]
) -> Refused:
    """``place``: partition and offset. The same record has the same id, another one at that place another."""
    partition, offset = place
    digest = hashlib.sha256(key + b"\x1f" + value).hexdigest()
    id_ = identity.derived_id("ur", str(partition), str(offset), digest)
    keeps = kept(key, value, headers)
    named = key.decode(errors="replace")[: limits.USAGE_TEXT_LENGTH_MAX].replace("\x00", "\ufffd")
    return Refused(id_, partition, offset, reason, sender, named, keeps, len(value), appended_us)


def keep(connection: OwnerConnection, records: Sequence[Refused]) -> None:
    """In the transaction that is open; the first ones of each sender stay where there is no room for all."""
    if not records:
        return
    columns = {
        "ids": Texts([one.refused_id for one in records]),
        "partitions": Integers([one.partition for one in records]),
        "offsets": Bigints([one.offset for one in records]),
        "reasons": Texts([one.reason for one in records]),
        "senders": Texts([one.sender for one in records]),
        "tenants": Texts([one.key.partition(":")[0] for one in records]),
        "keys": Texts([one.key for one in records]),
        "said": Texts([one.kept.said for one in records]),
        "fields": Texts([" ".join(one.kept.fields) for one in records]),
        "whole": Booleans([one.kept.is_whole for one in records]),
        "bytes": Integers([one.size_bytes for one in records]),
        "appended": Times([one.appended_us for one in records]),
    }
    connection.execute(SQL["refused_insert"].encode(), columns | {"kept_max": limits.USAGE_REFUSED_KEPT_MAX})


def judged_again(
    key: bytes, said: bytes, appended_us: int, now_us: int, sender: str, scopes: Iterable[str], fields: Iterable[str]
) -> Metered | str:
    """As ``metered`` of the record itself, under other scopes and at another time.

    Its age is judged as it came, for waiting here made it no older; what was ahead of the clock may be past by now.
    """
    among, names = tuple(scopes), tuple(fields)
    found = metered(key, said, appended_us, sender, among, names)
    return metered(key, said, now_us, sender, among, names) if found == _TIME_REASON else found


class SentAgain:
    """One loop; several at once count nothing twice."""

    def __init__(self, dsn: str, name: str, senders: Senders) -> None:
        self._dsn = dsn
        self._name = name
        self._senders = senders
        self._stop = threading.Event()

    def stop(self) -> None:
        """Ends ``run`` soon."""
        self._stop.set()

    def run(self) -> None:
        """Judges what people ask for, until ``stop``; Postgres is waited for."""
        while not self._stop.is_set():
            try:
                with owner_connection.connect(self._dsn, self._name) as connection:
                    while not self._stop.is_set():
                        if not judge_next(connection, self._senders):
                            self._stop.wait(limits.USAGE_REFUSED_POLL_S)
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                _log.warning("usage_sent_again_waits", error=str(error).partition("\n")[0])
                self._stop.wait(sinks_limits.STREAM_JOIN_AGAIN_S)


def judge_next(connection: OwnerConnection, senders: Senders) -> bool:
    """Judges one that is asked for; whether there was any. Raises psycopg.Error."""
    senders.look()
    with connection.transaction():
        rows = connection.execute(SQL["refused_asked"].encode()).fetchall()
        for refused_id, reason, sender, key, said, fields, appended_us in rows:
            found: Metered | str = "sender_unknown"
            if (scopes := senders.outside_scopes(sender)) is not None:
                now_us = time.time_ns() // 1_000
                found = judged_again(key.encode(), said.encode(), appended_us, now_us, sender, scopes, fields)
            state = "open" if isinstance(found, str) else _count(connection, found, key)
            why = found if isinstance(found, str) else reason
            became = {"refused_id": refused_id, "state": state, "reason": why}
            connection.execute(SQL["refused_became"].encode(), became)
            fail_points.reach("metering_before_refused_counted")
            _log.info("refused_usage_judged", refused_id=refused_id, state=state, reason=why)
    return bool(rows)


def _count(connection: OwnerConnection, usage: Metered, key: str) -> str:
    """Counts it where the stream counts its identity, so that both never do; what became of it."""
    counted = count(connection, {partition_for(key, USAGE_PARTITIONS): [usage]})
    count_metrics(counted)
    return "counted" if counted.counted else "repeated" if counted.repeated else "contradicted"
