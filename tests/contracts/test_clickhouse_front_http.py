"""The HTTP interface of the ClickHouse front itself: doors, statuses, formats, and bodies that lie."""

from __future__ import annotations

import json
from base64 import b64encode
from http.client import HTTPConnection
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import pytest
from clickhouse_connect.driver.exceptions import StreamFailureError

from tests.contracts.conftest import PASSWORD, READER_PASSWORD

if TYPE_CHECKING:
    from tests.contracts.conftest import FrontProcess

pytestmark = pytest.mark.servers


def request(
    front: FrontProcess, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = HTTPConnection("127.0.0.1", front.server.port, timeout=20)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body=body, headers=named)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def ask(front: FrontProcess, sql: str, method: str = "POST", **url: str) -> tuple[int, dict[str, str], bytes]:
    key = {"X_ClickHouse_User": "default", "X_ClickHouse_Key": PASSWORD}
    if method == "GET":
        return request(front, "GET", "/?" + urlencode({"query": sql, **url}), **key)
    return request(front, "POST", "/?" + urlencode(url), sql.encode(), **key)


def test_health_needs_no_password(front: FrontProcess) -> None:
    assert request(front, "GET", "/ping")[::2] == (200, b"Ok.\n")
    assert request(front, "GET", "/")[::2] == (200, b"Ok.\n")
    assert request(front, "GET", "/nope")[0] == 404


def test_every_door_for_the_password(front: FrontProcess) -> None:
    basic = b64encode(f"default:{PASSWORD}".encode()).decode()
    assert request(front, "POST", "/", b"SELECT 1", Authorization=f"Basic {basic}")[::2] == (200, b"1\n")
    assert request(front, "POST", f"/?user=default&password={quote(PASSWORD)}", b"SELECT 1")[::2] == (200, b"1\n")
    assert ask(front, "SELECT 1")[::2] == (200, b"1\n")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X_ClickHouse_User": "default", "X_ClickHouse_Key": "wrong"},
        {"X_ClickHouse_User": "other", "X_ClickHouse_Key": PASSWORD},
        {"Authorization": "Basic not-base64"},
        {"Authorization": "Bearer x"},
    ],
)
def test_wrong_credentials_run_nothing(front: FrontProcess, headers: dict[str, str]) -> None:
    status, answer, body = request(front, "POST", "/", b"CREATE TABLE sneaked (a Int8) ENGINE = Memory", **headers)
    assert (status, answer["X-ClickHouse-Exception-Code"]) == (403, "516")
    assert b"AUTHENTICATION_FAILED" in body
    assert ask(front, "EXISTS TABLE sneaked", database="millrace")[2] == b"0\n"


@pytest.mark.parametrize(
    ("sql", "status"),
    [("SELEC", 400), ("SELECT * FROM millrace.nope", 404), ("SELECT throwIf(1)", 500), ("SELECT toInt8('x')", 400)],
)
def test_statuses_follow_codes(front: FrontProcess, sql: str, status: int) -> None:
    found, headers, body = ask(front, sql)
    assert found == status
    assert body.startswith(b"Code: " + headers["X-ClickHouse-Exception-Code"].encode())
    assert b"(version " in body


def test_formats_and_headers(front: FrontProcess) -> None:
    status, headers, body = ask(front, "SELECT 1 AS a", default_format="JSONEachRow", query_id="mine")
    assert (status, headers["X-ClickHouse-Format"], json.loads(body)) == (200, "JSONEachRow", {"a": 1})
    assert headers["X-ClickHouse-Query-Id"] == "mine"
    assert headers["X-ClickHouse-Timezone"] == "UTC"
    _, headers, body = ask(front, "SELECT 1 AS a FORMAT CSVWithNames")
    assert (headers["X-ClickHouse-Format"], body) == ("CSVWithNames", b'"a"\n1\n')
    _, headers, _ = ask(front, "SELECT number FROM numbers(10)", wait_end_of_query="1")
    assert json.loads(headers["X-ClickHouse-Summary"])["result_rows"] == "10"


def test_get_reads_only(front: FrontProcess) -> None:
    assert ask(front, "SELECT {a:Int8} + 1", "GET", param_a="4")[2] == b"5\n"
    status, headers, _ = ask(front, "CREATE TABLE by_get (a Int8) ENGINE = Memory", "GET")
    assert (status, headers["X-ClickHouse-Exception-Code"]) == (500, "164")


def test_query_in_the_url_and_rest_in_the_body(front: FrontProcess) -> None:
    """The two are one text, as a server reads them."""
    key = {"X_ClickHouse_User": "default", "X_ClickHouse_Key": PASSWORD}
    path = "/?" + urlencode({"query": "SELECT 1 +"})
    assert request(front, "POST", path, b"41", **key)[2] == b"42\n"
    ask(front, "CREATE TABLE joined (a Int64) ENGINE = MergeTree ORDER BY a", database="millrace")
    path = "/?" + urlencode({"query": "INSERT INTO joined FORMAT TSV", "database": "millrace"})
    status, headers, _ = request(front, "POST", path, b"1\n2\n", **key)
    assert (status, json.loads(headers["X-ClickHouse-Summary"])["written_rows"]) == (200, "2")


def test_bodies_that_lie(front: FrontProcess) -> None:
    """A coding that is not what it says, an unknown one, ClickHouse's own blocks: refused by name."""
    key = {"X_ClickHouse_User": "default", "X_ClickHouse_Key": PASSWORD}
    for coding, code in (("gzip", "271"), ("zstd", "271"), ("lz4", "271"), ("rot13", "48")):
        found = request(front, "POST", "/", b"SELECT 1", Content_Encoding=coding, **key)[1]
        assert found["X-ClickHouse-Exception-Code"] == code, coding
    assert request(front, "POST", "/?decompress=1", b"x", **key)[1]["X-ClickHouse-Exception-Code"] == "48"
    assert ask(front, "SELECT 1", nonsense_setting="1")[1]["X-ClickHouse-Exception-Code"] == "115"
    assert ask(front, "SELECT 1", **{"a=1,readonly": "0"})[1]["X-ClickHouse-Exception-Code"] == "115"
    assert ask(front, "SELECT 1")[::2] == (200, b"1\n")


def test_a_client_that_leaves_half_way_inserts_nothing(front: FrontProcess) -> None:
    ask(front, "CREATE TABLE half (a Int64) ENGINE = MergeTree ORDER BY a", database="millrace")
    connection = HTTPConnection("127.0.0.1", front.server.port, timeout=20)
    connection.putrequest("POST", "/?" + urlencode({"query": "INSERT INTO half FORMAT TSV", "database": "millrace"}))
    connection.putheader("X-ClickHouse-Key", PASSWORD)
    connection.putheader("Content-Length", "1000")
    connection.endheaders(b"1\n2\n3\n")
    connection.close()
    assert ask(front, "SELECT count() FROM half", database="millrace")[2] == b"0\n"


@pytest.mark.parametrize(
    ("sql", "url"),
    [
        ("SET max_threads = 3", {}),
        ("SELECT 1; SET max_threads = 3", {}),
        ("SELECT 1; USE system", {}),
        ("SELECT 1 SETTINGS max_threads = 3", {}),
        ("SELECT {n:UInt8}", {"param_n": "3"}),
        ("SELECT nothing", {}),
        ("SELECT number FROM numbers(1000000)", {"max_block_size": "1000"}),
        ("CREATE TEMPORARY TABLE lasting (n UInt8)", {}),
        ("SELECT 1; CREATE TEMPORARY TABLE lasting (n UInt8)", {}),
        ("INSERT INTO kept FORMAT CSV\n3\n", {"param_n": "3"}),
        ("INSERT INTO kept SETTINGS max_threads = 3 FORMAT CSV\n3\n", {}),
        ("INSERT INTO kept FORMAT CSV\nnothing\n", {}),
        ("SELECT 1", {"database": "system", "max_threads": "3"}),
    ],
)
def test_nothing_of_a_request_holds_for_the_next_one_of_its_connection(
    front: FrontProcess, sql: str, url: dict[str, str]
) -> None:
    """Between two that say the same, which have one session of the engine; and a reader's is a reader's."""
    ask(front, "CREATE TABLE IF NOT EXISTS kept (n UInt8) ENGINE = Memory")
    connection = HTTPConnection("127.0.0.1", front.server.port, timeout=20)

    def asked(sql: str, user: str = "default", key: str = PASSWORD, **url: str) -> tuple[int, bytes]:
        headers = {"X-ClickHouse-User": user, "X-ClickHouse-Key": key}
        connection.request("POST", "/?" + urlencode(url), body=sql.encode(), headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()

    def seen() -> list[tuple[int, ...] | tuple[int, bytes]]:
        threads = asked("SELECT getSetting('max_threads'), currentDatabase()")
        return [threads, *(asked(text)[:1] for text in ("SELECT count() FROM lasting", "SELECT {n:UInt8}"))]

    before = seen()
    for _ in range(2):
        asked(sql, **url)
        assert seen() == before
    assert [status for status, *_ in before] == [200, 403, 400], "what is no table may be a file"
    users = (("default", PASSWORD), ("reader", READER_PASSWORD), ("default", PASSWORD))
    assert [asked("SELECT getSetting('readonly')", *user)[1] for user in users] == [b"0\n", b"2\n", b"0\n"]
    connection.close()


def test_an_error_in_the_middle_of_a_stream_is_seen(front: FrontProcess) -> None:
    """Blocks are out already: the answer ends with the exception and without its last chunk."""
    client = front.client()
    sql = "SELECT throwIf(number = 5000000) FROM numbers(10000000)"
    rows = 0
    with pytest.raises(StreamFailureError, match="Code: 395"), client.query_rows_stream(sql) as stream:  # noqa: PT012
        for _ in stream:
            rows += 1
    assert 0 < rows < 10_000_000
    client.close()
    assert ask(front, "SELECT 1")[2] == b"1\n"
