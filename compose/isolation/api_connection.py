"""How the monitor asks the API: sixty times a round, for ever, so by the standard library's bare connection.

A client library costs its process three times as much a request, and is made for what no probe needs: redirects,
cookies, proxies, pools.
"""

from __future__ import annotations

import http.client
import json
import select
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from compose import limits
from schemas.errors import Unavailable

if TYPE_CHECKING:
    import socket

_SUCCESS: Final = range(200, 300)
_SERVER_ERROR: Final = range(500, 600)


class Answer(Struct, frozen=True):
    """What the API said."""

    status_code: int
    headers: dict[str, str]  # names in lower case
    text: str

    @property
    def is_success(self) -> bool:
        """The request was carried out."""
        return self.status_code in _SUCCESS

    @property
    def is_server_error(self) -> bool:
        """The API could not say."""
        return self.status_code in _SERVER_ERROR

    def json(self) -> Any:
        """The body. Raises Unavailable when it is none of this API's."""
        try:
            return json.loads(self.text)
        except ValueError:
            raise Unavailable("the API does not answer in JSON") from None


class ApiConnection:
    """One connection, made when it is needed, and anew when it ended. Redirects are not followed."""

    def __init__(self, base_url: str, timeout_s: float) -> None:
        place = urlsplit(base_url)
        self._timeout_s = timeout_s
        self._connection = http.client.HTTPConnection(place.hostname or "", place.port or 80, timeout=timeout_s)

    def request(
        self,
        method: str,
        path: str,
        *,
        headers: dict[str, str],
        json: dict[str, Any] | None = None,
        params: dict[str, str] | None = None,
    ) -> Answer:
        """Asks once; a Content-Type in ``headers`` is that of the JSON. Raises Unavailable without an answer."""
        target = f"{path}?{urlencode(params)}" if params else path
        body = None if json is None else _encoded(json)
        fields = headers if body is None else {"Content-Type": "application/json"} | headers
        if self._is_cut():
            self.close()
        try:
            self._connection.request(method, target, body, fields)
            answer = self._connection.getresponse()
            text = answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Unavailable(f"the API does not answer: {type(error).__name__}") from error
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, text)

    def listened(
        self, path: str, *, until: str, headers: dict[str, str], params: dict[str, str] | None = None
    ) -> Answer:
        """What comes of an answer without end, over a connection of its own, which is closed.

        It is read until ``until`` is there and nothing more comes for a moment, or for as long and as far as
        ``limits.ISOLATION_STREAM_S`` and ``_BYTES`` say. Raises Unavailable without an answer.
        """
        connection = http.client.HTTPConnection(self._connection.host, self._connection.port, timeout=self._timeout_s)
        try:
            connection.request("GET", f"{path}?{urlencode(params)}" if params else path, headers=headers)
            answer = connection.getresponse()
            text = _heard(answer, connection.sock, until.encode()).decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"the API does not answer: {type(error).__name__}") from error
        finally:
            connection.close()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, text)

    def close(self) -> None:
        """Disconnects; the next request connects again."""
        self._connection.close()

    def _is_cut(self) -> bool:
        """Whether the server ended it meanwhile, as an ingress does with what is idle."""
        if self._connection.sock is None:
            return False
        ended = select.poll()
        ended.register(self._connection.sock, select.POLLIN)
        return bool(ended.poll(0))


def _encoded(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()


def _heard(answer: http.client.HTTPResponse, place: socket.socket | None, until: bytes) -> bytes:
    """All of an answer that ends; of another one what came in time."""
    heard, ends_at = b"", time.monotonic() + limits.ISOLATION_STREAM_S
    while len(heard) < limits.ISOLATION_STREAM_BYTES and (left := ends_at - time.monotonic()) > 0:
        if place is not None:  # of an answer that ends with its connection there is none
            place.settimeout(min(left, limits.ISOLATION_STREAM_QUIET_S) if until in heard else left)
        try:
            part = answer.read1(limits.ISOLATION_STREAM_BYTES - len(heard))
        except TimeoutError:
            break
        if not part:
            break
        heard += part
    return heard
