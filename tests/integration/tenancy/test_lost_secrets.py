"""The file that wraps tenants' keys is lost or another home's: nothing starts that would make another in its place.

Of the file that signs certificates another one is made, and what was signed before is proved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from compose.stack.errors import StackError
from compose.supervise.tenant_secrets import begin_contexts
from schemas import errors
from sinks import certificates
from sinks.certificates import CertificateKeys
from sinks.tenancy import contexts, secrets_file

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers import World

pytestmark = [pytest.mark.servers]
_WRAPPED = "insert into tenant_key values ('tn_1', 1, 'rk_0001', '\\x00', 'active', 0)"
_DESTROYED = "update tenant_key set state = 'destroyed', wrapped = null, destroyed_at = 1"


def test_where_keys_are_wrapped_the_file_that_wrapped_them_is_asked_for(stack: World, tmp_path: Path) -> None:
    dsn = stack.addresses.postgres_superuser_dsn
    ours, others = tmp_path / "ours", tmp_path / "others"
    contexts.believe(dsn, others)
    contexts.believe(dsn, ours)  # nothing is lost by another file yet
    with psycopg.connect(dsn) as connection:
        connection.execute(_WRAPPED)
    contexts.believe(dsn, ours)
    with pytest.raises(errors.Unavailable, match="not the one that this database knows"):
        contexts.believe(dsn, others)
    kept = (ours / secrets_file.NAME).rename(tmp_path / "backup")
    with pytest.raises(errors.Unavailable, match=r"tenancy.json is gone"):
        contexts.believe(dsn, ours)
    assert not (ours / secrets_file.NAME).exists(), "a new one was made"
    with pytest.raises(StackError, match=r"tenancy.json is gone.*: put its backup back into .*/keys and start again"):
        begin_contexts(stack.settings)  # as `up` and `migrate` do; this home has none
    kept.rename(ours / secrets_file.NAME)
    contexts.believe(dsn, ours)
    with psycopg.connect(dsn) as connection:
        connection.execute(_DESTROYED)
    contexts.believe(dsn, others)


def test_the_public_half_of_a_lost_key_of_certificates_is_known(stack: World, tmp_path: Path) -> None:
    dsn = stack.addresses.postgres_superuser_dsn
    signed_with = []
    for _ in range(2):
        for _ in range(2):
            certificates.begin(dsn, tmp_path)
        signed_with += CertificateKeys(tmp_path).public()["keys"]
        (tmp_path / certificates.NAME).unlink()
    with psycopg.connect(stack.addresses.postgres_dsns["millrace_ingress"]) as connection:
        known = [key for (key,) in connection.execute("select public_key from certificate_key order by known_at")]
        assert known == signed_with
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("insert into certificate_key (key_id, public_key) values ('mine', '{}')")
