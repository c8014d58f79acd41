"""What ends: exports written, tenants deleted, keys certified as destroyed."""

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
    from sinks.tenancy.root_keys import RootKeys
    from sinks.tenancy.shredded import Shredded

SQL: Final = queries("dataflows.tenancy.mover", "mover.sql")
_SECOND_US: Final = 1_000_000
_LEAVES: Final = "offboarding"  # its tenant writes no more, and is exported next
_OF_ALL: Final = ", ".join((*seals.PURPOSES, "retries"))
_BACKUPS: Final = {"store": "backups of the database", "proof": "no process opens keys of this tenant that come back"}
_encode: Final = msgspec.json.Encoder().encode


def export(places: Places, root_keys: RootKeys, now: int) -> bool:
    """Writes the exports that are asked for; a tenant on its way out is exported then."""
    found = places.control.execute(SQL["exports_running"].encode(), {"limit": limits.MOVER_ITEMS_MAX}).fetchall()
    return each(places, "export", found, lambda row: _export(places, root_keys, row[0], row[1], now))


def _export(places: Places, root_keys: RootKeys, tenant_id: str, export_id: str, now: int) -> bool:
    """What was committed at one moment. It is ready once nobody can have it for all of a tenant that wrote since."""
    named = {"tenant_id": tenant_id, "export_id": export_id}
    try:
        with places.control.transaction():
            places.control.execute(b"set transaction isolation level repeatable read")
            state = _state(places, tenant_id)
            written = _write(places, root_keys, named)
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


def _write(places: Places, root_keys: RootKeys, named: dict[str, str]) -> dict[str, Any]:
    """All parts, in place of those of a try before; how many resources they are of, and the hash of their lines."""
    place = places.serving(named["tenant_id"])
    places.control.execute(SQL["export_begun"].encode(), named)
    keys = _keys(places, root_keys, place.tenant_id)
    newest = max(keys)
    digest, resources = hashlib.sha256(), 0
    for part, lines in enumerate(_pages(places, place, keys)):
        text = b"".join(lines)
        digest.update(text)
        resources += len(lines)
        sealed = keys[newest].seal("exports", f"{named['export_id']}:{part}", text)
        places.control.execute(SQL["export_part"].encode(), named | {"part": part, "sealed": sealed})
    return {"resources": resources, "sha256": digest.hexdigest()}


def _keys(places: Places, root_keys: RootKeys, tenant_id: str) -> dict[int, TenantKey]:
    """The tenant's keys in the clear. Raises KeyShredded, and Unavailable where no row says so."""
    rows = _key_rows(places, tenant_id)
    plain = {v: root_keys.unwrap(tenant_id, v, root, bytes(wrapped)) for v, root, wrapped, _ in rows if wrapped}
    if not rows:
        raise errors.Unavailable("The keys of this tenant are missing.", tenant=tenant_id)
    if not plain:
        raise errors.KeyShredded
    return {key_version: TenantKey(tenant_id, key_version, key) for key_version, key in plain.items()}


def _key_rows(places: Places, tenant_id: str) -> list[tuple[Any, ...]]:
    return places.control.execute(SQL["keys_of"].encode(), {"tenant_id": tenant_id}).fetchall()


def _pages(places: Places, place: Place, keys: dict[int, TenantKey]) -> Iterator[list[bytes]]:
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
            plain = _opened(sealed, keys, id_)
            lines.append(_encode({"resource_id": id_, "version": version, "payload": msgspec.Raw(plain)}) + b"\n")
        yield lines


def _of_version(row: Row | None, id_: str, version: int) -> bytes:
    """The payload that its head tells of, also in a database that the head's moment is not shared with."""
    if row is None or row[1] != version:
        found = "no row" if row is None else f"version {row[1]}"
        raise errors.Unavailable(f"The store has {found} of {id_}, whose version is {version}.")
    return row[2]


def _opened(sealed: bytes, keys: dict[int, TenantKey], id_: str) -> bytes:
    key_version = seals.key_version_of(sealed)
    if key_version not in keys:
        raise errors.Unavailable(f"Version {key_version} of the tenant's key is missing: {id_} is sealed with it.")
    return keys[key_version].unseal("resources", id_, sealed)


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
        _BACKUPS,
    ]
    with places.control.transaction():
        places.control.execute(SQL["delete_lasts"].encode(), {"at_most": str(limits.MOVER_DELETE_MAX_MS)})
        certificate_id = _certify(places, certificates, place.tenant_id, "deletion", stores, now)
        done = {"tenant_id": place.tenant_id, "certificate_id": certificate_id, "now": now}
        places.control.execute(SQL["deleted_rest"].encode(), done)
        places.control.execute(SQL["tenant_deleted"].encode(), done)
        places.control.execute(SQL["placement_retired"].encode(), {"placement_id": place.placement_id})
    return True


def _left(places: Places, place: Place) -> int:
    return len(places.rows_after(place, "", 1)) if place.mode == "pooled" else 0


def certify_shredded(places: Places, certificates: CertificateKeys, shredded: Shredded, now: int) -> bool:
    """Signs that keys are destroyed, once every process has forgotten them."""
    before = now - limits.SHRED_CERTIFIED_AFTER_S * _SECOND_US
    asked = {"before": before, "limit": limits.MOVER_ITEMS_MAX}
    found = places.control.execute(SQL["shredded"].encode(), asked).fetchall()
    due = map(place_of, found)
    return each(places, "certify", due, lambda place: _certify_shredded(places, certificates, shredded, place, now))


def _certify_shredded(
    places: Places, certificates: CertificateKeys, shredded: Shredded, place: Place, now: int
) -> bool:
    shredded.add([place.tenant_id])
    sample = places.rows_after(place, "", limits.SHRED_SAMPLE_ROWS)
    left = sum(wrapped is not None for _, _, wrapped, _ in _key_rows(places, place.tenant_id))
    if left:
        raise errors.InvariantViolation("A destroyed key is still there.")
    rows = hashlib.sha256(b"".join(sealed for _, _, sealed, _ in sample)).hexdigest()
    (parts,) = places.control.execute(SQL["export_parts"].encode(), {"tenant_id": place.tenant_id}).fetchone() or (0,)
    stores = [
        {"store": "postgres:tenant_key", "proof": f"no wrapped key is left; from it came the keys of {_OF_ALL}"},
        {
            "store": f"{place.mode}:{place.placement_id}",
            "proof": f"{len(sample)} rows lie without a key: {rows}",
        },
        {"store": "postgres:tenant_export_part", "proof": f"{parts} parts of exports lie without a key"},
        {
            "store": "kafka, idempotency, outbox",
            "proof": "what they hold was sealed with these keys",
        },
        _BACKUPS,
    ]
    with places.control.transaction():
        certificate_id = _certify(places, certificates, place.tenant_id, "key_shred", stores, now)
        certified = {"tenant_id": place.tenant_id, "certificate_id": certificate_id}
        places.control.execute(SQL["keys_certified"].encode(), certified)

    return True


def _certify(
    places: Places, certificates: CertificateKeys, tenant_id: str, kind: str, stores: list[dict[str, str]], now: int
) -> str:
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
