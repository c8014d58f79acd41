"""One HTTP request of a ClickHouse client, taken apart: credentials, SQL, parameters, settings, format."""

from __future__ import annotations

import secrets
from base64 import b64decode
from dataclasses import dataclass
from email.parser import BytesParser
from email.policy import HTTP
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

from compose import limits as compose_limits
from compose.stack.clickhouse.errors import (
    AUTHENTICATION_FAILED,
    NOT_IMPLEMENTED,
    QUERY_IS_TOO_LARGE,
    QueryError,
)
from compose.stack.clickhouse.query import Query
from compose.stack.clickhouse.users import USER
from schemas import limits

if TYPE_CHECKING:
    from email.message import Message
    from typing import IO

_PARAMETER_PREFIX: Final = "param_"
#: names of the HTTP interface itself; whatever else stands in the URL is a setting of the query
_TRANSPORT: Final = frozenset(
    {
        "query", "database", "default_format", "user", "password", "query_id", "quota_key", "role", "stacktrace",
        "session_id", "session_timeout", "session_check", "close_session", "client_protocol_version",
        "compress", "decompress", "wait_end_of_query", "buffer_size", "enable_http_compression",
        "send_progress_in_http_headers", "http_headers_progress_interval_ms",
        "cancel_http_readonly_queries_on_client_close", "async_insert", "wait_for_async_insert",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the engine is asked, and how the answer goes back."""

    query: Query
    query_id: str | None
    compress_answer: bool


def authenticate(path: str, headers: Message, passwords: dict[str, str]) -> str:
    """The user whose password stands in any of ClickHouse's three places; otherwise raises ``QueryError`` 516."""
    url = dict(parse_qsl(urlsplit(path).query, keep_blank_values=True))
    user = headers.get("X-ClickHouse-User") or url.get("user") or USER
    given = headers.get("X-ClickHouse-Key") or url.get("password") or ""
    scheme, _, credentials = headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            user, _, given = b64decode(credentials, validate=True).decode().partition(":")
        except ValueError:
            given = ""
    right = secrets.compare_digest(given.encode(), passwords.get(user, "").encode())
    if not (right and user in passwords):
        who = user[: limits.TEXT_LENGTH_MAX]
        reason = f"{who}: Authentication failed: password is incorrect, or there is no user with such name."
        raise QueryError.named(AUTHENTICATION_FAILED, "AUTHENTICATION_FAILED", reason)
    return user


def read_request(path: str, headers: Message, body: IO[bytes], *, read_only: bool) -> Request:
    """The request that these headers and this body make; raises ``QueryError`` for what is not supported."""
    url = dict(parse_qsl(urlsplit(path).query, keep_blank_values=True))
    body_bytes = body.tell()
    body.seek(0)
    if headers.get("Content-Type", "").startswith("multipart/form-data"):
        url |= _form(headers["Content-Type"], body, body_bytes)
        body.seek(0)
        body.truncate()
        body_bytes = 0
    if url.get("decompress") == "1" or url.get("compress") == "1":
        reason = "ClickHouse's own block compression over HTTP is not supported: use Content-Encoding"
        raise QueryError.named(NOT_IMPLEMENTED, "NOT_IMPLEMENTED", reason)
    named = [(name, value) for name, value in url.items() if name not in _TRANSPORT]
    query = Query(
        sql=url.get("query", "").encode("utf-8", "surrogateescape"),
        body=body,
        body_bytes=body_bytes,
        database=headers.get("X-ClickHouse-Database") or url.get("database"),
        default_format=headers.get("X-ClickHouse-Format") or url.get("default_format"),
        settings={name: value for name, value in named if not name.startswith(_PARAMETER_PREFIX)},
        parameters={
            name.removeprefix(_PARAMETER_PREFIX): value for name, value in named if name.startswith(_PARAMETER_PREFIX)
        },
        read_only=read_only,
        streamed=url.get("wait_end_of_query") != "1",
    )
    return Request(query=query, query_id=url.get("query_id"), compress_answer=url.get("enable_http_compression") == "1")


def _form(content_type: str, body: IO[bytes], body_bytes: int) -> dict[str, str]:
    """The plain fields of a form: SQL and parameters that were too long for a URL."""
    if body_bytes > compose_limits.CLICKHOUSE_QUERY_BYTES_MAX:
        raise QueryError.named(QUERY_IS_TOO_LARGE, "QUERY_IS_TOO_LARGE", "The form is too large")
    message = BytesParser(policy=HTTP).parsebytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body.read())
    fields: dict[str, str] = {}
    for part in message.walk():
        if part.is_multipart():
            continue
        if part.get_filename() is not None:
            raise QueryError.named(NOT_IMPLEMENTED, "NOT_IMPLEMENTED", "External data tables are not supported")
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        fields[str(name)] = content.decode() if isinstance(content, bytes) else ""
    return fields
