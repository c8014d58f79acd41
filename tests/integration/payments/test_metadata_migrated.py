"""Lists by metadata of an installation that was upgraded while owners were at work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from reconciliation.check.invariant import invariants
from tests.migrated import database_before, upgrade
from tests.worlds.committed_world import CommittedWorld

if TYPE_CHECKING:
    import psycopg

    from tests.servers import World

pytestmark = pytest.mark.servers

MENDED_BY = "0171_metadata_entries_whole.sql"
DIGESTED_BY = "0251_metadata_places.sql"
#: what the invariant compared until entries were found by a digest
OF_BEFORE = (
    "from (select *, metadata_digest(kind, merchant_id, key, value) as digest from written) w\n"
    "full join metadata_place m using (digest, created_at, id)",
    "from written w full join metadata_entry m using (kind, merchant_id, key, value, created_at, id)",
)
#: what was committed, and changed, between the filling of the index and its triggers
MISSED = (
    "set session_replication_role = replica",
    'update payment_intent set metadata = \'{"order": "changed"}\' where id = (select min(id) from payment_intent)',
    "delete from metadata_entry where kind = 'payout' or id in (select max(id) from payment_intent)",
    "set session_replication_role = origin",
)


def payments_committed(connection: psycopg.Connection[Any]) -> None:
    """By the writer of today, which knows a column more than that release had."""
    connection.execute("alter table dispute add column evidence_due_by timestamptz")
    CommittedWorld().payments_made(20).store(connection)
    connection.execute("alter table dispute drop column evidence_due_by")


def test_entries_of_what_was_committed_beside_the_upgrade_are_there(stack: World) -> None:
    invariant = next(one for one in invariants() if one.id == "metadata")
    with database_before(stack.addresses.postgres_superuser_dsn, MENDED_BY) as connection:
        payments_committed(connection)
        before = invariant.sql.replace(*OF_BEFORE).encode()
        assert connection.execute(before).fetchall() == []
        whole = connection.execute("select count(*) from metadata_entry").fetchone()
        for statement in MISSED:
            connection.execute(statement.encode())
        reasons = {row[-1] for row in connection.execute(before)}
        assert reasons == {"it is not found", "it is found and not there"}
        upgrade(connection, MENDED_BY)
        assert connection.execute(invariant.sql.encode()).fetchall() == []
        found = connection.execute("select count(*) from metadata_place").fetchone()
        assert whole is not None
        assert found is not None
        assert found[0] == whole[0] - 1  # two of the changed payment before, one now


def test_entries_are_found_by_their_digests_after_the_upgrade_and_an_older_ingress_finds_them_too(stack: World) -> None:
    invariant = next(one for one in invariants() if one.id == "metadata")
    entries = "select kind, merchant_id, key, value, created_at, id from metadata_entry order by 1, 2, 3, 4, 5, 6"
    with database_before(stack.addresses.postgres_superuser_dsn, DIGESTED_BY) as connection:
        payments_committed(connection)
        told = connection.execute(entries).fetchall()
        upgrade(connection, DIGESTED_BY)
        assert (connection.execute(entries).fetchall(), len(told) > 0) == (told, True)
        assert connection.execute(invariant.sql.encode()).fetchall() == []
        changed = 'update payment_intent set metadata = \'{"order": "another"}\' where id = (select min(id) from payment_intent)'
        connection.execute(changed.encode())
        assert connection.execute(invariant.sql.encode()).fetchall() == []
