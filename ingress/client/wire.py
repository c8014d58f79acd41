"""What both clients share of httpx: from a Send to a request, from a response to a Reply."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import httpx

from ingress import limits
from ingress.client.errors import refusal
from ingress.client.messages import Lost, Reply, Send

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ingress.client.messages import CommandLine

Token = str | Callable[[], str]

STREAM: Final = "/v1/events/stream"
POOL: Final = httpx.Limits(max_connections=limits.CLIENT_CONNECTIONS_MAX)
BATCH_LINES_DEFAULT: Final = 500
ERRORS_FROM: Final = 400
_REFUSED_BELOW: Final = 429


def request(token: Token, send: Send) -> dict[str, Any]:
    """The arguments of ``Client.request``."""
    headers = send.headers | {"Authorization": f"Bearer {_bearer(token)}"}
    read_s = send.wait_s + limits.CLIENT_READ_SLACK_S
    return {
        "method": send.method,
        "url": send.path,
        "headers": headers,
        "content": send.content,
        "params": send.params,
        "timeout": httpx.Timeout(read_s, connect=limits.CLIENT_CONNECT_TIMEOUT_S),
    }


def stream(token: Token, cursor: str | None) -> dict[str, Any]:
    """The arguments of ``Client.stream`` for events after a cursor."""
    headers = {"Authorization": f"Bearer {_bearer(token)}", "Accept": "text/event-stream"}
    if cursor is not None:
        headers["Last-Event-ID"] = cursor
    # A silent stream sends heartbeats: two missed in a row mean that the line is dead.
    read_s = 2 * limits.EVENT_STREAM_HEARTBEAT_S + limits.CLIENT_READ_SLACK_S
    return {"headers": headers, "timeout": httpx.Timeout(read_s, connect=limits.CLIENT_CONNECT_TIMEOUT_S)}


def reply(response: httpx.Response) -> Reply:
    """The response without httpx."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(response.status_code, headers, response.content)


def lost(error: httpx.TransportError) -> Lost:
    """What is known when no answer came."""
    return Lost(f"{type(error).__name__}: {error}")


def raise_unless_retried(status: int, content: bytes) -> None:
    """Raises CallRefused for a refusal that a later try would meet again."""
    if status < _REFUSED_BELOW:
        try:
            problem = json.loads(content)
        except ValueError:
            problem = {}
        raise refusal(status, problem)


def operation(request_id: str) -> Send:
    """Asks for an operation."""
    return Send("GET", f"/v1/operations/{request_id}")


def polls(within_s: float) -> Iterator[float]:
    """The seconds of each long poll until the time is over."""
    ends_at = time.monotonic() + within_s
    while (left_s := ends_at - time.monotonic()) > 0:
        yield max(1.0, min(left_s, limits.RESULT_WAIT_DEFAULT_S))


def batches(lines: Iterable[CommandLine], size: int) -> Iterator[list[CommandLine]]:
    """The lines in lists of at most ``size``, which the service bounds too."""
    source = iter(lines)
    while batch := list(itertools.islice(source, min(size, limits.COMMANDS_LINES_MAX))):
        yield batch


def _bearer(token: Token) -> str:
    return token if isinstance(token, str) else token()
