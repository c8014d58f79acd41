"""The ClickHouse front as ``clickhouse-connect`` sees it: what passes here holds for a real server too."""

from __future__ import annotations

import itertools
import threading
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError
from clickhouse_connect.driver.external import ExternalData

from tests.eventually import eventually, patient
from tests.gate import examples

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

    from tests.contracts.conftest import FrontProcess

pytestmark = pytest.mark.servers

EVERY_TYPE = """
CREATE TABLE every_type (
    id UInt64, tiny UInt8, small UInt16, medium UInt32, signed Int32, amount_minor Int64,
    name String, currency LowCardinality(String),
    optional Nullable(String), optional_low LowCardinality(Nullable(String)),
    at_ms DateTime64(3, 'UTC'), at_us DateTime64(6, 'UTC'), at DateTime('UTC'), day Date,
    tags Array(String), metadata Map(String, String), rate Decimal(18, 6), settled Bool,
    state Enum8('created' = 1, 'captured' = 2), event_id UUID, pair Tuple(String, Int64),
    ratio Float64, hash FixedString(4), optional_amount Nullable(Int64)
) ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 100
"""


def every_type_row(number: int) -> list[Any]:
    """One row; numbers far apart cover null, empty, non-ASCII and extreme values."""
    moment = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC) + timedelta(milliseconds=number)
    odd = number % 2 == 1
    return [
        number, number % 256, number % 65_536, number, -number, -(2**63) + number,
        f"naïve ✓ \t\n'{number}\\", ("USD", "JPY", "KWD")[number % 3], None if odd else "", "x" if odd else None,
        moment, moment + timedelta(microseconds=7), moment.replace(microsecond=0), moment.date(),
        [] if odd else ["a", "é"], {} if odd else {"k": "v", "": ""}, Decimal("-123456.654321"), odd,
        "captured" if odd else "created", uuid.UUID(int=number), ("left", number),
        number / 8, b"abcd", None if odd else 2**62,
    ]  # fmt: skip


@pytest.fixture
def every_type(client: Client) -> Client:
    client.command("DROP TABLE IF EXISTS every_type")
    client.command(EVERY_TYPE)
    return client


def test_ping_and_version_and_timezone(client: Client) -> None:
    assert client.ping()
    assert client.server_version == client.command("SELECT version()")
    assert str(client.server_tz) == "UTC"


def test_ddl_round_trip(client: Client) -> None:
    """Create, show, alter, rename, truncate, drop; a view reads its table."""
    client.command("CREATE DATABASE IF NOT EXISTS other")
    client.command("CREATE TABLE other.ddl (a Int64, b String) ENGINE = ReplacingMergeTree ORDER BY a")
    client.command("ALTER TABLE other.ddl ADD COLUMN c Nullable(Int32)")
    client.command("CREATE VIEW other.ddl_view AS SELECT a, c FROM other.ddl")
    assert client.query("DESCRIBE TABLE other.ddl").first_row[:2] == ("a", "Int64")
    assert "ReplacingMergeTree" in str(client.command("SHOW CREATE TABLE other.ddl"))
    client.insert("ddl", [[1, "x", None]], database="other")
    assert client.query("SELECT * FROM other.ddl_view").result_rows == [(1, None)]
    client.command("TRUNCATE TABLE other.ddl")
    assert client.command("SELECT count() FROM other.ddl") == 0
    client.command("RENAME TABLE other.ddl TO other.ddl_new")
    client.command("DROP DATABASE other")
    assert "other" not in str(client.command("SHOW DATABASES"))


def test_every_type_comes_back_as_it_went(every_type: Client) -> None:
    rows = [every_type_row(number) for number in (0, 1, 2, 3, 254, 65_535)]
    every_type.insert("every_type", rows)
    found = every_type.query("SELECT * FROM every_type ORDER BY id", tz_mode="aware").result_rows
    assert [list(row) for row in found] == rows


def test_materialized_view_follows_its_table(client: Client) -> None:
    client.command("CREATE TABLE source (a Int64) ENGINE = MergeTree ORDER BY a")
    client.command(
        "CREATE TABLE total (a Int64, n SimpleAggregateFunction(sum, UInt64)) ENGINE = AggregatingMergeTree ORDER BY a"
    )
    client.command(
        "CREATE MATERIALIZED VIEW total_view TO total AS SELECT a % 2 AS a, count() AS n FROM source GROUP BY a"
    )
    client.insert("source", [[n] for n in range(10)])
    assert client.query("SELECT a, sum(n) FROM total GROUP BY a ORDER BY a").result_rows == [(0, 5), (1, 5)]


#: more than a block of a streamed read holds
MANY = examples(gate=10_000, proof=100_000)


@pytest.mark.parametrize("compression", [False, "gzip", "zstd", "lz4"])
def test_many_rows_in_and_out(front: FrontProcess, every_type: Client, compression: str | bool) -> None:
    """One streamed insert, compressed or not, is one part, and a streamed Native read brings back its sum."""
    client = front.client(compress=compression)
    columns = [list(column) for column in zip(*(every_type_row(number) for number in range(MANY)), strict=True)]
    summary = client.insert("every_type", columns, column_oriented=True)
    assert summary.written_rows == MANY
    parts = (
        "SELECT count(), sum(rows) FROM system.parts WHERE table = 'every_type' AND active AND database = 'millrace'"
    )
    assert client.query(parts).result_rows == [(1, MANY)]
    total = 0
    with client.query_row_block_stream("SELECT id, name FROM every_type") as stream:
        for block in stream:
            total += sum(row[0] for row in block)
    assert total == sum(range(MANY))
    client.close()


def test_raw_inserts_in_other_formats(client: Client) -> None:
    """CSV and JSONEachRow bodies with the statement in the URL, as loaders send them."""
    client.command("CREATE TABLE loaded (a Int64, b String) ENGINE = MergeTree ORDER BY a")
    client.raw_insert("loaded", ["a", "b"], "1,one\n2,two\n", fmt="CSV")
    client.raw_insert("loaded", ["a", "b"], b'{"a":3,"b":"three"}\n', fmt="JSONEachRow")
    client.command("INSERT INTO loaded VALUES (4, 'four;'), (5, 'it''s VALUES FORMAT CSV')")
    client.command("INSERT INTO loaded (a, b) VALUES", data="(6, 'six')")
    client.command("INSERT INTO loaded SELECT a + 10, upper(b) FROM loaded WHERE a = 1")
    client.command("INSERT INTO loaded (a, b) VALUES ({a:Int64}, {b:String})", parameters={"a": 7, "b": "se\tven"})
    found = client.query("SELECT a, b FROM loaded ORDER BY a").result_rows
    assert found == [
        (1, "one"), (2, "two"), (3, "three"), (4, "four;"), (5, "it's VALUES FORMAT CSV"), (6, "six"), (7, "se\tven"),
        (11, "ONE"),
    ]  # fmt: skip


def test_formats_of_arrow_are_the_engines_own_and_no_python_package_is_loaded_for_them(
    front: FrontProcess, client: Client
) -> None:
    """Of a process that is there as long as the stack it was 40 MB."""
    for name in ("ArrowStream", "Parquet"):
        sent = client.raw_query("SELECT toInt64(number) AS a FROM numbers(3)", fmt=name)
        client.command("CREATE OR REPLACE TABLE from_arrow (a Int64) ENGINE = MergeTree ORDER BY a")
        client.raw_insert("from_arrow", ["a"], sent, fmt=name)
        assert client.query("SELECT a FROM from_arrow ORDER BY a").result_rows == [(0,), (1,), (2,)]
    assert front.handle is not None
    loaded = Path(f"/proc/{front.handle.pid}/maps").read_text()
    assert "chdb" in loaded
    assert [name for name in ("pyarrow", "numpy") if name in loaded] == []


def test_a_wide_insert_of_values_stays_whole(client: Client) -> None:
    """VALUES longer than the bound for SQL text are data, not SQL."""
    client.command("CREATE TABLE wide (a Int64, b String) ENGINE = MergeTree ORDER BY a")
    values = ",".join(f"({n},'{'x' * 100}')" for n in range(20_000))
    client.command(f"INSERT INTO wide VALUES {values}")
    assert client.query("SELECT count(), sum(length(b)) FROM wide").result_rows == [(20_000, 2_000_000)]


def test_empty_results_keep_their_columns(client: Client) -> None:
    result = client.query("SELECT 1 AS a, 'x' AS b WHERE 0")
    assert result.result_rows == []
    with client.query_rows_stream("SELECT number FROM numbers(0)") as stream:
        assert list(stream) == []


def test_parameters_are_values_never_sql(client: Client) -> None:
    text = "x'); DROP TABLE t; -- \\ \n\t ✓"
    moment = datetime(2026, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
    row = client.query(
        "SELECT {text:String}, {number:Int64}, {list:Array(String)}, {moment:DateTime64(6, 'UTC')}, "
        "{none:Nullable(String)}",
        parameters={"text": text, "number": -(2**63), "list": ["a'b", "c"], "moment": moment, "none": None},
        tz_mode="aware",
    ).first_row
    assert row == (text, -(2**63), ["a'b", "c"], moment, None)


def test_settings_hold_for_their_query_only(client: Client) -> None:
    """A setting in the URL applies to one query; neither it nor SET nor USE reaches another caller's."""
    threads = "SELECT toString(getSetting('max_threads'))"
    assert client.query(threads, settings={"max_threads": 7}).first_row == ("7",)
    client.command("SET max_threads = 9")
    client.command("USE system")
    assert client.query(threads).first_row[0] not in {"7", "9"}
    assert client.command("SELECT currentDatabase()") == "millrace"
    with pytest.raises(DatabaseError, match="TOO_MANY_ROWS"):
        client.query("SELECT number FROM numbers(1000)", settings={"max_rows_to_read": 10})


def test_insert_settings_are_honoured(client: Client) -> None:
    client.command("CREATE TABLE checked (a Int64) ENGINE = MergeTree ORDER BY a")
    with pytest.raises(DatabaseError) as refused:
        client.insert(
            "checked", [[n] for n in range(100)], settings={"max_partitions_per_insert_block": "not a number"}
        )
    assert refused.value.code is not None
    assert client.command("SELECT count() FROM checked") == 0


@pytest.mark.parametrize(
    ("sql", "code", "name"),
    [
        ("SELEC 1", 62, "SYNTAX_ERROR"),
        ("1 + 1", 62, "SYNTAX_ERROR"),
        ("SELECT * FROM no_such_table", 60, "UNKNOWN_TABLE"),
        ("SELECT no_such_column FROM system.one", 47, "UNKNOWN_IDENTIFIER"),
        ("SELECT no_such_function(1)", 46, "UNKNOWN_FUNCTION"),
        ("SELECT * FROM no_such_database.t", 81, "UNKNOWN_DATABASE"),
        ("INSERT INTO no_such_table VALUES (1)", 60, "UNKNOWN_TABLE"),
        ("SELECT throwIf(number = 3) FROM numbers(10)", 395, "FUNCTION_THROW_IF_VALUE_IS_NON_ZERO"),
        ("SELECT toInt64('x')", 6, "CANNOT_PARSE_TEXT"),
        ("CREATE TABLE twice (a Int64) ENGINE = Nope ORDER BY a", 497, "ACCESS_DENIED"),
    ],
)
def test_errors_carry_codes(client: Client, sql: str, code: int, name: str) -> None:
    with pytest.raises(DatabaseError) as failed:
        client.command(sql)
    assert (failed.value.code, failed.value.name) == (code, name)


def test_bad_rows_insert_nothing(client: Client) -> None:
    client.command("CREATE TABLE strict (a Int64) ENGINE = MergeTree ORDER BY a")
    with pytest.raises(DatabaseError) as failed:
        client.raw_insert("strict", ["a"], "1\n2\nthree\n", fmt="CSV")
    assert failed.value.code == 117
    with pytest.raises(DatabaseError) as failed:
        client.raw_insert("nowhere", ["a"], "1\n", fmt="CSV")
    assert failed.value.code == 60
    assert client.command("SELECT count() FROM strict") == 0


def test_a_repeated_block_with_its_token_counts_once(client: Client) -> None:
    """The same insert_deduplication_token: one insert, whatever the block; another token: another insert."""
    client.command(
        "CREATE TABLE deduplicated (a Int64) ENGINE = MergeTree ORDER BY a "
        "SETTINGS non_replicated_deduplication_window = 100"
    )
    for token in ("one", "one", "two", "one"):
        client.insert("deduplicated", [[n] for n in range(50)], settings={"insert_deduplication_token": token})
    assert client.command("SELECT count() FROM deduplicated") == 100


ASLEEP_S = 0.5


def test_concurrent_clients_do_not_wait_for_one_another(front: FrontProcess) -> None:
    """Eight slow queries take the time of one; inserts from many threads all arrive."""
    main = front.client()
    main.command("CREATE TABLE crowd (worker Int64, n Int64) ENGINE = MergeTree ORDER BY (worker, n)")
    failures: list[BaseException] = []
    began_us: list[Any] = []
    together = threading.Barrier(8)

    def work(worker: int) -> None:
        try:
            client = front.client()
            together.wait(patient(30))  # a busy machine takes longer to connect than a query sleeps
            began_us.append(client.command(f"SELECT toUnixTimestamp64Micro(now64(6)), sleep({ASLEEP_S})")[0])
            for n in range(5):
                client.insert("crowd", [[worker, n]])
            assert client.command(f"SELECT count() FROM crowd WHERE worker = {worker}") == 5
            client.close()
        except BaseException as error:  # noqa: BLE001 - a thread's failure is the test's
            failures.append(error)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    pauses_us = [int(later) - int(sooner) for sooner, later in itertools.pairwise(sorted(began_us, key=int))]
    assert min(pauses_us) < ASLEEP_S * 1_000_000, "no query began before another one had ended"
    assert main.command("SELECT count() FROM crowd") == 40
    main.close()


def test_a_session_id_is_accepted_and_keeps_nothing(front: FrontProcess) -> None:
    """State ends with its request, as compose/README.md says: a temporary table is gone at the next one."""
    client = front.client(session_id="s1")
    client.command("CREATE TEMPORARY TABLE fleeting (a Int8)")
    with pytest.raises(DatabaseError, match="UNKNOWN_TABLE"):
        client.query("SELECT * FROM fleeting")
    client.close()


def test_long_parameters_travel_in_a_form(front: FrontProcess) -> None:
    """What is too long for a URL comes as a form's fields."""
    client = front.client(form_encode_query_params=True)
    text = "ü" * 100_000
    assert client.query("SELECT {text:String}", parameters={"text": text}).first_row == (text,)
    client.close()


def test_what_is_not_supported_is_refused_by_name(client: Client) -> None:
    external = ExternalData(file_name="rows.csv", data=b"1\n", fmt="CSV", structure="a Int8")
    with pytest.raises(DatabaseError) as refused:
        client.query("SELECT * FROM rows", external_data=external)
    assert refused.value.code == 48
    client.command("CREATE TABLE from_input (a Int8) ENGINE = MergeTree ORDER BY a")
    with pytest.raises(DatabaseError) as refused:
        client.command("INSERT INTO from_input SELECT a FROM input('a Int8') FORMAT CSV", data="1\n")
    assert refused.value.code == 48
    assert client.command("SELECT count() FROM from_input") == 0


def test_merges_keep_the_number_of_parts_bounded(client: Client) -> None:
    """Small inserts do not pile up parts for ever: the engine merges in the background."""
    client.command("CREATE TABLE small_blocks (a Int64) ENGINE = MergeTree ORDER BY a")
    for n in range(60):
        client.insert("small_blocks", [[n]])
    active = "SELECT count() FROM system.parts WHERE table = 'small_blocks' AND active"
    eventually(lambda: int(str(client.command(active))) < 40, within_s=20, what="parts were merged")
    assert client.command("SELECT count() FROM small_blocks") == 60
