"""The detokenizing proxy: one call of a worker to one of our processors, with the card in place of its token.

It reaches the configured processors and nothing else: the path is appended to a fixed base address, redirects are
not followed, and no header of a caller but a few named ones leaves. What the worker hears is always one of: the
processor's answer (marked by a header), nothing was sent (4xx, 503), or it may have been executed (502).
Each processor has places and connections of its own: one that hangs takes none of another's.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import httpx

from ingress.http.requests import strict_json
from schemas import errors
from schemas.payments.processors import adapter_of
from vault import card_forms, limits, metrics, scrubbing

if TYPE_CHECKING:
    from vault.cards import Cards

#: on every answer that is the processor's own and not the vault's
MARK: Final = "X-Vault-Answer"
#: what of a worker's header fields travels on
PASSED_ON: Final = ("idempotency-key", "traceparent", "tracestate", "x-request-id", "stripe-version")
_PASSED_BACK: Final = ("idempotency-replayed", "retry-after")
_FIELDS: Final = frozenset(("token", "merchant_id", "path", "body"))
_OPTIONAL: Final = frozenset(("processor",))
#: Segments of plain characters, none of them only dots: nothing to decode, to normalise or to climb up by.
_PATH: Final = re.compile(r"(?:/(?!\.+(?:/|\Z))[A-Za-z0-9._~:-]+)+")
_MS: Final = 1_000


class OutcomeUnknown(errors.PlatformError):
    """The call may have reached the processor; ask the processor what became of it."""

    code = "outcome_unknown"


@dataclass(frozen=True, slots=True)
class Destination:
    """A processor that a card may be sent to: its base address, and what the vault proves itself to it with."""

    url: str
    secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """A call as a worker asks for it. It holds no card yet."""

    token: str
    merchant_id: str
    processor: str | None
    path: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorAnswer:
    """What the processor said, without the card."""

    status: int
    headers: dict[str, str]
    body: bytes


def read_forward(raw: bytes) -> Forward:
    """The call that the bytes describe. Raises MalformedRequest or InvalidCommand."""
    given = strict_json.parse(raw)
    if not isinstance(given, dict) or not given.keys() >= _FIELDS or not given.keys() <= _FIELDS | _OPTIONAL:
        raise errors.MalformedRequest("Send an object of token, merchant_id, path and body, and perhaps processor.")
    if not all(isinstance(given[name], str) for name in given.keys() - {"body"}) or not isinstance(given["body"], dict):
        raise errors.MalformedRequest("The body must be an object, the other fields strings.")
    path = given["path"]
    if len(path) > limits.VAULT_PATH_LENGTH_MAX or not _PATH.fullmatch(path):
        reason = "must be the rest of the processor's address: /segments of A-Z a-z 0-9 . _ ~ : - and nothing else"
        raise errors.InvalidCommand([{"field": "path", "reason": reason}])
    card_forms.check_body(adapter_of(given.get("processor", "")), given["token"], given["body"])
    return Forward(
        token=given["token"],
        merchant_id=given["merchant_id"],
        processor=given.get("processor"),
        path=path,
        body=given["body"],
    )


class _Way:
    """The way to one processor: its address, so many places, and connections of its own."""

    def __init__(self, name: str, destination: Destination) -> None:
        self.name = name
        self.adapter = adapter_of(name)
        self.url = destination.url.rstrip("/")
        self.places = limits.VAULT_FORWARDS_MAX
        self.client = httpx.AsyncClient(
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(limits.VAULT_FORWARD_TIMEOUT_MS / _MS, connect=limits.VAULT_CONNECT_TIMEOUT_MS / _MS),
            limits=httpx.Limits(
                max_connections=limits.VAULT_FORWARDS_MAX,
                max_keepalive_connections=limits.VAULT_FORWARDS_MAX,
                keepalive_expiry=limits.VAULT_CONNECTION_IDLE_S,
            ),
            headers={} if destination.secret is None else {"Authorization": f"Bearer {destination.secret}"},
        )


class Forwarder:
    """Calls processors for one vault process, so many at once for each. ``close`` it after."""

    def __init__(self, cards: Cards, processors: Mapping[str, Destination]) -> None:
        """``processors`` by name; the first is meant when a call names none."""
        self._cards = cards
        self._ways = {name: _Way(name, destination) for name, destination in processors.items()}

    async def close(self) -> None:
        """Closes every connection."""
        for way in self._ways.values():
            await way.client.aclose()

    async def carry_out(self, forward: Forward, headers: Mapping[str, str]) -> ProcessorAnswer:
        """The processor's answer. Raises NotFound, Overloaded, Unavailable (not sent) or OutcomeUnknown."""
        way = self._way(forward.processor)
        if way.places == 0:
            metrics.FORWARDS.labels("overloaded").inc()
            raise errors.Overloaded
        way.places -= 1
        metrics.FORWARDS_OPEN.inc()
        try:
            said = {"processor": way.name, "path": forward.path}
            card = await self._cards.reveal(forward.merchant_id, forward.token, said)
            content = card_forms.with_card(way.adapter, forward.token, forward.body, card)
            status, answered, body = await self._send(way, forward.path, content, headers)
        finally:
            way.places += 1
            metrics.FORWARDS_OPEN.dec()
        metrics.FORWARDS.labels("answered").inc()
        return _cleaned(status, answered, body, card.number)

    def _way(self, processor: str | None) -> _Way:
        way = self._ways.get(next(iter(self._ways)) if processor is None else processor)
        if way is None:
            reason = f"must be one of {', '.join(self._ways)}"
            raise errors.InvalidCommand([{"field": "processor", "reason": reason}])
        return way

    async def _send(
        self, way: _Way, path: str, content: tuple[str, bytes], headers: Mapping[str, str]
    ) -> tuple[int, httpx.Headers, bytes]:
        content_type, body = content
        fields = {"Content-Type": content_type, "Accept": "application/json", "Accept-Encoding": "identity"}
        fields |= {name: headers[name] for name in PASSED_ON if name in headers}
        try:
            async with (
                asyncio.timeout(limits.VAULT_FORWARD_TIMEOUT_MS / _MS),
                way.client.stream("POST", way.url + path, content=body, headers=fields) as answer,
            ):
                return answer.status_code, answer.headers, await _bounded(answer)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout):
            metrics.FORWARDS.labels("not_sent").inc()
            raise errors.Unavailable("The processor cannot be reached; nothing was sent to it.") from None
        except (httpx.HTTPError, httpx.StreamError, TimeoutError):
            # Without the cause: an error of a client may quote what it sent.
            metrics.FORWARDS.labels("unknown").inc()
            raise OutcomeUnknown from None


async def _bounded(answer: httpx.Response) -> bytes:
    kept = bytearray()
    async for chunk in answer.aiter_bytes():
        kept += chunk
        if len(kept) > limits.VAULT_ANSWER_BYTES_MAX:
            raise httpx.ReadError("the answer is larger than allowed")
    return bytes(kept)


def _cleaned(status: int, headers: httpx.Headers, body: bytes, number: str) -> ProcessorAnswer:
    try:
        clean, was_held = scrubbing.scrubbed(body, number)
    except scrubbing.Withheld as error:
        metrics.ANSWERS_SCRUBBED.inc()
        raise OutcomeUnknown("The processor's answer held a card number and is withheld.") from error
    if was_held:
        metrics.ANSWERS_SCRUBBED.inc()
    kept = {"content-type": "application/octet-stream"}
    for name in ("content-type", *_PASSED_BACK):
        value = headers.get(name)
        if value is not None and not scrubbing.holds_number(value, number):
            kept[name] = value
    return ProcessorAnswer(status=status, headers=kept, body=clean)
