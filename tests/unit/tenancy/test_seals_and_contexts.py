"""What is sealed opens in its own place alone; a comparison of two sides finds every kind of difference."""

from __future__ import annotations

import hmac
import itertools
import secrets
from typing import get_args

import pytest
from joserfc import jws
from joserfc.jwk import KeySet

from dataflows.tenancy.domain.comparison import Comparison, count
from schemas import errors
from schemas.crypto import sealing
from schemas.crypto.sealing import SealBroken
from schemas.tenancy import limits
from sinks import certificates
from sinks.certificates import CertificateKeys
from sinks.tenancy import root_keys, seals, secrets_file, store_files
from sinks.tenancy import shredded as shredded_file
from sinks.tenancy.seals import Purpose, TenantKey
from sinks.tenancy.shredded import Shredded

KEY = secrets.token_bytes(sealing.KEY_BYTES)


@pytest.mark.parametrize("purpose", seals.PURPOSES)
def test_what_is_sealed_opens_for_its_tenant_purpose_and_place_under_its_key_alone(purpose: Purpose) -> None:
    key = TenantKey("tn_a", 3, KEY)
    sealed = key.seal(purpose, "rs_1", b"payload")
    assert key.unseal(purpose, "rs_1", sealed) == b"payload"
    assert seals.key_version_of(sealed) == 3
    assert b"payload" not in sealed
    (other,) = seals.PURPOSES.keys() - {purpose}
    relabelled = bytes([seals.PURPOSES[other]]) + sealed[1:]
    for bytes_, opens, as_, place in (
        (sealed, TenantKey("tn_b", 3, KEY), purpose, "rs_1"),  # transplanted to another tenant
        (sealed, key, purpose, "rs_2"),  # to another resource
        (sealed, key, other, "rs_1"),  # to another purpose, be it as it is
        (relabelled, key, other, "rs_1"),  # or with that purpose written on it
        (b"\7" + sealed[1:], key, purpose, "rs_1"),  # to none that there is
        (b"\0" + sealed[1:], key, purpose, "rs_1"),  # or as one of before there were purposes
        (sealed, TenantKey("tn_a", 3, secrets.token_bytes(sealing.KEY_BYTES)), purpose, "rs_1"),
        (sealed, TenantKey("tn_a", 4, KEY), purpose, "rs_1"),
        (sealed[:7] + b"\4" + sealed[8:], TenantKey("tn_a", 4, KEY), purpose, "rs_1"),
        (sealed[:-1] + bytes([sealed[-1] ^ 1]), key, purpose, "rs_1"),
        (b"short", key, purpose, "rs_1"),
        (b"", key, purpose, "rs_1"),
    ):
        with pytest.raises(SealBroken):
            opens.unseal(as_, place, bytes_)
    assert key.seal(purpose, "rs_1", b"payload") != sealed


@pytest.mark.parametrize("purpose", seals.PURPOSES)
def test_what_was_sealed_before_there_were_purposes_opens_in_its_place(purpose: Purpose) -> None:
    """As releases before wrote it: the version, and the payload under the tenant's key itself."""
    closed = sealing.encrypt(KEY, b"payload", b"millrace/tenancy\x1fpayload\x1ftn_a\x1frs_1\x1f3")
    before = (3).to_bytes(8, "big") + closed
    assert seals.key_version_of(before) == 3
    assert TenantKey("tn_a", 3, KEY).unseal(purpose, "rs_1", before) == b"payload"
    for tenant, place, first in (("tn_b", "rs_1", 0), ("tn_a", "rs_2", 0), ("tn_a", "rs_1", 1), ("tn_a", "rs_1", 7)):
        with pytest.raises(SealBroken):
            TenantKey(tenant, 3, KEY).unseal(purpose, place, bytes([first]) + before[1:])


def test_keys_of_purposes_are_derived_for_ever_alike_and_none_is_another() -> None:
    """By RFC 5869's own formula: a release that derived others would open nothing of what is stored."""
    assert set(get_args(Purpose)) == seals.PURPOSES.keys()
    assert seals.PURPOSES == {"resources": 1, "exports": 2}  # what is sealed names them by these, for ever
    key = TenantKey("tn_a", 3, KEY)
    said = {p: f"millrace/tenancy\x1fpurpose\x1f{p}\x1ftn_a\x1f3".encode() + b"\1" for p in seals.PURPOSES}
    derived = {purpose: hmac.digest(KEY, text, "sha256") for purpose, text in said.items()}
    assert len({KEY, *derived.values(), key.keyed_hash(b"")}) == len(derived) + 2
    for purpose, number in seals.PURPOSES.items():
        bound_to = f"millrace/tenancy\x1fsealed\x1f{purpose}\x1ftn_a\x1frs_1\x1f3".encode()
        sealed = bytes([number]) + (3).to_bytes(7, "big") + sealing.encrypt(derived[purpose], b"payload", bound_to)
        assert key.unseal(purpose, "rs_1", sealed) == b"payload"


def test_who_reads_the_keys_of_a_home_makes_none(tmp_path) -> None:  # type: ignore[no-untyped-def] # a path
    with pytest.raises(errors.Unavailable, match=r"tenancy\.json is gone: put its backup back"):
        secrets_file.read(tmp_path)
    assert list(tmp_path.iterdir()) == []
    made = secrets_file.ensure(tmp_path)
    assert secrets_file.read(tmp_path) == made
    (tmp_path / secrets_file.NAME).write_text("{}")
    with pytest.raises(errors.Unavailable, match="cannot be read"):
        secrets_file.read(tmp_path)


def test_a_wrapped_key_is_of_one_tenant_and_version(tmp_path) -> None:  # type: ignore[no-untyped-def] # a path
    held = secrets_file.ensure(tmp_path)
    assert secrets_file.ensure(tmp_path) == held
    assert (tmp_path / secrets_file.NAME).stat().st_mode & 0o077 == 0
    assert not any(
        key.hex() in repr(held) or repr(key) in repr(held) for key in (*held.root_keys.values(), held.context_key)
    )
    roots = root_keys.RootKeys(held)
    newest, wrapped = roots.new_wrapped("tn_a", 1)
    assert newest == roots.newest
    assert len(roots.unwrap("tn_a", 1, newest, wrapped)) == sealing.KEY_BYTES
    for tenant, version in (("tn_b", 1), ("tn_a", 2)):
        with pytest.raises(SealBroken):
            roots.unwrap(tenant, version, newest, wrapped)


def test_what_was_shredded_is_opened_by_nobody_whatever_the_database_has(tmp_path) -> None:  # type: ignore[no-untyped-def] # a path
    """A backup has the wrapped key; a line that a crash cut short hides none, a file that is gone takes nothing back."""
    roots, shredded = root_keys.RootKeys(secrets_file.ensure(tmp_path)), Shredded(tmp_path)
    newest, wrapped = roots.new_wrapped("tn_a", 1)
    assert roots.unwrap("tn_a", 1, newest, wrapped)
    file = tmp_path / shredded_file.NAME
    file.write_text("\ntn_b\ntn_")
    shredded.add(["tn_b", "tn_a"])
    assert {"tn_a", "tn_b"} < Shredded(tmp_path).all()
    assert file.read_text().split().count("tn_b") == 1
    for _ in range(2):
        with pytest.raises(errors.KeyShredded):  # from which alone the keys of all purposes come
            roots.unwrap("tn_a", 1, newest, wrapped)
        file.unlink(missing_ok=True)
    shredded.add(["tn_c"])
    assert {"tn_a", "tn_b", "tn_c"} < set(file.read_text().split())
    assert file.stat().st_mode & 0o077 == 0


def test_root_keys_change_under_who_holds_them(tmp_path) -> None:  # type: ignore[no-untyped-def] # a path
    """Prepared, rotated, removed while a process goes on; a file that is gone or another home's changes nothing in it."""
    path, roots = tmp_path / secrets_file.NAME, root_keys.RootKeys(secrets_file.ensure(tmp_path))
    first, wrapped = roots.new_wrapped("tn_a", 1)
    key = roots.unwrap("tn_a", 1, first, wrapped)
    second = root_keys.prepare(tmp_path)
    with pytest.raises(errors.StateConflict, match="prepared already"):
        root_keys.prepare(tmp_path)
    assert (root_keys.states(tmp_path), roots.newest) == ({first: "wraps", second: "prepared"}, first)
    assert root_keys.rotate(tmp_path) == second
    with pytest.raises(errors.StateConflict, match="rotate first"):
        root_keys.remove(tmp_path, second)
    with pytest.raises(errors.NotFound):
        root_keys.remove(tmp_path, "rk_none")
    named, anew = roots.wrapped_anew("tn_a", 1, first, wrapped)
    assert (named, roots.unwrap("tn_a", 1, second, anew)) == (second, key)
    kept = path.read_text()
    for other in (None, "no JSON", (tmp_path / "other" / secrets_file.NAME)):
        if other is None:
            path.unlink()
        elif isinstance(other, str):
            path.write_text(other)
        else:
            secrets_file.ensure(other.parent)
            path.write_bytes(other.read_bytes())
        assert roots.new_wrapped("tn_a", 2)[0] == second
        assert roots.unwrap("tn_a", 1, first, wrapped) == key
    path.write_text(kept)
    root_keys.remove(tmp_path, first)
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(errors.Unavailable, match="not at hand"):
        roots.unwrap("tn_a", 1, first, wrapped)
    assert roots.unwrap("tn_a", 1, second, anew) == key
    for _ in range(limits.ROOT_KEYS_MAX - 1):
        root_keys.rotate(tmp_path)
    with pytest.raises(errors.StateConflict, match="too many"):
        root_keys.rotate(tmp_path)


def test_a_certificate_is_signed_over_all_that_it_says(tmp_path) -> None:  # type: ignore[no-untyped-def] # a path

    keys = CertificateKeys(tmp_path)
    keys.ensure()
    text, signed = keys.sign({"certificate_id": "ce_1", "note": "ä"})
    public = keys.public()
    assert not any("d" in key for key in public["keys"])
    found = jws.deserialize_compact(signed, KeySet.import_key_set(public), algorithms=["Ed25519"])
    assert (found.payload or b"").decode() == text


def test_what_a_lost_key_signed_is_proved_by_what_is_known_of_it(tmp_path) -> None:  # type: ignore[no-untyped-def] # a path
    keys = CertificateKeys(tmp_path)
    with pytest.raises(errors.Unavailable):
        keys.public()
    with pytest.raises(errors.Unavailable):
        keys.sign({"certificate_id": "ce_1"})
    keys.ensure()
    text, signed = keys.sign({"certificate_id": "ce_1"})
    known = keys.public()["keys"]
    assert keys.public(known)["keys"] == known
    (tmp_path / certificates.NAME).unlink()
    assert keys.public(known)["keys"] == known
    keys.ensure()
    served = keys.public(known)
    assert len(served["keys"]) == 2
    found = jws.deserialize_compact(signed, KeySet.import_key_set(served), algorithms=["Ed25519"])
    assert (found.payload or b"").decode() == text


def test_a_comparison_tells_each_kind_of_difference_and_takes_no_wrong_pair_for_equal() -> None:
    """Every pair of sides: equal only where version, content and tombstone are the same."""
    sides = [
        None,
        *((version, content, deleted) for version in (1, 2) for content in (b"x", b"y") for deleted in (False, True)),
    ]
    for newest, source, target in itertools.product((1, 2), sides, sides):
        if source is not None and source[0] > newest:
            continue
        found = Comparison()
        count(found, newest, source, target)
        assert sum(getattr(found, name) for name in found.__struct_fields__) == 1
        assert (found.match == 1) == (source is not None and source == target)
        assert found.is_equal == (found.match == 1)
        if target is not None and target[0] > newest:
            assert found.is_wrong
        if source is not None and target is not None and source[0] == target[0] and source != target:
            assert found.is_wrong


def test_a_keyed_hash_is_of_its_key_and_of_what_was_hashed() -> None:
    """And the same in every release, or a retry after an upgrade would be another request."""
    keys = (b"a" * 32, b"b" * 32)
    found = {TenantKey("tn_a", 1, key).keyed_hash(plain): (key, plain) for key in keys for plain in (b"x", b"y")}
    assert len(found) == 4
    for hash_, (key, plain) in found.items():
        assert hash_ == hmac.digest(key, b"millrace/tenancy\x1frequest_hash" + plain, "sha256")


def test_stores_have_the_migrations_that_are_named_so() -> None:
    assert [name for name, _ in store_files.store_files()] == [
        "0068_1_tenant_store.sql",
        "0085_tenant_store_files.sql",
        "0150_tenant_store_proof.sql",
        "0238_tenant_store_policy.sql",
        "0246_tenant_store_quick_proof.sql",
        "0297_tenant_store_reseal.sql",
    ]
