"""What ends: exports written, tenants deleted with a certificate."""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dataflows.tenancy.mover.each import each
from dataflows.tenancy.mover.tenant_rows import Place, place_of
from schemas import errors
from schemas.tenancy import limits
from schemas.tenancy.rendering import moment
from sinks.postgres.sql_files import queries
from sinks.tenancy import seals
from sinks.tenancy.seals import TenantKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dataflows.tenancy.mover.tenant_rows import Places, Row
    from sinks.certificates import CertificateKeys
    from sinks.tenancy.key_lease import KeyLease
    from sinks.tenancy.root_keys import RootKeys
    from sinks.tenancy.seals import Purpose
    from sinks.tenancy.shredded import Shredded

SQL: Final = queries("dataflows.tenancy.mover", "mover.sql")
_LEAVES: Final = "offboarding"  # its tenant writes no more, and is exported next
BACKUPS: Final = {"store": "backups of the database", "proof": "no process opens keys of this tenant that come back"}
_encode: Final = msgspec.json.Encoder().encode


def export(places: Places, root_keys: RootKeys, lease: KeyLease, now: int) -> bool:
    """Writes the exports that are asked for; a tenant on its way out is exported then."""
    found = places.control.execute(SQL["exports_running"].encode(), {"limit": limits.MOVER_ITEMS_MAX}).fetchall()
    return each(places, "export", found, lambda row: _export(places, root_keys, lease, row[0], row[1], now))


def _export(places: Places, root_keys: RootKeys, lease: KeyLease, tenant_id: str, export_id: str, now: int) -> bool:
    """What was committed at one moment. It is ready once nobody can have it for all of a tenant that wrote since."""
    named = {"tenant_id": tenant_id, "export_id": export_id}
    try:
        with places.control.transaction():
            places.control.execute(b"set transaction isolation level repeatable read")
            state = _state(places, tenant_id)
            written = _write(places, root_keys, lease, named)
    except errors.KeyShredded:
        places.control.execute(SQL["export_failed"].encode(), named)
        return True
    with places.control.transaction():
        if _state(places, tenant_id, lock=True) == _LEAVES and state != _LEAVES:
            return True  # it wrote after that moment: exported anew, for whoever deletes it then
        places.control.execute(SQL["export_ready"].encode(), named | written)
        places.control.execute(SQL["tenant_exported"].encode(), {"tenant_id": tenant_id, "now": now})
    return True


def _state(places: Places, tenant_id: str, *, lock: bool = False) -> str:
    query = SQL["tenant_state_locked" if lock else "tenant_state"]
    row = places.control.execute(query.encode(), {"tenant_id": tenant_id}).fetchone()
    if row is None:
        raise errors.NotFound
    return str(row[0])


def _write(places: Places, root_keys: RootKeys, lease: KeyLease, named: dict[str, str]) -> dict[str, Any]:
    """All parts, in place of those of a try before; how many resources they are of, and the hash of their lines."""
    place = places.serving(named["tenant_id"])
    places.control.execute(SQL["export_begun"].encode(), named)
    keys = OpenKeys(places, root_keys, lease, place.tenant_id)
    digest, resources = hashlib.sha256(), 0
    for part, lines in enumerate(_pages(places, place, keys)):
        text = b"".join(lines)
        digest.update(text)
        resources += len(lines)
        sealed = keys.seal("exports", f"{named['export_id']}:{part}", text)
        places.control.execute(SQL["export_part"].encode(), named | {"part": part, "sealed": sealed})
    return {"resources": resources, "sha256": digest.hexdigest()}


class OpenKeys:
    """A tenant's keys in the clear, for as long as one export takes; each use looks at the lease."""

    def __init__(self, places: Places, root_keys: RootKeys, lease: KeyLease, tenant_id: str) -> None:
        """Raises KeyShredded, and Unavailable where no row says so, or without a lease."""
        self._tenant_id, self._lease, self._term = tenant_id, lease, lease.term  # of before the rows are read
        rows = key_rows(places, tenant_id)
        with lease.using:
            lease.require(tenant_id, self._term)
            plain = {v: root_keys.unwrap(tenant_id, v, root, bytes(key)) for v, root, key, _ in rows if key}
        if not rows:
            raise errors.Unavailable("The keys of this tenant are missing.", tenant=tenant_id)
        if not plain:
            raise errors.KeyShredded
        self.newest = max(plain)
        self._keys = {version: TenantKey(tenant_id, version, key) for version, key in plain.items()}

    def seal(self, purpose: Purpose, place: str, plain: bytes) -> bytes:
        """With the newest. Raises KeyShredded, and Unavailable when the lease has ended."""
        with self._lease.using:
            self._lease.require(self._tenant_id, self._term)
            return self._keys[self.newest].seal(purpose, place, plain)

    def unseal(self, id_: str, sealed: bytes, purpose: Purpose = "resources") -> bytes:
        """What is sealed for that place. Raises as ``seal``, and Unavailable without that version of the key."""
        version = seals.key_version_of(sealed)
        if version not in self._keys:
            raise errors.Unavailable(f"Version {version} of the tenant's key is missing: {id_} is sealed with it.")
        with self._lease.using:
            self._lease.require(self._tenant_id, self._term)
            return self._keys[version].unseal(purpose, id_, sealed)


def key_rows(places: Places, tenant_id: str) -> list[tuple[Any, ...]]:
    """All versions of the tenant's key: version, root key, wrapped, state."""
    return places.control.execute(SQL["keys_of"].encode(), {"tenant_id": tenant_id}).fetchall()


def _pages(places: Places, place: Place, keys: OpenKeys) -> Iterator[list[bytes]]:
    """The lines of all live resources in the order of their ids, some at a time."""
    after = ""
    while True:
        asked = {"tenant_id": place.tenant_id, "placement_id": place.placement_id, "after": after}
        heads = places.control.execute(
            SQL["heads_after"].encode(), asked | {"limit": limits.EXPORT_PAGE_ROWS}
        ).fetchall()
        if not heads:
            return
        after = heads[-1][0]
        stored = places.rows(place, [id_ for id_, _, deleted, image in heads if image is None and not deleted])
        lines: list[bytes] = []
        for id_, version, deleted, image in heads:
            if deleted:
                continue
            sealed = bytes(image) if image is not None else _of_version(stored.get(id_), id_, version)
            plain = keys.unseal(id_, sealed)
            lines.append(_encode({"resource_id": id_, "version": version, "payload": msgspec.Raw(plain)}) + b"\n")
        yield lines


def _of_version(row: Row | None, id_: str, version: int) -> bytes:
    """The payload that its head tells of, also in a database that the head's moment is not shared with."""
    if row is None or row[1] != version:
        found = "no row" if row is None else f"version {row[1]}"
        raise errors.Unavailable(f"The store has {found} of {id_}, whose version is {version}.")
    return row[2]


def delete(places: Places, certificates: CertificateKeys, shredded: Shredded, now: int) -> bool:
    """Empties every store of tenants that are to go, and signs that it is so."""
    found = places.control.execute(SQL["deleting"].encode(), {"limit": limits.MOVER_ITEMS_MAX}).fetchall()
    gone = map(place_of, found)
    return each(places, "delete", gone, lambda place: _delete(places, certificates, shredded, place, now))


def _delete(places: Places, certificates: CertificateKeys, shredded: Shredded, place: Place, now: int) -> bool:
    shredded.add([place.tenant_id])  # before anything says that it is gone
    removed = places.empty(place)
    left = _left(places, place)
    proof = f"{removed} rows were removed, {left} are left" if place.mode == "pooled" else "the store was dropped"
    stores = [
        {"store": f"{place.mode}:{place.placement_id}", "proof": proof},
        {
            "store": "postgres:control",
            "proof": "no head, counter, image, export or key of the tenant is left; bills stay",
        },
        BACKUPS,
    ]
    with places.control.transaction():
        places.control.execute(SQL["delete_lasts"].encode(), {"at_most": str(limits.MOVER_DELETE_MAX_MS)})
        certificate_id = certify(places, certificates, place.tenant_id, "deletion", stores, now)
        done = {"tenant_id": place.tenant_id, "certificate_id": certificate_id, "now": now}
        places.control.execute(SQL["deleted_rest"].encode(), done)
        places.control.execute(SQL["tenant_deleted"].encode(), done)
        places.control.execute(SQL["placement_retired"].encode(), {"placement_id": place.placement_id})
    return True


def _left(places: Places, place: Place) -> int:
    return len(places.rows_after(place, "", 1)) if place.mode == "pooled" else 0


def certify(
    places: Places, certificates: CertificateKeys, tenant_id: str, kind: str, stores: list[dict[str, str]], now: int
) -> str:
    """Signs what became of a tenant's stores. Gives the certificate's id."""
    certificate_id = f"ce_{secrets.token_hex(12)}"
    document = {
        "certificate_id": certificate_id,
        "kind": kind,
        "tenant_id": tenant_id,
        "issued_at": moment(now),
        "stores": stores,
    }
    text, signed = certificates.sign(document)
    row = {"tenant_id": tenant_id, "certificate_id": certificate_id, "document": text, "jws": signed}
    places.control.execute(SQL["certificate"].encode(), row)
    return certificate_id
