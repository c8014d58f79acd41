"""What processes ask Postgres: a statement on tenants' rows that says no tenant means those of whichever.

Each round samples the newest statement of every session (``pg_stat_activity``), and all that were counted where an
outside server has ``pg_stat_statements``: the embedded one's package has no extensions. Row security holds without
this, where it is; this finds what it does not see, the tables of the control database.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from compose import limits
from compose.isolation.found import Found
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection


SQL: Final = queries("sinks.postgres.queries.tenancy", "statements.sql")
#: who works for tenants; operators and analysts ask about all of them
ROLES: Final = ("millrace_ingress", "millrace_tenancy_owner", "millrace_tenancy_mover", "millrace_tenancy_metering")
_KEY: Final = "tenant_id"
_COMMENT: Final = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_NAMED: Final = re.compile(r"\b(?:from|join|into|update|using)\s+(?:only\s+)?(?:\w+\.)?(\w+)", re.IGNORECASE)


def unkeyed(text: str, tables: frozenset[str]) -> list[str]:
    """The tables, of those whose key begins with the tenant, that a statement names without a word about whose rows."""
    bare = _COMMENT.sub(" ", text)
    return [] if _KEY in bare else sorted(tables.intersection(name.lower() for name in _NAMED.findall(bare)))


def statement_probes(connection: Connection[Any]) -> Iterator[Found]:
    """One probe: what was found of the newest statements, if anything."""
    tables = frozenset(name for (name,) in connection.execute(SQL["tables_of_tenants"].encode()))
    asked = [text for (text,) in connection.execute(SQL["statements_sampled"].encode(), {"roles": list(ROLES)})]
    (counted,) = connection.execute(SQL["statements_are_counted"].encode()).fetchone() or (False,)
    if counted:
        asked += [text for (text,) in connection.execute(SQL["statements_counted"].encode(), {"roles": list(ROLES)})]
    wide = sorted(
        {" ".join(text.split())[: limits.ISOLATION_STATEMENT_LENGTH] for text in asked if unkeyed(text, tables)}
    )
    yield Found(
        "statements", f"of whichever tenant: {' | '.join(wide[: limits.ISOLATION_NAMED_MAX])}" if wide else None
    )
