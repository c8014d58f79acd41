"""Whatever comes in is refused with a problem that says why, and leaves nothing behind: no row, no event, no key."""

from __future__ import annotations

import http.client
import json
import socket
from typing import TYPE_CHECKING, Any

import pytest

from ingress import limits
from tests.eventually import patient
from tests.worlds.public_system import public

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["public"]  # a fixture of this module
pytestmark = pytest.mark.servers

PATH = "/v1/payment_intents"
JSON = {"Content-Type": "application/json"}
GOOD: dict[str, Any] = {"amount": 1_099, "currency": "USD"}


@pytest.fixture
def merchant(public: PublicSystem) -> Iterator[Merchant]:
    """A merchant of whom nothing may be known after its test."""
    caller = public.merchant()
    yield caller
    caller.http.close()
    for table, column in (("payment_intent", "merchant_id"), ("idempotency", "merchant_id"), ("outbox", "scope")):
        assert public.rows(f"select 1 from {table} where {column} = %s", caller.name) == [], table


def refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert (answer.status_code, answer.json().get("code")) == (status, code), answer.text[:300]
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert problem["status"] == status
    assert all(isinstance(problem[name], str) for name in ("type", "title", "detail"))
    return problem


def address(public: PublicSystem) -> tuple[str, int]:
    host, _, port = public.base_url.removeprefix("http://").partition(":")
    return host, int(port)


def post(merchant: Merchant, body: bytes, headers: dict[str, str] | None = None) -> httpx.Response:
    return merchant.http.post(PATH, content=body, headers=JSON | (headers or {}))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("zero", {"amount": 0}),
        ("negative", {"amount": -5}),
        ("float", {"amount": 10.5}),
        ("text", {"amount": "10"}),
        ("true", {"amount": True}),
        ("none", {"amount": None}),
        ("list", {"amount": [1]}),
        ("past 2^53", {"amount": 2**53}),
        ("past 2^63", {"amount": 2**63}),
        ("unknown currency", {"currency": "XYZ"}),
        ("lower case", {"currency": "usd"}),
        ("short", {"currency": "US"}),
        ("no exponent", {"currency": "XAU"}),
        ("number", {"currency": 840}),
        ("unknown field", {"colour": "red"}),
        ("method", {"capture_method": "later"}),
        ("card number", {"payment_method": "4242424242424242"}),
        ("long token", {"payment_method": "tok_" + "a" * 500}),
        ("metadata list", {"metadata": []}),
        ("metadata number", {"metadata": {"a": 1}}),
        ("metadata NUL", {"metadata": {"a": "x\u0000y"}}),
        ("metadata key", {"metadata": {"k" * 100: "v"}}),
        ("metadata many", {"metadata": {f"k{n}": "v" for n in range(60)}}),
        ("metadata long", {"metadata": {"k": "v" * 600}}),
    ],
)
def test_wrong_values(merchant: Merchant, name: str, change: dict[str, Any]) -> None:
    problem = refused(merchant.create(f"k {name}", **change), 422, "invalid_command")
    field = next(iter(change))
    assert [e["field"] for e in problem["errors"]] == [f"payload.{field}"], problem
    assert all(e["reason"] for e in problem["errors"])


@pytest.mark.parametrize("number", ["1e3", "10.0", "1099.0", "-0.0", "1E2"])
def test_amounts_are_written_as_integers(merchant: Merchant, number: str) -> None:
    body = f'{{"idempotency_key": "k", "payload": {{"amount": {number}, "currency": "USD"}}}}'
    refused(post(merchant, body.encode()), 422, "invalid_command")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"5",
        b'"text"',
        b"null",
        b"\xff\xfe{}",
        b'{"idempotency_key": "\xff", "payload": {}}',
        b'{"idempotency_key": "\\ud800", "payload": {}}',
        b'{"idempotency_key": "k", "payload": {"amount": NaN, "currency": "USD"}}',
        b'{"idempotency_key": "k", "idempotency_key": "l", "payload": {}}',
        b'{"idempotency_key": "k", "payload": {"amount": 1, "amount": 2, "currency": "USD"}}',
        b'{"idempotency_key": "k", "payload": ' + b'{"a":' * 500 + b"1" + b"}" * 500 + b"}",
        b'{"idempotency_key": "k", "payload": ' + b"[" * 30_000 + b"]" * 30_000 + b"}",
        b'{"idempotency_key": "k", "payload": []}',
        b'{"idempotency_key": "k", "payload": {}, "extra": 1}',
        b'{"idempotency_key": ["k"], "payload": {}}',
        b'{"idempotency_key": "k", "expected_version": "1", "payload": {}}',
        b'{"idempotency_key": "k", "payload": {"merchant_id": "m_other", "amount": 1, "currency": "USD"}}',
        b'{"idempotency_key": "k", "tenant": "t", "payload": {"amount": 1, "currency": "USD"}}',
        b'{"idempotency_key": "k", "operation": "POST /v1/refunds", "payload": {"amount": 1, "currency": "USD"}}',
        b'{"idempotency_key": "k", "aggregate_key": "pi_x", "payload": {"amount": 1, "currency": "USD"}}',
    ],
    ids=lambda body: body[:50].decode("latin-1"),
)
def test_what_is_no_envelope(merchant: Merchant, body: bytes) -> None:
    refused(post(merchant, body), 400, "malformed_request")


def test_a_key_is_required_and_bounded(merchant: Merchant) -> None:
    for body in ({"payload": GOOD}, GOOD, {"idempotency_key": "", "payload": GOOD}, {}):
        refused(merchant.http.post(PATH, json=body), 400, "idempotency_key_required")
    for key in ("k" * 300, "a\nb", "a\u0000b"):
        problem = refused(merchant.create(key), 422, "invalid_command")
        assert problem["errors"][0]["field"] == "idempotency_key"
    refused(post(merchant, json.dumps(GOOD).encode(), {"Idempotency-Key": "k" * 300}), 422, "invalid_command")


def test_header_and_body_may_not_contradict(merchant: Merchant) -> None:
    envelope = {"idempotency_key": "a", "expected_version": 1, "request_id": "r", "payload": GOOD}
    for headers in ({"Idempotency-Key": "b"}, {"If-Match": '"2"'}, {"X-Request-Id": "s"}, {"If-Match": "W/x"}):
        refused(post(merchant, json.dumps(envelope).encode(), headers), 400, "malformed_request")
    for text in ("0", "soon", "-1", "1.5"):
        refused(merchant.create(headers={"X-Deadline-Ms": text}), 400, "malformed_request")


def test_bodies_are_bounded(merchant: Merchant) -> None:
    """The whole of a large body is heard out, so that the caller hears the answer; what is past all bounds is cut."""
    for size in (70_000, 2_900_000, 3_000_000):
        body = b'{"idempotency_key": "k", "payload": {"x": "' + b"a" * size + b'"}}'
        refused(post(merchant, body), 413, "too_large")

    def pieces() -> Iterator[bytes]:
        for _ in range(40):
            yield b" " * 10_000

    chunked = merchant.http.post(PATH, content=pieces(), headers=JSON)
    refused(chunked, 413, "too_large")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/xml", "json", ""])
def test_media_types(merchant: Merchant, kind: str) -> None:
    body = json.dumps({"idempotency_key": "k", "payload": GOOD}).encode()
    refused(post(merchant, body, {"Content-Type": kind}), 415, "unsupported_media_type")
    refused(post(merchant, body, {"Content-Type": "application/json; charset=latin-1"}), 415, "unsupported_media_type")


def test_tokens(public: PublicSystem, merchant: Merchant) -> None:
    """No, empty, garbled, alg-none, wrong-audience, wrong-issuer and expired tokens: the same 401."""
    fields = [
        "",
        "Bearer",
        "Bearer x",
        "Bearer eyJhbGciOiJub25lIn0.e30.",
        "Basic bTpw",
        "Bearer " + public.token(merchant.name, audience="other"),
        "Bearer " + public.token(merchant.name, issuer="urn:other"),
        "Bearer " + public.token(merchant.name)[:-6] + "AAAAAA",
    ]
    for field in fields:
        for method, path in (("GET", PATH), ("POST", PATH), ("POST", "/v1/commands"), ("GET", "/v1/events/stream")):
            answer = merchant.http.request(method, path, headers={"Authorization": field})
            refused(answer, 401, "unauthenticated")
            assert answer.headers["www-authenticate"].startswith("Bearer")


def test_unknown_routes_and_methods(merchant: Merchant) -> None:
    for path in ("/v1", "/v2/payment_intents", "/v1/payment_intents/", "/v1/payment_intents/a/b/c", "/%00"):
        refused(merchant.http.get(path), 404, "not_found")
    for method, path, allowed in (
        ("DELETE", PATH, "GET, HEAD, POST"),
        ("PUT", "/v1/commands", "POST"),
        ("POST", "/v1/events", "GET, HEAD"),
        ("TRACE", "/healthz", "GET, HEAD"),
        ("GET", "/v1/payment_intents/pi_1/confirm", "POST"),
    ):
        answer = merchant.http.request(method, path)
        refused(answer, 405, "method_not_allowed")
        assert answer.headers["allow"] == allowed
    for path in (PATH, "/v1/payment_intents/pi_none", "/v1/commands", "/console"):
        got, head = merchant.http.get(path), merchant.http.head(path)
        assert (head.status_code, head.content) == (got.status_code, b"")
        assert head.headers.get("content-length") == got.headers.get("content-length")


def test_too_many_header_fields(merchant: Merchant) -> None:
    headers = [(f"X-Extra-{n}", "v") for n in range(80)]
    refused(merchant.http.get(PATH, headers=headers), 431, "headers_too_large")


def test_header_fields_mean_one_thing(public: PublicSystem, merchant: Merchant) -> None:
    """Two tokens, even twice the same one, two media types, and a request that names no host."""
    token = merchant.http.headers["authorization"]
    twice = (("Authorization", token),) * 2
    for fields in (twice, (twice[0], ("Authorization", "Bearer x")), (("Content-Type", "application/json"),) * 2):
        refused(merchant.http.get(PATH, headers=list(fields)), 400, "malformed_request")
    for head in (b"Host: a\r\nHost: a\r\n", b"Host:\r\n", b""):
        with socket.create_connection(address(public), timeout=patient(30)) as line:
            line.sendall(
                b"GET /v1/payment_intents HTTP/1.1\r\n" + head + b"Authorization: " + token.encode() + b"\r\n\r\n"
            )
            answer = http.client.HTTPResponse(line)
            answer.begin()
            assert (answer.status, json.loads(answer.read())["code"]) == (400, "malformed_request"), head


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Transfer-Encoding: identity\r\n",
    ],
)
def test_a_body_has_one_length(public: PublicSystem, merchant: Merchant, fields: bytes) -> None:
    """Where a proxy and we disagree about its end, the rest of it is a request of somebody else."""
    token = merchant.http.headers["authorization"].encode()
    with socket.create_connection(address(public), timeout=patient(30)) as line:
        line.sendall(
            b"POST /v1/payment_intents HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nAuthorization: " + token
            + b"\r\n" + fields + b"\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
        )  # fmt: skip
        heard = b""
        while chunk := line.recv(10_000):
            heard += chunk
        assert heard.startswith(b"HTTP/1.1 400 "), heard
        assert heard.count(b"HTTP/1.1 ") == 1, heard


def test_a_connection_is_one_request_at_a_time(public: PublicSystem) -> None:
    """HTTP/2, of which one connection opens hundreds of requests, is not spoken."""
    with socket.create_connection(address(public), timeout=patient(30)) as line:
        line.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))  # an empty SETTINGS frame
        assert b"HTTP/1.1 400" in (line.recv(1_000) or b"HTTP/1.1 400")


def test_bytes_that_are_no_http_do_no_harm(public: PublicSystem, merchant: Merchant) -> None:
    """Garbage, half requests and lines that are cut in the middle of a body: the next caller is served."""
    half = b"POST /v1/payment_intents HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"
    for raw in (b"\x00\xff\x00\xff", b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"a" * 100_000, half):
        for _ in range(5):
            with socket.create_connection(address(public), timeout=patient(30)) as line:
                line.sendall(raw)
    assert merchant.http.get(PATH).json()["data"] == []


@pytest.mark.parametrize("size", [1, 60_000, 1_000_000, 8_000_000])
@pytest.mark.parametrize(("path", "status"), [(PATH, 401), ("/nowhere", 404), ("/healthz", 405), ("/v1/events", 405)])
def test_a_refused_body_leaves_the_line_as_it_was(public: PublicSystem, path: str, status: int, size: int) -> None:
    """The refusal is heard while the body is still sent, and the next request on the same connection is answered."""
    line = http.client.HTTPConnection(*address(public), timeout=30)
    try:
        for _ in range(3):
            line.request("POST", path, body=b"x" * size, headers=JSON)
            answer = line.getresponse()
            assert (answer.status, answer.headers["Connection"]) == (status, None)
            assert json.loads(answer.read())["status"] == status
            first = line.sock
            line.request("GET", "/healthz")
            answer = line.getresponse()
            assert (answer.status, line.sock) == (200, first)
            answer.read()
    finally:
        line.close()


def test_past_the_bound_the_answer_says_that_it_is_the_last(public: PublicSystem) -> None:
    with socket.create_connection(address(public), timeout=30) as line:
        line.sendall(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
        line.sendall(b"x" * (limits.BODY_DRAIN_BYTES_MAX + 1))
        answer = http.client.HTTPResponse(line)
        answer.begin()
        assert (answer.status, answer.headers["Connection"]) == (404, "close")


def test_who_asks_before_sending_is_refused_at_once(public: PublicSystem) -> None:
    """``Expect: 100-continue``: the body is not asked for."""
    with socket.create_connection(address(public), timeout=30) as line:
        line.sendall(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n")
        answer = line.recv(1000)
        assert answer.startswith(b"HTTP/1.1 404 "), answer
        assert b"connection: close" in answer
