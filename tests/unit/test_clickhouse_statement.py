"""Where an INSERT ends and its data begin."""

from __future__ import annotations

from compose.stack.clickhouse.statement import (
    is_select,
    last_format,
    leaves_session,
    reads_input,
    split_insert,
)
from tests.each import each


@each(
    ("text", "head", "data_format", "data"),
    [
        (b"INSERT INTO t FORMAT CSV\n1,2\n", b"INSERT INTO t ", "CSV", b"1,2\n"),
        (b"insert into t (a, b) format Native\n\x01\x02\n\xff", b"insert into t (a, b) ", "Native", b"\x01\x02\n\xff"),
        (b"INSERT INTO t FORMAT CSV \t\r\n1", b"INSERT INTO t ", "CSV", b"1"),
        (b"INSERT INTO t FORMAT CSV\n\n1", b"INSERT INTO t ", "CSV", b"\n1"),
        (b"INSERT INTO t FORMAT Native", b"INSERT INTO t ", "Native", b""),
        (b"INSERT INTO t SETTINGS a='FORMAT x' FORMAT TSV\n1", b"INSERT INTO t SETTINGS a='FORMAT x' ", "TSV", b"1"),
        (
            b'INSERT INTO "FORMAT" (`VALUES`, "a""b") FORMAT CSV\n1',
            b'INSERT INTO "FORMAT" (`VALUES`, "a""b") ',
            "CSV",
            b"1",
        ),
        (b"INSERT INTO `a\\`b` VALUES (1)", b"INSERT INTO `a\\`b` ", "Values", b" (1)"),
        (
            b"-- FORMAT x\n/* VALUES */ INSERT INTO t VALUES(1)",
            b"-- FORMAT x\n/* VALUES */ INSERT INTO t ",
            "Values",
            b"(1)",
        ),
        (b"INSERT INTO t VALUES ('FORMAT CSV')", b"INSERT INTO t ", "Values", b" ('FORMAT CSV')"),
    ],
)
def test_data_begin_after_the_format(text: bytes, head: bytes, data_format: str, data: bytes) -> None:
    found = split_insert(text)
    assert found is not None
    assert (found.head, found.data_format, text[found.data_offset :]) == (head, data_format, data)


@each(
    "text",
    [
        b"SELECT 1 FORMAT CSV",
        b"INSERT INTO t SELECT 1 FORMAT CSV",
        b"INSERT INTO t WITH 1 AS x SELECT x",
        b"INSERT INTO t FROM INFILE 'x.csv' FORMAT CSV",
        b"INSERT INTO t (a",
        b"INSERT INTO t FORMAT",
        b"CREATE TABLE insert_into (values Int8)",
        b"",
        b"'unclosed INSERT INTO t FORMAT CSV\n",
    ],
)
def test_everything_else_goes_to_the_engine_whole(text: bytes) -> None:
    assert split_insert(text) is None


def test_an_insert_that_selects_from_its_own_data() -> None:
    assert reads_input(b"INSERT INTO t SELECT a FROM input ('a Int8') FORMAT CSV\n1")
    assert reads_input(b"insert into t select * from (select a from INPUT('a Int8')) format CSV")
    assert not reads_input(b"INSERT INTO t SELECT 'input(' FROM input_table")
    assert not reads_input(b"SELECT * FROM input('a Int8')")


def test_last_format_and_select() -> None:
    assert last_format(b"SELECT 1\n FORMAT Native") == "Native"
    assert last_format(b"SELECT 1 format JSON ; ") == "JSON"
    assert last_format(b"SELECT 'FORMAT x'") is None
    assert is_select(b" -- why\n WITH 1 AS x SELECT x")
    assert is_select(b"(SELECT 1)")
    assert not is_select(b"INSERT INTO t SELECT 1")
    assert not is_select(b"WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x")
    assert not is_select(b"DROP TABLE t")


@each(
    ("text", "leaves"),
    [
        (b"SELECT 1", True),
        (b" -- SET x = 1\n(select 1 settings max_threads = 1);\n", True),
        (b"INSERT INTO t (a) FORMAT Native", True),
        (b"create table t (a Int8) engine = Memory", True),
        (b"CREATE /* of this session */ temporary TABLE t (a Int8)", False),
        (b"SELECT 1; SET max_threads = 1", False),
        (b"SELECT ';'", False),  # it is not looked at so closely
        (b"SET max_threads = 1", False),
        (b"USE system", False),
        (b"KILL QUERY WHERE 1", False),  # whatever is not known
        (b"", False),
    ],
)
def test_what_may_change_the_session_of_later_statements_is_told(text: bytes, *, leaves: bool) -> None:
    assert leaves_session(text) is leaves
