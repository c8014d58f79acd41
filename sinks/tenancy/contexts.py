"""Signed contexts make a transaction that of one tenant: the database verifies them, none of its roles makes one."""

from __future__ import annotations

import hashlib
import hmac
import time
from typing import TYPE_CHECKING, Any, Final, Literal

import psycopg

from schemas import errors
from schemas.tenancy import limits as tenancy_limits
from sinks import limits as sinks_limits
from sinks.tenancy import secrets_file

if TYPE_CHECKING:
    from pathlib import Path

    from psycopg import Connection

    from sinks.tenancy.secrets_file import TenancySecrets

Rights = Literal["r", "rw", "move"]
_BLOCK_BYTES: Final = 64
_INNER: Final = bytes(n ^ 0x36 for n in range(256))
_OUTER: Final = bytes(n ^ 0x5C for n in range(256))
_IS_ANOTHER: Final = (
    "select from tenancy.context_key where key_id = %s and (inner_block, outer_block) <> (%s::bytea, %s::bytea)"
)


class Contexts:
    """Makes contexts. A context is of one tenant and generation, says by which policy it was decided, and expires."""

    def __init__(self, secrets: TenancySecrets | None) -> None:
        self._id = secrets.context_key_id if secrets else ""
        self._key = secrets.context_key if secrets else b""  # then no database believes it

    def of(
        self,
        tenant_id: str,
        generation: int,
        rights: Rights,
        now: float | None = None,
        *,
        policy_version: int | None = None,
    ) -> str:
        """The context of one tenant at one generation of its placement.

        ``policy_version``: of the tenant as it was when it was decided that this may be done; a store that knows of a
        later one refuses it. None of what no policy decides: the mover's own.
        ``now`` is of the clock that judges it. Without it our own counts, which may be behind that one: what is over
        there is refused for good, and no outage that is waited for.
        """
        judged_at = time.time() + tenancy_limits.TENANT_CLOCK_BEHIND_MAX_S if now is None else now
        expires = int(judged_at + tenancy_limits.TENANT_CONTEXT_TTL_S)
        policy = "" if policy_version is None else f"{policy_version}|"
        said = f"{tenant_id}|{generation}|{rights}|{expires}|{policy}{self._id}"
        return f"{said}|{hmac.new(self._key, said.encode(), hashlib.sha256).hexdigest()}"


def believe(dsn: str, keys: Path) -> None:
    """As ``install``, of this home's key, in the database that the DSN names; its file is made where there is none.

    Raises Unavailable where keys of tenants are wrapped already and the file is gone, or is not the one that this
    database knows: a new one would open nothing, and what it wraps would be lost when the old one comes back.
    """
    with psycopg.connect(dsn, connect_timeout=sinks_limits.POSTGRES_CONNECT_TIMEOUT_S) as connection:
        wrapped = connection.execute("select from tenant_key where wrapped is not null limit 1").rowcount
        if wrapped and not (keys / secrets_file.NAME).exists():
            raise errors.Unavailable(f"{secrets_file.NAME} is gone, and keys of tenants are wrapped by it")
        secrets = secrets_file.ensure(keys)
        if wrapped and connection.execute(_IS_ANOTHER, _row(secrets)).rowcount:
            raise errors.Unavailable(f"{secrets_file.NAME} is not the one that this database knows")
        install(connection, secrets)


def install(connection: Connection[Any], secrets: TenancySecrets) -> None:
    """The database verifies contexts of this key afterwards. For a role that owns the table of keys."""
    connection.execute(
        "insert into tenancy.context_key (key_id, inner_block, outer_block) values (%s, %s, %s)"
        " on conflict (key_id) do update set inner_block = excluded.inner_block, outer_block = excluded.outer_block",
        _row(secrets),
    )


def _row(secrets: TenancySecrets) -> tuple[str, bytes, bytes]:
    block = secrets.context_key.ljust(_BLOCK_BYTES, b"\0")
    return secrets.context_key_id, block.translate(_INNER), block.translate(_OUTER)
