"""An insert over several months goes into ClickHouse month by month; killed on the way, it is completed and not doubled."""

from __future__ import annotations

import contextlib
import shutil
import signal
import threading
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import pytest

from schemas import errors
from sinks.clickhouse.insert import Inserter
from sinks.clickhouse.ranges import Range
from sinks.clickhouse.tables import Row, Table
from tests.eventually import eventually, patient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clickhouse_connect.driver.client import Client

    from tests.contracts.conftest import FrontProcess

pytestmark = pytest.mark.servers

#: so many that an insert is seen while some of them are in
MONTHS: Final = 150
ROWS_A_MONTH: Final = 2
#: an insert may be done before anybody looks
TRIES: Final = 5


def _at(month: int) -> int:
    """Microseconds since 1970, as rows have them; many of the months are before it."""
    return int(datetime(1901 + month // 12, 1 + month % 12, 1, tzinfo=UTC).timestamp()) * 1_000_000


ROWS: Final[list[Row]] = [(0, seq, _at(seq // ROWS_A_MONTH)) for seq in range(ROWS_A_MONTH * MONTHS)]
PLACE: Final = Range(partition=0, first_offset=0, last_offset=len(ROWS) - 1, first_seq=0, last_seq=len(ROWS) - 1)


def _table(client: Client, name: str) -> Table:
    client.command(
        f"create table {name} (kafka_partition UInt16, seq UInt64, at DateTime64(6, 'UTC')) engine = MergeTree"
        " partition by toYYYYMM(at) order by seq settings non_replicated_deduplication_window = 10000"
    )
    return Table(name=name, columns=("kafka_partition", "seq", "at"), month_of="at")


@contextlib.contextmanager
def _insert_under_way(front: FrontProcess, table: Table) -> Iterator[threading.Thread]:
    """A sink's insert of the plan, of which the first month is in."""
    client, watching = front.client(query_retries=0), front.client()

    def insert() -> None:
        with contextlib.suppress(errors.Unavailable):
            Inserter(client, [table]).insert({table.name: ROWS}, "the plan")

    inserting = threading.Thread(target=insert)
    inserting.start()
    eventually(lambda: _counted(watching, table) != (0, 0), what="the first month is in")
    yield inserting
    inserting.join(timeout=patient(30))
    client.close()


def test_a_successor_completes_a_plan_whose_insert_goes_on(front: FrontProcess) -> None:
    """The sink was killed, ClickHouse was not: each month comes in once, whoever brings it first."""
    client = front.client()
    for number in range(TRIES):
        table = _table(client, f"goes_on_{number}")
        with _insert_under_way(front, table):
            missing = Inserter(client, [table]).complete({table.name: ROWS}, [PLACE], "the plan")
        assert _counted(client, table) == (len(ROWS), len(ROWS))
        if missing[table.name]:
            break
    else:
        pytest.fail("no insert was met on its way")
    client.close()


def test_a_plan_of_which_clickhouse_kept_some_months_is_completed(front: FrontProcess) -> None:
    """ClickHouse was killed between two months; what comes again under the plan's token changes nothing."""
    for number in range(TRIES):
        table = _table(front.client(), f"killed_{number}")
        with _insert_under_way(front, table):
            front.stop(signal.SIGKILL)
        front.start()
        client = front.client()
        kept, _ = _counted(client, table)
        assert kept % ROWS_A_MONTH == 0  # a month is in or not
        inserter = Inserter(client, [table])
        for missing in (len(ROWS) - kept, 0):
            assert inserter.complete({table.name: ROWS}, [PLACE], "the plan") == {table.name: missing}
            inserter.insert({table.name: ROWS}, "the plan")
            assert _counted(client, table) == (len(ROWS), len(ROWS))
        if kept < len(ROWS):
            break
    else:
        pytest.fail("no insert was met on its way")


@pytest.mark.parametrize("taken", [1, 2], ids=["one month", "all of them"])
def test_rows_whose_token_alone_outlived_a_kill_come_in(front: FrontProcess, taken: int) -> None:
    """ClickHouse writes a token down before the part: killed between the two, it would drop these rows for ever."""
    table = _table(front.client(), f"token_alone_{taken}")
    rows, months = ROWS[: 2 * ROWS_A_MONTH], 2
    place = replace(PLACE, last_offset=len(rows) - 1, last_seq=len(rows) - 1)
    Inserter(front.client(), [table]).insert({table.name: rows}, "the plan")
    parts = front.client().query(f"select path from system.parts where table = '{table.name}' and active").result_rows
    assert len(parts) == months
    front.stop(signal.SIGKILL)
    for (path,) in parts[:taken]:
        shutil.rmtree(path)
    front.start()
    inserter, left = Inserter(front.client(), [table]), len(rows) - taken * ROWS_A_MONTH
    assert _counted(front.client(), table) == (left, left)
    inserter.insert({table.name: rows}, "the plan")
    assert _counted(front.client(), table) == (left, left), "the token is known, and dropped what came under it"
    for missing in (len(rows) - left, 0):
        assert inserter.complete({table.name: rows}, [place], "the plan") == {table.name: missing}
        assert _counted(front.client(), table) == (len(rows), len(rows))


def _counted(client: Client, table: Table) -> tuple[int, int]:
    (found,) = client.query(f"select count(), uniqExact(seq) from {table.name}").result_rows
    return int(found[0]), int(found[1])
