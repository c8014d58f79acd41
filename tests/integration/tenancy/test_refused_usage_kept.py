"""How much of refused usage is kept, for how long, and who may do what with it: the database's own rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from dataflows.tenancy.usage import keeping
from dataflows.tenancy.usage.refused import keep, refused
from schemas.tenancy import limits
from sinks.postgres import owner_connection
from tests import asked
from tests.integration.tenancy.test_refused_usage import Refusing
from tests.migrated import in_database

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.servers import World

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def usage(stack: World) -> Refusing:
    """Nobody meters it."""
    return Refusing(stack)


@pytest.fixture(autouse=True)
def emptied(usage: Refusing) -> None:
    usage.change("delete from usage_refused")


def came(usage: Refusing, partition: int, sender: str, offsets: Iterable[int]) -> None:
    """One batch of one sender, as it is kept with the position."""
    records = [refused((partition, n), "not_an_event", sender, b"k", b"{%d" % n, 1, ()) for n in offsets]
    with owner_connection.connect(usage.metering_dsn, "kept") as connection, connection.transaction():
        keep(connection, records)


def there(usage: Refusing) -> dict[tuple[int, str], list[int]]:
    """Offsets by partition and sender."""
    read = 'select partition, sender, array_agg("offset" order by "offset") from usage_refused group by 1, 2'
    return {(partition, sender): found for partition, sender, found in asked.rows(usage.dsn, read)}


def test_each_sender_has_its_room_in_each_partition_for_the_first_ones(
    usage: Refusing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a batch, and over several; what comes again takes no room."""
    monkeypatch.setattr(limits, "USAGE_REFUSED_KEPT_MAX", 3)
    came(usage, 0, "a", range(2))
    came(usage, 0, "a", range(2, 9))
    came(usage, 0, "b", range(20, 22))
    came(usage, 0, "b", range(20, 29))
    came(usage, 0, "", range(30, 39))
    came(usage, 1, "a", range(9))
    for n in range(90, 95):
        came(usage, 0, "a", [n])
    first = {(0, "a"): [0, 1, 2], (0, "b"): [20, 21], (0, ""): [30, 31, 32], (1, "a"): [0, 1, 2]}
    found = there(usage)
    assert found.pop((0, "b"))[:2] == first.pop((0, "b"))
    assert found == first


def test_what_people_decided_on_takes_no_room_and_what_waits_for_them_does(
    usage: Refusing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "USAGE_REFUSED_KEPT_MAX", 2)
    came(usage, 0, "a", range(9))
    sets = 'update usage_refused set state = %s where "offset" = %s'
    for offset, state in enumerate(("asked", "open")):
        usage.change(sets, state, offset)
    came(usage, 0, "a", range(10, 12))
    assert there(usage) == {(0, "a"): [0, 1]}
    for offset, state in enumerate(("counted", "discarded")):
        usage.change(sets, state, offset)
    came(usage, 0, "a", range(20, 29))
    assert there(usage) == {(0, "a"): [0, 1, 20, 21]}
    for offset, state in ((20, "repeated"), (21, "contradicted")):
        usage.change(sets, state, offset)
    came(usage, 0, "a", [30])
    assert there(usage) == {(0, "a"): [0, 1, 20, 21, 30]}


_MANY = """insert into usage_refused (refused_id, partition, "offset", reason, sender, said_tenant, record_key, said, is_whole,
                           bytes, appended_at, state, decided_at)
select format('ur_%%s_%%s_%%s', p, s, n), p, n, 'r', s, '', '', '', true, 0, now(), 'discarded', now() - n * interval '1 second'
from generate_series(0, 1) p, unnest(array['', 'a']) s, generate_series(1, %s) n"""


def test_of_what_is_decided_the_newest_stay_of_each_sender_in_each_partition(usage: Refusing) -> None:
    """What waits for people is none of it."""
    usage.change(_MANY, 1_000)
    came(usage, 0, "a", range(5_000, 5_003))
    with owner_connection.connect(usage.metering_dsn, "keeping") as connection:
        assert keeping.remove(connection) == 0
        usage.change("delete from usage_refused where partition = 1 or sender = ''")
        newer = """update usage_refused set state = 'counted', decided_at = now() + interval '1 minute'
                   where "offset" in (5001, 5002)"""
        usage.change(newer)
        assert keeping.remove(connection) == 2
    assert there(usage) == {(0, "a"): [*range(1, 999), 5_000, 5_001, 5_002]}


def test_what_is_older_than_35_days_goes_however_it_was_decided_unless_it_is_still_to_be_judged(
    usage: Refusing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few at once."""
    came(usage, 0, "a", range(6))
    old, young = "35 days 1 minute", "34 days 23 hours"
    for offset, (state, age) in enumerate(
        [("open", old), ("asked", old), ("counted", old), ("discarded", old), ("open", young), ("discarded", young)]
    ):
        usage.change(
            'update usage_refused set state = %s, refused_at = now() - %s::interval where "offset" = %s',
            state,
            age,
            offset,
        )
    monkeypatch.setattr(limits, "USAGE_REMOVED_AT_ONCE", 2)
    with owner_connection.connect(usage.metering_dsn, "keeping") as connection:
        assert [keeping.remove(connection) for _ in range(3)] == [2, 1, 0]
    assert there(usage) == {(0, "a"): [1, 4, 5]}


_DECIDES = "select usage_refused_decide('ur_x', 'discarded', 'me', 'n')"
_REMOVES = "select usage_refused_remove(1)"
_READS = "select from usage_refused"
_CHANGES = ("update usage_refused set state = 'counted'", "delete from usage_refused")
_INSERTS = "insert into usage_refused (refused_id) values ('ur_x')"
#: what each role may not do
REFUSED = {
    "tenancy_metering": (
        _DECIDES,
        "delete from usage_refused",
        "update usage_refused set note = 'x'",
        "update usage_refused set said = 'x'",
        "update usage_refused set decided_by = 'x'",
        "insert into usage_refused (refused_id, state) values ('ur_x', 'counted')",
    ),
    "operator": (_REMOVES, _INSERTS, *_CHANGES),
    "console": (_DECIDES, _REMOVES, _INSERTS, *_CHANGES),
    "ingress": (_READS, _REMOVES, _INSERTS, *_CHANGES),
    **dict.fromkeys(("reader", "sink", "owner", "tenancy_owner"), (_READS, _DECIDES, _REMOVES, _INSERTS, *_CHANGES)),
}


@pytest.mark.parametrize("role", REFUSED)
def test_nobody_does_with_it_what_is_another_ones(usage: Refusing, stack: World, role: str) -> None:
    """Who meters decides nothing, who decides changes nothing but by the function, which audits it."""
    dsn = in_database(stack.addresses.postgres_dsns[f"millrace_{role}"], usage.dsn.rpartition("/")[2])
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in REFUSED[role]:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())
