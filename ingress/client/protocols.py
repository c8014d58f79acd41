"""The protocols of the client as generators that never touch a socket: they yield a Step and are sent what was heard.

Rule: retries are bounded, jittered, and keep the identity. A command that was sent once is only ever sent
again with the same idempotency key, so its effect happens once whatever gets lost.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Generator, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ingress import limits
from ingress.client.errors import ServiceUnavailable, StillProcessing, Undecided, refusal
from ingress.client.messages import (
    CommandLine,
    Committed,
    Heard,
    LineAnswer,
    Lost,
    Pause,
    Reply,
    Send,
    Step,
)

if TYPE_CHECKING:
    import random

T = TypeVar("T")
Protocol = Generator[Step, Heard, T]

INTENTS: Final = "/v1/payment_intents"
REFUNDS: Final = "/v1/refunds"
DISPUTES: Final = "/v1/disputes"
BALANCE: Final = "/v1/balance"
PAYOUTS: Final = "/v1/payouts"
_RETRIED: Final = frozenset((429, 500, 502, 503, 504))
_DEADLINE_EXCEEDED: Final = 504
_ACCEPTED: Final = 202
_NOT_FOUND: Final = 404
_OK: Final = 200
_ERRORS_FROM: Final = 400
_MS: Final = 1_000


def backoff(attempt: int, reply: Heard, jitter: random.Random) -> Pause:
    """A full-jitter exponential pause, never shorter than the service asked for."""
    ceiling_ms = min(limits.CLIENT_BACKOFF_FIRST_MS * 2**attempt, limits.CLIENT_BACKOFF_MAX_MS)
    asked = reply.headers.get("retry-after", "") if isinstance(reply, Reply) else ""
    floor_s = float(asked) if asked.isdigit() else 0.0
    return Pause(max(floor_s, jitter.uniform(0.5, 1.0) * ceiling_ms / _MS))


def command(
    path: str,
    payload: dict[str, Any],
    *,
    idempotency_key: str | None,
    expected_version: int | None,
    wait_s: float,
    deadline_ms: int | None,
    jitter: random.Random,
) -> Protocol[Committed]:
    """Carries one command out once. Raises CallRefused, or Undecided when the tries are used up."""
    key, request_id = idempotency_key or uuid.uuid4().hex, uuid.uuid4().hex
    envelope: dict[str, Any] = {"idempotency_key": key, "request_id": request_id, "payload": payload}
    if expected_version is not None:
        envelope["expected_version"] = expected_version
    headers = {"Content-Type": "application/json", "Prefer": f"wait={wait_s:.0f}"}
    if key.isascii() and key.isprintable() and " " not in key:  # quotas know a retry by it before a body is read
        headers["Idempotency-Key"] = key
    if deadline_ms is not None:
        headers["X-Deadline-Ms"] = str(deadline_ms)
    send = Send("POST", path, headers, json.dumps(envelope).encode(), wait_s=wait_s)
    cause = "no try"
    for attempt in range(limits.CLIENT_TRIES_MAX):
        heard = yield send
        if isinstance(heard, Reply):
            if heard.status == _ACCEPTED:
                decided = yield from _resume(request_id, jitter)
                if decided is not None:
                    return decided
            elif heard.status < _ERRORS_FROM:
                document = heard.json()
                replayed = heard.headers.get("idempotency-replayed") == "true"
                return Committed(document["result"], document["event"], replayed)
            elif heard.status not in _RETRIED or (heard.status == _DEADLINE_EXCEEDED and deadline_ms is not None):
                # Who sets a deadline does not want the command after it.
                raise refusal(heard.status, heard.json())
        cause = _cause(heard)
        yield backoff(attempt, heard, jitter)
    raise Undecided(key, request_id, cause)


def _resume(request_id: str, jitter: random.Random) -> Protocol[Committed | None]:
    """Asks what became of an accepted command; None when nobody knows it any more or it stays pending."""
    for attempt in range(limits.CLIENT_TRIES_MAX):
        heard = yield Send("GET", f"/v1/operations/{request_id}")
        if isinstance(heard, Reply) and heard.status == _OK:
            operation = heard.json()
            if operation["status"] == "committed":
                return Committed(operation["result"], operation["event"], replayed=False)
            if operation["status"] != "pending":
                problem = operation["problem"]
                if problem["status"] in _RETRIED:  # a missed deadline: the same identity may try again
                    return None
                raise refusal(problem["status"], problem)
        elif isinstance(heard, Reply) and heard.status == _NOT_FOUND:
            return None
        yield backoff(attempt, heard, jitter)
    return None


def read(send: Send, jitter: random.Random) -> Protocol[dict[str, Any]]:
    """The document of a call that may be repeated. Raises CallRefused, or ServiceUnavailable after the last try."""
    heard: Heard = None
    for attempt in range(limits.CLIENT_TRIES_MAX):
        heard = yield send
        if isinstance(heard, Reply):
            if heard.status < _ERRORS_FROM:
                return heard.json()
            if heard.status not in _RETRIED:
                raise refusal(heard.status, heard.json())
        yield backoff(attempt, heard, jitter)
    raise ServiceUnavailable(f"{send.method} {send.path}: {_cause(heard)}")


def get(object_id: str, wait_s: float, jitter: random.Random, *, path: str = INTENTS) -> Protocol[dict[str, Any]]:
    """One intent or refund; with a wait, as soon as it is not processing or pending any more."""
    headers = {"Prefer": f"wait={wait_s:.0f}"} if wait_s else {}
    return read(Send("GET", f"{path}/{object_id}", headers, wait_s=wait_s), jitter)


def publish(
    kind: str, document: dict[str, Any], expected_version: int, jitter: random.Random
) -> Protocol[dict[str, Any]]:
    """The published version. The version that is expected is the identity of the call, so a lost answer is no loss."""
    content = json.dumps({"expected_version": expected_version} | document).encode()
    return read(Send("POST", f"/v1/{kind}/policies", {"Content-Type": "application/json"}, content), jitter)


def balance(at: datetime | None, jitter: random.Random) -> Protocol[dict[str, Any]]:
    """The balances, now or at a past time. Raises ValueError for a time without a zone: it could mean any."""
    if at is None:
        return read(Send("GET", BALANCE), jitter)
    if at.utcoffset() is None:
        raise ValueError("give the time a zone, such as datetime.UTC")
    text = at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return read(Send("GET", BALANCE, params={"at": text}), jitter)


def by_currency(balances: dict[str, Any]) -> dict[str, dict[str, int]]:
    """The document of ``balance`` by its currencies."""
    return {row.pop("currency"): row for row in balances["data"]}


def wait(
    intent_id: str, states: tuple[str, ...], polls: Iterator[float], jitter: random.Random
) -> Protocol[dict[str, Any]]:
    """Long-polls until the intent is in one of the states (none given: until it is not processing).

    ``polls`` gives the seconds of each poll and ends when the time is over; then StillProcessing is raised.
    """
    intent: dict[str, Any] = yield from get(intent_id, 0, jitter)
    for attempt, poll_s in enumerate(polls):
        if intent["state"] in states or (not states and intent["state"] != "processing"):
            return intent
        if intent["state"] != "processing":
            # The service answers such a poll at once: the change to come is another caller's.
            yield backoff(min(attempt, 3), None, jitter)
        intent = yield from get(intent_id, poll_s, jitter)
    if intent["state"] in states or (not states and intent["state"] != "processing"):
        return intent
    raise StillProcessing(intent, states)


def page(
    path: str, limit: int, cursor: str | None, jitter: random.Random, filters: Mapping[str, str | None]
) -> Protocol[dict[str, Any]]:
    """One page of a list; a filter that is None is left out."""
    params = {name: value for name, value in filters.items() if value is not None}
    params |= {"limit": str(limit)} | ({"cursor": cursor} if cursor else {})
    return read(Send("GET", path, params=params), jitter)


def lines(batch: list[CommandLine], *, wait_s: float, jitter: random.Random) -> Protocol[list[LineAnswer]]:
    """Answers to one batch, in order. Lines without a decision are sent again with their identity.

    Raises CallRefused when the request as a whole is refused, Undecided when the tries are used up.
    """
    bodies = [_line(line) for line in batch]
    answers: list[LineAnswer | None] = [None] * len(batch)
    left = list(range(len(batch)))
    heard: Heard = None
    for attempt in range(limits.CLIENT_TRIES_MAX):
        content = b"\n".join(bodies[n] for n in left)
        headers = {"Content-Type": "application/x-ndjson", "Prefer": f"wait={wait_s:.0f}"}
        heard = yield Send("POST", "/v1/commands", headers, content, wait_s=wait_s)
        if isinstance(heard, Reply):
            if heard.status == _OK:
                for n, text in zip(left, heard.content.splitlines(), strict=True):
                    answers[n] = _line_answer(json.loads(text))
                left = [n for n in left if answers[n] is None]
                if not left:
                    return [answer for answer in answers if answer is not None]
            elif heard.status not in _RETRIED:
                raise refusal(heard.status, heard.json())
        yield backoff(attempt, heard, jitter)
    first = json.loads(bodies[left[0]])
    raise Undecided(first["idempotency_key"], first["request_id"], f"{len(left)} lines: {_cause(heard)}")


def _line(line: CommandLine) -> bytes:
    document: dict[str, Any] = {
        "operation": line.operation,
        "idempotency_key": line.idempotency_key or uuid.uuid4().hex,
        "request_id": uuid.uuid4().hex,
        "payload": line.payload,
    }
    if line.expected_version is not None:
        document["expected_version"] = line.expected_version
    return json.dumps(document).encode()


def _line_answer(document: dict[str, Any]) -> LineAnswer | None:
    status = document["status"]
    if status == _ACCEPTED or status in _RETRIED:
        return None
    return LineAnswer(
        status,
        document.get("result"),
        document.get("event"),
        document.get("problem"),
        document.get("replayed", False),
    )


def _cause(heard: Heard) -> str:
    if isinstance(heard, Lost):
        return heard.cause
    return f"status {heard.status} {heard.content[:300]!r}" if isinstance(heard, Reply) else "nothing heard"
