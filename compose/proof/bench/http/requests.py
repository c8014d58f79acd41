"""The requests of the HTTP benchmark as bytes, and what is read from their answers.

Created ids are read from the answers, as a client does; nothing is derived here.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

CREATE_PATH: Final = "/v1/payment_intents"
_encode: Final = msgspec.json.Encoder().encode


class _Resource(Struct):
    id: str


class _Committed(Struct):
    result: _Resource


class _Line(Struct):
    status: int
    result: _Resource | None = None


_committed: Final = msgspec.json.Decoder(_Committed)
_line: Final = msgspec.json.Decoder(_Line)


def payment(number: int) -> dict[str, Any]:
    """The payload of the ``number``-th payment."""
    return {
        "amount": 1_000 + number % 9_000,
        "currency": "GBP",
        "payment_method": "tok_sim_approve",
        "capture_method": "automatic",
        "metadata": {"order": f"bench-{number}"},
    }


class Requests:
    """Builds the requests of one merchant."""

    def __init__(self, host: str, port: int, token: str) -> None:
        self._rest = f" HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\n"

    def create(self, key: str, number: int) -> bytes:
        """One payment intent, in the header form."""
        return self._post(CREATE_PATH, _encode(payment(number)), f"Idempotency-Key: {key}\r\n")

    def confirm(self, key: str, intent_id: str) -> bytes:
        """Its confirmation."""
        return self._post(f"{CREATE_PATH}/{intent_id}/confirm", b"{}", f"Idempotency-Key: {key}\r\n")

    def lines(self, commands: list[dict[str, Any]]) -> bytes:
        """Many commands for ``POST /v1/commands``."""
        return self._post("/v1/commands", b"\n".join(map(_encode, commands)), "", "application/x-ndjson")

    def _post(self, path: str, body: bytes, headers: str, media_type: str = "application/json") -> bytes:
        head = f"POST {path}{self._rest}{headers}Content-Type: {media_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body


def create_line(key: str, number: int) -> dict[str, Any]:
    """A create as one line of NDJSON."""
    return {"operation": f"POST {CREATE_PATH}", "idempotency_key": key, "payload": payment(number)}


def confirm_line(key: str, intent_id: str) -> dict[str, Any]:
    """A confirm as one line of NDJSON."""
    return {"operation": f"POST {CREATE_PATH}/{intent_id}/confirm", "idempotency_key": key, "payload": {}}


def created_id(body: bytes) -> str:
    """The id in the answer to a create."""
    return _committed.decode(body).result.id


def read_lines(body: bytes) -> list[tuple[int, str]]:
    """Status and id ('' for a refusal) of every line of an answer."""
    return [
        (line.status, line.result.id if line.result else "")
        for line in (_line.decode(text) for text in body.splitlines() if text)
    ]
