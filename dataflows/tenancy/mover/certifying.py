"""Signs that keys are destroyed, once every process that may have held them has said so, or has no lease any more.

In this order: the keys are destroyed (an owner's commit); the tenant is in ``tenancy_shredded``; its shred has a
number, of which whoever has a lease hears with the next renewal; each has acknowledged it, or its lease has ended.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import structlog
from prometheus_client import Gauge

from dataflows.tenancy.mover import endings
from dataflows.tenancy.mover.each import each
from dataflows.tenancy.mover.tenant_rows import place_of
from schemas import errors
from schemas.tenancy import limits
from sinks.postgres.sql_files import queries
from sinks.tenancy import seals

if TYPE_CHECKING:
    from dataflows.tenancy.mover.tenant_rows import Place, Places
    from sinks.certificates import CertificateKeys
    from sinks.tenancy.shredded import Shredded

SQL: Final = queries("dataflows.tenancy.mover", "mover.sql")
_SECOND_US: Final = 1_000_000
_OF_ALL: Final = ", ".join((*seals.PURPOSES, "retries"))
_log: Final = structlog.get_logger(__name__)
UNACKNOWLEDGED: Final = Gauge(
    "millrace_tenancy_shreds_unacknowledged",
    "Processes with a lease on keys of tenants that have not acknowledged a shred within a minute",
)


class Certifying:
    """The shreds of one mover."""

    def __init__(self, places: Places, certificates: CertificateKeys, shredded: Shredded) -> None:
        self._places = places
        self._certificates = certificates
        self._shredded = shredded
        self._told: set[str] = set()  # who holds certificates up

    def further(self, now: int) -> bool:
        """Whether a shred was numbered or certified."""
        some = {"limit": limits.MOVER_ITEMS_MAX}
        new = self._places.control.execute(SQL["shreds_unnumbered"].encode(), some).fetchall()
        numbered = each(self._places, "number a shred", new, self._number)
        asked = some | {"before": now - limits.SHRED_CERTIFIED_AFTER_S * _SECOND_US}
        asked |= {"margin_s": limits.KEY_LEASE_MARGIN_S}
        due = self._places.control.execute(SQL["shredded"].encode(), asked).fetchall()
        self._tell(now)
        return each(self._places, "certify", due, lambda row: self._certify(row, now)) or numbered

    @staticmethod
    def nothing_waits() -> None:
        """There is no shred that somebody could hold up."""
        UNACKNOWLEDGED.set(0)

    def _number(self, row: tuple[Any, ...]) -> bool:
        (tenant_id,) = row
        self._shredded.add([tenant_id])  # before anybody is asked to forget: nobody opens it again
        return self._places.control.execute(SQL["shred_numbered"].encode(), {"tenant_id": tenant_id}).rowcount > 0

    def _tell(self, now: int) -> None:
        """Who goes on renewing its lease, and acknowledges nothing."""
        asked = {"before": now - limits.SHRED_ACKNOWLEDGED_S * _SECOND_US, "margin_s": limits.KEY_LEASE_MARGIN_S}
        late = self._places.control.execute(SQL["holders_late"].encode(), asked).fetchall()
        UNACKNOWLEDGED.set(len(late))
        for holder_id, kind, instance, started_at in late:
            if holder_id not in self._told:
                _log.error(
                    "shred_not_acknowledged",
                    kind=kind,
                    instance=instance,
                    started_at=str(started_at),
                    hint="end this process: no certificate is signed before",
                )
        self._told = {holder_id for holder_id, *_ in late}

    def _certify(self, row: tuple[Any, ...], now: int) -> bool:
        *of_place, shred_seq, destroyed_at = row
        places, place = self._places, place_of(tuple(of_place))
        self._shredded.add([place.tenant_id])
        left = sum(wrapped is not None for _, _, wrapped, _ in endings.key_rows(places, place.tenant_id))
        if left:
            raise errors.InvariantViolation("A destroyed key is still there.")
        stores = [*self._proved(place), self._forgotten(shred_seq, destroyed_at), endings.BACKUPS]
        with places.control.transaction():
            certificate_id = endings.certify(places, self._certificates, place.tenant_id, "key_shred", stores, now)
            certified = {"tenant_id": place.tenant_id, "certificate_id": certificate_id}
            places.control.execute(SQL["keys_certified"].encode(), certified)
        return True

    def _proved(self, place: Place) -> list[dict[str, str]]:
        control = self._places.control
        first = self._places.rows_after(place, "", limits.SHRED_SAMPLE_ROWS + 1)
        sample = first[: limits.SHRED_SAMPLE_ROWS]
        share = "a sample of " if len(first) > len(sample) else ""
        rows = hashlib.sha256(b"".join(sealed for _, _, sealed, _ in sample)).hexdigest()
        (parts,) = control.execute(SQL["export_parts"].encode(), {"tenant_id": place.tenant_id}).fetchone() or (0,)
        return [
            {"store": "postgres:tenant_key", "proof": f"no wrapped key is left; from it came the keys of {_OF_ALL}"},
            {
                "store": f"{place.mode}:{place.placement_id}",
                "proof": f"{share}{len(sample)} rows lie without a key: {rows}",
            },
            {"store": "postgres:tenant_export_part", "proof": f"{parts} parts of exports lie without a key"},
            {
                "store": "kafka, idempotency, outbox",
                "proof": "what they hold was sealed with these keys",
            },
        ]

    def _forgotten(self, shred_seq: int, destroyed_at: int) -> dict[str, str]:
        """Of those that had a lease when the keys were destroyed, or took one since."""
        asked = {"shred_seq": shred_seq, "destroyed_at": destroyed_at}
        found = self._places.control.execute(SQL["holders_counted"].encode(), asked).fetchone()
        acknowledged, ended = found or (0, 0)
        proof = f"holders of keys: {acknowledged} acknowledged the shred, the leases of {ended} had ended"
        return {"store": "memory of processes", "proof": proof}
