"""What makes two HTTP requests one, for a quota: and when a repetition is none any more."""

from __future__ import annotations

from typing import Any

import pytest

from ingress import limits as ingress_limits
from limiter.edge.request_identity import Repetitions, idempotency_key, or_fingerprint
from schemas.limiter import limits as limiter_limits
from tests.each import each

POST: dict[str, Any] = {
    "type": "http",
    "method": "POST",
    "path": "/v1/things/1",
    "raw_path": b"/v1/things/1",
    "query_string": b"",
    "headers": [(b"idempotency-key", b"k"), (b"x-request-id", b"1")],
}


def test_a_retry_has_the_identity_of_its_first_try() -> None:
    again = POST | {"headers": [(b"x-request-id", b"2"), (b"idempotency-key", b"k")]}
    first = idempotency_key(POST)
    assert first is not None
    assert len(first) <= limiter_limits.LIMIT_REQUEST_ID_LENGTH_MAX
    assert idempotency_key(again) == first
    assert idempotency_key({name: value for name, value in POST.items() if name != "raw_path"}) == first


@pytest.mark.parametrize(
    "changes",
    [
        {"headers": [(b"idempotency-key", b"other")]},
        {"method": "DELETE"},
        {"path": "/v1/things/2", "raw_path": b"/v1/things/2"},
        {"query_string": b"force=1"},
    ],
)
def test_another_request_under_the_same_key_is_another_one(changes: dict[str, Any]) -> None:
    assert idempotency_key(POST | changes) not in (None, idempotency_key(POST))


@pytest.mark.parametrize(
    "changes",
    [
        {"headers": []},
        {"headers": [(b"idempotency-key", b"")]},
        {"headers": [(b"idempotency-key", b"a"), (b"idempotency-key", b"b")]},
        {"method": "GET"},  # whoever reads again is answered again
        {"method": "HEAD"},
    ],
)
def test_what_has_no_one_key_or_only_reads_has_no_identity(changes: dict[str, Any]) -> None:
    assert idempotency_key(POST | changes) is None


def test_so_many_repetitions_are_free_until_it_is_charged_again() -> None:
    found, free = Repetitions(), limiter_limits.LIMIT_REPETITIONS_FREE_MAX
    assert free >= ingress_limits.CLIENT_TRIES_MAX
    assert [found.is_one_too_many(("t", "k")) for _ in range(free + 2)] == [False] * free + [True] * 2
    assert not found.is_one_too_many(("t", "other"))
    found.charged(("t", "k"))
    assert not found.is_one_too_many(("t", "k"))


def test_what_is_remembered_is_bounded_and_the_quietest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limiter_limits, "LIMIT_REPEATED_MAX", 2)
    monkeypatch.setattr(limiter_limits, "LIMIT_REPETITIONS_FREE_MAX", 1)
    found = Repetitions()
    asked = [found.is_one_too_many((name,)) for name in ("a", "b", "a", "c", "b", "a")]
    assert asked == [False, False, True, False, False, False]  # "c" took the place of "b", "b" that of "a"


def asked(method: str = "GET", path: str = "/r", query: str = "q=1", client: str = "192.0.2.1", **told: str) -> Any:
    headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in told.items()]
    return {"method": method, "path": path, "query_string": query.encode(), "headers": headers, "client": (client, 1)}


def test_what_is_sent_again_alike_has_one_fingerprint_for_a_while() -> None:
    now = 1_000.0
    of = or_fingerprint(2, lambda: now)
    first = of(asked())
    assert first is not None
    now = 1_001.9
    assert of(asked()) == first
    now = 1_002.0
    assert of(asked()) != first


@each(
    "other",
    [
        {"method": "HEAD"},
        {"path": "/s"},
        {"path": "/rq", "query": "=1"},
        {"query": "q=2"},
        {"client": "192.0.2.2"},
        {"authorization": "Bearer a"},
        {"cookie": "s=1"},
        {"content_digest": "sha-256=:a:", "content_length": "3"},
    ],
)
def test_whatever_tells_two_requests_apart_is_in_the_fingerprint(other: dict[str, str]) -> None:
    of = or_fingerprint(2, lambda: 1_000.0)
    assert None not in (of(asked()), of(asked(**other)))
    assert of(asked()) != of(asked(**other))


def test_a_body_that_nobody_knows_has_none_and_a_key_goes_first() -> None:
    of = or_fingerprint(2, lambda: 1_000.0)
    assert of(asked("POST", content_length="3")) is None
    assert of(asked("POST", transfer_encoding="chunked")) is None
    keyed = asked("POST", content_length="3", idempotency_key="k")
    assert of(keyed) == idempotency_key(keyed)
