"""Somebody floods a public door; a quiet merchant beside it is served as if nobody did, and its times are told."""

from __future__ import annotations

import contextlib
import itertools
import socket
import sys
import threading
import time
import uuid
from typing import TYPE_CHECKING, Final

import httpx
import pytest

from ingress import limits
from ingress.http.serving import connections_max
from tests.eventually import becomes
from tests.worlds.public_system import merchant, public

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["merchant", "public"]  # the fixtures of this module
pytestmark = [
    pytest.mark.servers,
    pytest.mark.proof,
    pytest.mark.alone,
    # httpx leaves a socket to the collector when the server closes it in the middle of an answer, as it does here
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
_PAYMENTS: Final = 60
_FLOODING: Final = 16  # threads
_P99: Final = 0.99
_SILENT: Final = 9_000  # at once
_UNFINISHED: Final = b"POST /v1/payment_intents HTTP/1.1\r\nHost: api\r\nContent-Type: application/json\r\n"


def _each(
    public: PublicSystem,
    ask: Callable[[httpx.Client, int], httpx.Response],
    seen: list[int],
    ended: threading.Event,
) -> None:
    """Asks again and again until it is told to end; keeps the statuses of the answers."""
    with httpx.Client(base_url=public.base_url, timeout=30, trust_env=False) as http:
        for number in itertools.count():
            if ended.is_set():
                return
            with contextlib.suppress(httpx.TransportError):  # a door that is shut is an answer, too
                seen.append(ask(http, number).status_code)


def _wrong_token(http: httpx.Client, number: int) -> httpx.Response:
    return http.get("/v1/payment_intents", headers={"Authorization": f"Bearer e30.e30.{number}"})


def _forged_webhook(http: httpx.Client, number: int) -> httpx.Response:
    signed = {"webhook-id": str(number), "webhook-timestamp": str(int(time.time())), "webhook-signature": "v1,AAAA"}
    media = {"Content-Type": "application/json"}  # without it nobody would look at the signature
    return http.post("/v1/webhooks/simulator", content=b"{}" * 500, headers=signed | media)


def _forged_path(http: httpx.Client, number: int) -> httpx.Response:
    return http.get(f"/v1/{number}/../payment_intents/{uuid.uuid4().hex}")


@contextlib.contextmanager
def _asked(public: PublicSystem, ask: Callable[[httpx.Client, int], httpx.Response]) -> Iterator[list[int]]:
    seen: list[int] = []
    ended = threading.Event()
    threads = [threading.Thread(target=_each, args=(public, ask, seen, ended)) for _ in range(_FLOODING)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        ended.set()
        for thread in threads:
            thread.join()


@contextlib.contextmanager
def _greedy(public: PublicSystem) -> Iterator[list[int]]:
    """One merchant takes all that it gets, with a good token."""
    token = {"Authorization": f"Bearer {public.token('m_greedy')}"}

    def create(http: httpx.Client, _: int) -> httpx.Response:
        body = {"idempotency_key": uuid.uuid4().hex, "payload": {"amount": 100, "currency": "USD"}}
        return http.post("/v1/payment_intents", json=body, headers=token)

    with _asked(public, create) as seen:
        yield seen


@contextlib.contextmanager
def _hanging(public: PublicSystem) -> Iterator[list[int]]:
    """Requests that never end, as many as one address gets and more, with a good token and without any."""
    address = httpx.URL(public.base_url)
    token = f"Authorization: Bearer {public.token('m_hanging')}\r\n".encode()
    with contextlib.ExitStack() as held:
        for number in range(limits.REQUESTS_OF_STRANGERS_MAX // 2 + 64):
            line = held.enter_context(socket.create_connection((address.host, address.port or 80)))
            line.sendall(_UNFINISHED + (token if number % 2 else b"") + b"Content-Length: 9\r\n\r\n{")
        yield []


def _silent_lines(public: PublicSystem, ended: threading.Event) -> None:
    """Opens connections that say nothing, or never end their header fields, and opens anew what was cut."""
    address = httpx.URL(public.base_url)
    held: list[socket.socket] = []
    while not ended.is_set():
        with contextlib.suppress(OSError):
            line = socket.create_connection((address.host, address.port or 80), timeout=5)
            held.append(line)
            line.sendall(b"" if len(held) % 2 else _UNFINISHED)
        if len(held) >= _SILENT:
            for line in held[: _SILENT // 2]:
                line.close()
            del held[: _SILENT // 2]
    for line in held:
        line.close()


@contextlib.contextmanager
def _silent(public: PublicSystem) -> Iterator[list[int]]:
    """More lines that say nothing than there are places for requests in all processes."""
    connections_max()  # this process's own files, too
    ended = threading.Event()
    opening = threading.Thread(target=_silent_lines, args=(public, ended))
    opening.start()
    try:
        yield []
    finally:
        ended.set()
        opening.join()


@contextlib.contextmanager
def _waiting(public: PublicSystem) -> Iterator[list[int]]:
    """Two merchants take every place that they get, and hold on to it."""
    connections_max()
    address = httpx.URL(public.base_url)
    tokens = [f"Authorization: Bearer {public.token(f'm_waiting_{n}')}\r\n".encode() for n in range(2)]
    with contextlib.ExitStack() as held:
        for number in range(limits.REQUESTS_OF_CALLERS_MAX * 2):
            line = held.enter_context(socket.create_connection((address.host, address.port or 80)))
            line.sendall(_UNFINISHED + tokens[number % 2] + b"Content-Length: 9\r\n\r\n{")
        yield []


FLOODS: Final = {
    "nobody": lambda _: contextlib.nullcontext([]),
    "wrong tokens": lambda public: _asked(public, _wrong_token),
    "forged webhooks": lambda public: _asked(public, _forged_webhook),
    "forged paths": lambda public: _asked(public, _forged_path),
    "a greedy merchant": _greedy,
    "unfinished requests": _hanging,
    "lines that say nothing": _silent,
    "two merchants that wait": _waiting,
}


@pytest.mark.parametrize("flood", FLOODS)
def test_a_quiet_merchant_is_served_beside_a_flood(
    public: PublicSystem, merchant: Merchant, flood: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every payment of its own is taken at the first try and ends; nobody's flood is answered with a bug of ours."""
    with FLOODS[flood](public) as seen:
        took_s = sorted(_taken_s(merchant) for _ in range(_PAYMENTS))
    listed = {"state": "succeeded", "limit": 100}
    becomes(
        lambda: len(merchant.http.get("/v1/payment_intents", params=listed).json()["data"]), _PAYMENTS, within_s=120
    )
    assert not {status for status in seen if status >= 500 and status != 503}
    if flood == "forged webhooks":
        assert {401} <= {*seen} <= {401, 429, 503}, "what is forged was not refused by its signature"
    p50, p99 = took_s[_PAYMENTS // 2], took_s[int(_PAYMENTS * _P99)]
    told = f"create and confirm beside {len(seen)} answers: p50 {p50 * 1e3:.0f} ms, p99 {p99 * 1e3:.0f} ms"
    with capsys.disabled():
        sys.stdout.write(f"\n{flood}: {told}\n")


def _taken_s(quiet: Merchant) -> float:
    """How long a payment takes to be created and confirmed."""
    began = time.monotonic()
    made = quiet.create(payment_method="tok_sim_approve")
    assert made.status_code == 201, made.text
    confirmed = quiet.act(made.json()["result"]["id"], "confirm")
    assert confirmed.status_code == 200, confirmed.text
    return time.monotonic() - began
