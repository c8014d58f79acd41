"""Where webhooks may go: by the text of a URL, and by what its name resolves to at the time of sending."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from dataflows.payments.merchant_webhooks.sender import Answer, Sender
from schemas.payments import limits, webhook_url
from tests.each import each
from tests.eventually import patient
from tests.worlds.payments.merchant_webhook_world import shop

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "whsec_" + "A" * 44
NOW = 1_800_000_000
INNER = (
    "127.0.0.1",
    "127.8.8.8",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "192.0.2.1",
    "::",
    "::1",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "fd00:ec2::254",
    "fec0::1",
    "192.88.99.1",
    "3fff:fff:ffff::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::1",
    "2001:0:7f00:1::1",
    "no address",
    "",
)


@each("address", INNER)
def test_inner_addresses_are_refused(address: str) -> None:
    assert not webhook_url.is_allowed(address)


@each("address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8"])
def test_public_addresses_are_allowed(address: str) -> None:
    assert webhook_url.is_allowed(address)


@each("address", ["10.0.0.1", "169.254.169.254", "::ffff:10.0.0.1", "fe80::1"])
def test_the_development_setting_opens_loopback_only(address: str) -> None:
    assert webhook_url.is_allowed("127.0.0.1", loopback=True)
    assert webhook_url.is_allowed("::1", loopback=True)
    assert not webhook_url.is_allowed(address, loopback=True)


@each(
    "url",
    [
        "http://shop.example.com/",
        "ftp://shop.example.com/",
        "file:///etc/passwd",
        "https://",
        "https:///path",
        "//shop.example.com",
        "https://user@shop.example.com/",
        "https://user:pass@shop.example.com/",
        "https://shop.example.com/#part",
        "https://shop.example.com:22/",
        "https://shop.example.com:25/",
        "https://shop.example.com:0/",
        "https://shop.example.com:99999/",
        "https://shop.example.com:1023/",
        "https://localhost/",
        "https://shop.localhost/",
        "https://printer.local/",
        "https://metadata.google.internal/",
        "https://intranet/",
        "https://127.0.0.1/",
        "https://127.0.0.1./",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0x7f.0.0.1/",
        "https://0177.0.0.1/",
        "https://127.1/",
        "https://10.0.0.1/",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[fe80::1%25eth0]/",
        "https://shop.example.com\\@127.0.0.1/",
        "https://shop.example.com/\r\nHost: inner",
        "https://sh\u00f6p.example.com/",
        "https://shop_.-example.com/",
        "https://-shop.example.com/",
        "https://shop..example.com/",
        "https://shop.example.com/" + "a" * limits.MERCHANT_WEBHOOK_URL_LENGTH_MAX,
        "",
        "shop.example.com",
    ],
)
def test_urls_that_are_refused_by_their_text(url: str) -> None:
    with pytest.raises(webhook_url.RefusedUrl):
        webhook_url.parse(url)


def test_a_public_url_has_its_parts() -> None:
    parsed = webhook_url.parse("https://Shop.Example.com:8443/a?b=c")
    assert parsed == webhook_url.WebhookUrl("https", "shop.example.com", 8443, "/a?b=c")
    assert webhook_url.parse("https://8.8.8.8").target == "/"


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["::ffff:127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["::1"], []])
def test_names_that_resolve_to_inner_addresses_are_refused_at_the_send(addresses: list[str]) -> None:
    """Whoever rebinds a name is asked at every send, and the connection goes to what was judged."""
    with shop() as here:
        sender = Sender(resolver=lambda _host, _port: addresses)
        answer = sender.send(f"https://rebound.example.com:{here.port}/", "evt_1", b"{}", [SECRET], NOW)
        assert answer == Answer(None, "address_refused")
        assert here.tries == []


@pytest.mark.parametrize("failure", [socket.gaierror(-2, "Name or service not known"), UnicodeError("label too long")])
def test_a_name_that_nobody_knows_is_told_like_an_inner_one(failure: Exception) -> None:
    """A merchant's log of deliveries is no directory of our network."""

    def unknown(_host: str, _port: int) -> list[str]:
        raise failure

    inner = Sender(resolver=lambda _host, _port: ["10.0.0.1"])
    answers = [
        sender.send("https://db.corp.example/", "evt_1", b"{}", [SECRET], NOW)
        for sender in (inner, Sender(resolver=unknown))
    ]
    assert answers == [Answer(None, "address_refused")] * 2


def test_without_tls_only_this_machine_is_told() -> None:
    """Also in development: a public name with http is refused by its text, and localhost that leads elsewhere by it."""
    public = Sender(loopback=True, resolver=lambda _host, _port: ["8.8.8.8"])
    assert public.send("http://shop.example.com/", "evt_1", b"{}", [SECRET], NOW).error == "address_refused"
    assert public.send("http://localhost:8080/", "evt_1", b"{}", [SECRET], NOW).error == "address_refused"


def test_the_connection_goes_to_the_judged_address_and_speaks_to_the_name() -> None:
    asked: list[str] = []

    def resolver(host: str, _port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    with shop() as here:
        sender = Sender(loopback=True, resolver=resolver)
        body = b'{"aggregate_key":"pi_1"}'
        assert sender.send(f"http://localhost:{here.port}/x", "evt_1", body, [SECRET], NOW) == Answer(200)
        assert (asked, here.ids()) == (["localhost"], ["evt_1"])


@pytest.mark.parametrize("dead", [["127.0.0.2"], ["127.0.0.2", "127.0.0.3"]])
def test_an_address_that_nobody_listens_at_costs_the_others_nothing(dead: list[str]) -> None:
    """As a name has that is known by IPv6, too, at a receiver that has given it up."""
    with shop() as here:
        sender = Sender(loopback=True, resolver=lambda _host, _port: [*dead, "127.0.0.1"])
        url = f"http://localhost:{here.port}/x"
        assert sender.send(url, "evt_1", b'{"aggregate_key":"pi_1"}', [SECRET], NOW) == Answer(200)
        assert here.ids() == ["evt_1"]
        beside = Sender(loopback=True, resolver=lambda _host, _port: ["127.0.0.1", *dead, "10.0.0.1"])
        assert beside.send(url, "evt_2", b"{}", [SECRET], NOW) == Answer(None, "address_refused")


def test_a_server_that_speaks_no_tls_is_no_receipt() -> None:
    with shop() as here:
        sender = Sender(loopback=True, resolver=lambda _host, _port: ["127.0.0.1"])
        answer = sender.send(f"https://shop.example.com:{here.port}/", "evt_1", b"{}", [SECRET], NOW)
        assert answer == Answer(None, "tls_failed")
        assert here.tries == []


@contextmanager
def talker(first: bytes, then: bytes) -> Iterator[int]:
    """A server that says something and then something else for ever; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def talk() -> None:
            with suppress(OSError), listening.accept()[0] as connection:
                connection.recv(65_536)
                connection.sendall(first)
                while then:
                    connection.sendall(then)
                    threading.Event().wait(0.05)
                connection.recv(1)  # silent until the other end leaves

        thread = threading.Thread(target=talk, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(10)


@pytest.mark.parametrize(
    ("first", "then"),
    [(b"", b""), (b"HTTP/1.1 200 OK\r\n", b"X-A: b"), (b"HTTP/1.1 2", b"0"), (b"", b"HTTP")],
)
def test_a_receiver_that_drips_or_says_nothing_is_cut(
    monkeypatch: pytest.MonkeyPatch, first: bytes, then: bytes
) -> None:
    monkeypatch.setattr(limits, "MERCHANT_WEBHOOK_SEND_TIMEOUT_S", 1)
    with talker(first, then) as port:
        began = time.monotonic()
        answer = Sender(loopback=True).send(f"http://127.0.0.1:{port}/", "evt_1", b"{}", [SECRET], NOW)
        assert time.monotonic() - began < patient(5)
    assert answer.status is None
    assert answer.error in {"timeout", "no_answer"}


def test_an_endless_body_is_not_read_and_its_status_counts() -> None:
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    with talker(head, b"x" * limits.MERCHANT_WEBHOOK_ANSWER_BYTES_MAX) as port:
        answer = Sender(loopback=True).send(f"http://127.0.0.1:{port}/", "evt_1", b"{}", [SECRET], NOW)
    assert answer == Answer(200)


def test_nobody_there() -> None:
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))  # and never listens: a port that was given back could be anybody's by now
        port = kept.getsockname()[1]
        answer = Sender(loopback=True).send(f"http://127.0.0.1:{port}/", "evt_1", b"{}", [SECRET], NOW)
    assert answer == Answer(None, "no_answer")
