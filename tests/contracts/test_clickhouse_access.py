"""Whoever has a password of ClickHouse has its tables, and not the machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from tests.contracts.conftest import PASSWORD, READER_PASSWORD
from tests.eventually import eventually, patient

if TYPE_CHECKING:
    from pathlib import Path

    from clickhouse_connect.driver.client import Client

    from tests.contracts.conftest import FrontProcess

pytestmark = pytest.mark.servers

#: each leaves the engine: for a file of the machine, an address, another process
OUT_OF_THE_ENGINE = [
    "SELECT * FROM file('{file}', 'LineAsString')",
    "SELECT * FROM `file`/**/('{file}', 'LineAsString')",
    "SELECT file('{file}')",
    "SELECT file(materialize('{file}'))",  # by a thread of the engine's own
    "SELECT file(path) FROM (SELECT arrayJoin(['{file}', '{file}']) AS path)",
    "SELECT file('/proc/{pid}/environ')",
    "SELECT file(materialize('/proc/self/environ'))",
    "SELECT * FROM default.`{file}`",
    "SELECT * FROM fileCluster('default', '{file}', 'LineAsString')",
    "DESCRIBE TABLE file('{file}')",
    "INSERT INTO FUNCTION file('{file}', 'LineAsString', 'line String') SELECT 'written'",
    "SELECT 'written' INTO OUTFILE '{file}' TRUNCATE FORMAT LineAsString",
    "SELECT 'written' into/**/outfile '{file}' TRUNCATE FORMAT LineAsString",
    "INSERT INTO kept FROM INFILE '{file}' FORMAT LineAsString",
    "CREATE TABLE taken (line String) ENGINE = File(LineAsString, '{file}')",
    "CREATE DATABASE taken ENGINE = Filesystem('{folder}')",
    "ATTACH TABLE taken FROM '{folder}' (line String) ENGINE = MergeTree ORDER BY line",
    "BACKUP TABLE kept TO File('{folder}/backup')",
    "CREATE NAMED COLLECTION taken AS url = 'http://{address}/'",
    "SELECT * FROM url('http://{address}/', 'LineAsString')",
    "CREATE TABLE taken (line String) ENGINE = URL('http://{address}/', LineAsString)",
    "SELECT * FROM remote('{address}', 'system.one')",
    "SELECT * FROM cluster('default', 'system.one')",
    "SELECT * FROM s3('http://{address}/bucket/key', 'LineAsString')",
    "SELECT * FROM postgresql('{address}', 'd', 't', 'u', 'p')",
    "SELECT * FROM mysql('{address}', 'd', 't', 'u', 'p')",
    "SELECT * FROM sqlite('{file}', 't')",
    "SELECT * FROM Python(passwords)",
    "SELECT * FROM `python`/**/(passwords)",
]
A_DICTIONARY = """CREATE OR REPLACE DICTIONARY taken (k UInt64, v String) PRIMARY KEY k
SOURCE({source}) LAYOUT(FLAT()) LIFETIME(0)"""
SOURCES = [
    "FILE(PATH '{file}' FORMAT 'TSV')",
    "HTTP(URL 'http://{address}/' FORMAT 'TSV')",
    "EXECUTABLE(COMMAND 'cat {file}' FORMAT 'TSV')",
]


@pytest.mark.parametrize("user", ["default", "reader"])
def test_no_query_leaves_the_engine(front: FrontProcess, tmp_path: Path, user: str) -> None:
    """Whoever has a password reads no file of the machine, writes none and reaches no address."""
    secret = tmp_path / "secret.txt"
    secret.write_text("7\ta secret of the machine\n")
    with socket.create_server(("127.0.0.1", 0)) as listener, closing(front.client(user)) as client:
        listener.setblocking(False)
        names = {"file": secret, "folder": tmp_path, "address": f"127.0.0.1:{listener.getsockname()[1]}"}
        names["pid"] = os.getpid()
        for query in OUT_OF_THE_ENGINE:
            with pytest.raises(DatabaseError) as refused:
                client.command(query.format(**names))
            assert "a secret of the machine" not in str(refused.value), query
        for source in SOURCES:
            with suppress(DatabaseError):  # it is made in some forms, and never loads
                client.command(A_DICTIONARY.format(source=source.format(**names)))
            with pytest.raises(DatabaseError):
                client.command("SELECT * FROM taken")
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert secret.read_text() == "7\ta secret of the machine\n"
    assert list(tmp_path.iterdir()) == [secret]


def test_the_engine_is_told_what_the_kernel_told_its_process(tmp_path: Path) -> None:
    """Else it takes anything for it, and crashes at some of its starts."""
    code = """
import sys
from pathlib import Path
from compose.stack.clickhouse.front import _confine
_confine(Path(sys.argv[1]))
assert Path("/proc/self/auxv").read_bytes() and Path("/proc/self/maps").read_bytes()
try:
    Path("/proc/self/environ").read_bytes()
except PermissionError:
    print("confined")
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()[-1:]) == (0, ["confined"]), done.stderr


def test_a_reader_reads_and_changes_nothing(front: FrontProcess, client: Client) -> None:
    client.command("CREATE OR REPLACE TABLE kept (id UInt64) ENGINE = MergeTree ORDER BY id")
    client.insert("kept", [[1]], ["id"])
    with closing(front.client("reader")) as reader:
        assert reader.query("SELECT id FROM kept").result_rows == [(1,)]
        assert reader.query("SELECT id FROM kept SETTINGS max_threads = 1").result_rows == [(1,)]
        for query in (
            "INSERT INTO kept VALUES (2)",
            "ALTER TABLE kept DELETE WHERE 1",
            "TRUNCATE TABLE kept",
            "DROP TABLE kept",
            "OPTIMIZE TABLE kept FINAL",
            "CREATE TABLE more (id UInt64) ENGINE = MergeTree ORDER BY id",
            "SYSTEM STOP MERGES kept",
            "SET readonly = 0",
            "SELECT 1 SETTINGS readonly = 0",
        ):
            with pytest.raises(DatabaseError):
                reader.command(query)
        with pytest.raises(DatabaseError):
            reader.insert("kept", [[2]], ["id"])
        with pytest.raises(DatabaseError):
            reader.command("TRUNCATE TABLE kept", settings={"readonly": "0"})
    assert client.query("SELECT id FROM kept").result_rows == [(1,)]


@pytest.mark.parametrize(
    "statement",
    ["KILL QUERY WHERE 1", "/**/ kill query where 1", "(KILL QUERY WHERE 1)", "select 1; kill query where 1"],
)
def test_a_reader_ends_nobodys_query(front: FrontProcess, client: Client, statement: str) -> None:
    """All queries are one user's to the engine, so it would: the sink could not write while somebody repeats it."""
    with closing(front.client("reader")) as reader, ThreadPoolExecutor(1) as pool:
        slow, begun = "SELECT count() FROM numbers(100) WHERE sleepEachRow(0.01) = 0", []
        ids = "SELECT count() FROM system.processes WHERE query LIKE '%sleepEachRow(0.01)%'"

        def runs() -> bool:
            if not begun or begun[-1].done():  # before anybody looked, on a busy machine
                begun.append(pool.submit(client.command, slow))
            return int(str(reader.command(ids))) > 1

        eventually(runs, what="it runs")
        with pytest.raises(DatabaseError):
            reader.command(statement)
        assert [query.result() for query in begun] == [100] * len(begun)


@pytest.mark.parametrize("setting", ["max_execution_time = 0", "max_memory_usage = 0", "max_execution_time = 301"])
def test_nobody_lifts_the_bounds_of_a_query(front: FrontProcess, setting: str) -> None:
    """One query without them takes the engine from all others."""
    for user in ("reader", "default"):
        with closing(front.client(user)) as client:
            for asked in (f"SELECT 1 SETTINGS {setting}", f"SET {setting}"):
                with pytest.raises(DatabaseError):
                    client.command(asked)
            assert client.command("SELECT 1 SETTINGS max_execution_time = 7") == 1


@pytest.mark.parametrize(("user", "password"), [("reader", PASSWORD), ("default", READER_PASSWORD), ("reader", "")])
def test_a_password_is_that_of_its_user(front: FrontProcess, user: str, password: str) -> None:
    with closing(HTTPConnection("127.0.0.1", front.server.port, timeout=patient(10))) as asked:
        asked.request("POST", "/", "SELECT 1", {"X-ClickHouse-User": user, "X-ClickHouse-Key": password})
        assert asked.getresponse().status == 403
