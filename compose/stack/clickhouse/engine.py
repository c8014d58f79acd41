"""The chdb engine as a server needs it: many callers at once, each with settings of its own.

Every client connection has a session of its own. One more connection to the engine stays open for the life of the
process: with the last one the engine would stop.
"""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from xml.sax.saxutils import escape

from chdb.state.sqlitelike import Connection

from compose import limits
from compose.stack.clickhouse.errors import (
    ACCESS_DENIED,
    NOT_IMPLEMENTED,
    QUERY_IS_TOO_LARGE,
    READONLY,
    TOO_MANY_SIMULTANEOUS_QUERIES,
    QueryError,
)
from compose.stack.clickhouse.query import Answer, Query
from compose.stack.clickhouse.session import SETTING_NAME, Session, quoted
from compose.stack.clickhouse.statement import (
    Insert,
    calls_python,
    is_select,
    last_format,
    leaves_session,
    only_reads,
    reads_input,
    split_insert,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_USERS: Final = Path(__file__).with_name("users.xml")
_CONFIGURATION: Final = (
    "<clickhouse><user_directories><users_xml><path>{}</path></users_xml></user_directories>"
    # by itself the engine looks at its memory twenty times a second, also when nobody asks for anything
    "<memory_worker_period_ms>500</memory_worker_period_ms>"
    # and ten times a second at every table that took rows: for parts to merge, and for streams, which we never use
    "<background_processing_pool_thread_sleep_seconds_if_nothing_to_do>5"
    "</background_processing_pool_thread_sleep_seconds_if_nothing_to_do>"
    "<background_streaming_processing_pool_thread_sleep_seconds_if_nothing_to_do>600"
    "</background_streaming_processing_pool_thread_sleep_seconds_if_nothing_to_do></clickhouse>"
)
#: words with which a statement names a file of the machine: no grant rules them, so both are refused anywhere
_FILES: Final = re.compile(rb"OUTFILE|INFILE", re.IGNORECASE)
#: formats whose blocks can be sent one after another: no header, footer or separator around all of them
_STREAMED_FORMATS: Final = frozenset({"Native", "TabSeparated", "TSV", "CSV", "RowBinary", "JSONEachRow"})


class Engine:
    """The engine on one data folder. Every method may be called from any thread."""

    def __init__(self, data: Path) -> None:
        configuration = data.with_name("grants.xml")
        configuration.write_text(_CONFIGURATION.format(escape(str(_USERS))))
        self._path = f"{data}?config-file={configuration}"
        self._root = Connection(self._path)
        self._places = threading.BoundedSemaphore(limits.CLICKHOUSE_QUERIES_MAX)
        self._sessions: set[Session] = set()
        self.version = self._root.query("SELECT version()", "TSV").bytes().decode().strip()

    @contextmanager
    def session(self) -> Iterator[Session]:
        """For one client connection, as long as it lasts."""
        session = Session(self._path)
        self._sessions.add(session)
        try:
            yield session
        finally:
            self._sessions.discard(session)
            session.close()

    @contextmanager
    def run(self, query: Query, session: Session) -> Iterator[Answer]:
        """Runs one request; its blocks must be taken inside the context. Raises ``QueryError``."""
        if not self._places.acquire(timeout=limits.CLICKHOUSE_QUERY_WAIT_MAX_S):
            reason = f"Too many simultaneous queries. Maximum: {limits.CLICKHOUSE_QUERIES_MAX}"
            raise QueryError.named(TOO_MANY_SIMULTANEOUS_QUERIES, "TOO_MANY_SIMULTANEOUS_QUERIES", reason)
        connection, is_as_said = None, False
        try:
            connection = session.take(query)
            answer = _execute(connection, query)
            yield answer
            is_as_said = answer.left_session
        except RuntimeError as error:  # ChdbError among them
            raise QueryError.of_engine(error) from error
        finally:
            if connection is not None:
                session.give_back(query, connection, is_as_said=is_as_said)
            self._places.release()

    def close(self) -> None:
        """Ends the engine; nothing may run any more."""
        for session in tuple(self._sessions):
            session.close()
        self._root.close()


def _execute(connection: Connection, query: Query) -> Answer:
    query.body.seek(0)
    text = query.sql + b"\n" if query.sql else query.body.read(limits.CLICKHOUSE_QUERY_BYTES_MAX)
    if query.read_only and not only_reads(text):
        raise QueryError.named(READONLY, "READONLY", "Cannot execute such a statement in readonly mode")
    insert = split_insert(text)
    if insert is not None and not _fits(insert, query):
        return _insert(connection, query, text, insert)
    if query.sql:
        text += query.body.read(limits.CLICKHOUSE_QUERY_BYTES_MAX)
    if query.body.read(1):
        reason = f"The query is larger than {limits.CLICKHOUSE_QUERY_BYTES_MAX} bytes"
        raise QueryError.named(QUERY_IS_TOO_LARGE, "QUERY_IS_TOO_LARGE", reason)
    if _FILES.search(text):
        reason = "INTO OUTFILE and FROM INFILE are not allowed here, nor are these words in a text"
        raise QueryError.named(ACCESS_DENIED, "ACCESS_DENIED", reason)
    if calls_python(text):
        raise QueryError.named(ACCESS_DENIED, "ACCESS_DENIED", "The table function python is not allowed here")
    if reads_input(text):
        raise QueryError.named(NOT_IMPLEMENTED, "NOT_IMPLEMENTED", "INSERT ... SELECT FROM input() is not supported")
    return _select(connection, query, text)


def _fits(insert: Insert, query: Query) -> bool:
    """Whether the engine takes the INSERT as one text: VALUES that stand beside their statement, with parameters."""
    return (
        insert.data_format == "Values"
        and not query.sql
        and query.body_bytes <= limits.CLICKHOUSE_SPOOL_MEMORY_BYTES_MAX // 64
    )


def _select(connection: Connection, query: Query, text: bytes) -> Answer:
    output_format = last_format(text) or query.default_format or "TabSeparated"
    sql = text.decode("utf-8", "surrogateescape")
    if query.streamed and output_format in _STREAMED_FORMATS and is_select(text):
        stream = connection.send_query(sql, output_format, params=query.parameters)
        first = next(stream, None)
        if first is not None:
            blocks = _blocks(stream, first)
            return Answer(blocks, output_format, {}, streamed=True, left_session=leaves_session(text))
    # Not streamed, or no rows at all: then only the whole answer has the names and types of the columns.
    result = connection.query(sql, output_format, params=query.parameters)
    summary = {
        "read_rows": str(result.storage_rows_read()),
        "read_bytes": str(result.storage_bytes_read()),
        "written_rows": str(result.rows_written()),
        "written_bytes": str(result.bytes_written()),
        "result_rows": str(result.rows_read()),
        "result_bytes": str(result.bytes_read()),
        "elapsed_ns": str(int(result.elapsed() * 1e9)),
    }
    return Answer(iter((result.bytes(),)), output_format, summary, left_session=leaves_session(text))


def _blocks(stream: Any, first: Any) -> Iterator[bytes]:
    try:
        yield first.bytes()
        for block in stream:
            yield block.bytes()
    finally:
        stream.close()


def _insert(connection: Connection, query: Query, text: bytes, insert: Insert) -> Answer:
    for name, value in query.parameters.items():
        if not SETTING_NAME.fullmatch(name):
            raise QueryError.named(NOT_IMPLEMENTED, "NOT_IMPLEMENTED", f"Unknown parameter name {name!r}")
        connection.query(f"SET param_{name} = {quoted(value)}")
    if query.sql:
        query.body.seek(0)
        ahead = text[insert.data_offset :].lstrip()
    else:
        query.body.seek(insert.data_offset)
        ahead = b""
    with connection.send_insert(insert.head.decode(), insert.data_format) as inserter:
        if ahead:
            inserter.append(ahead)
        while chunk := query.body.read(limits.CLICKHOUSE_CHUNK_BYTES):
            inserter.append(chunk)
        done = inserter.finish()
    summary = {
        "read_rows": str(done.rows_written),
        "read_bytes": str(done.bytes_written),
        "written_rows": str(done.rows_written),
        "written_bytes": str(done.bytes_written),
        "result_rows": str(done.rows_written),
        "result_bytes": str(done.bytes_written),
        "elapsed_ns": str(int(done.elapsed * 1e9)),
    }
    left_session = not query.parameters and leaves_session(insert.head)
    return Answer(iter(()), "", summary, left_session=left_session)
