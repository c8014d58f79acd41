"""One try of one delivery: resolve, judge every address, connect to one that was judged, post, hear the status.

The name is never resolved a second time (no rebinding), a redirect is not followed, no proxy of the environment is
used, and the whole try ends within a bound, whatever the receiver does.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from dataflows.payments.merchant_webhooks import signature
from schemas.payments import limits, webhook_url
from schemas.payments.webhook_url import RefusedUrl, WebhookUrl

Resolve = Callable[[str, int], list[str]]

USER_AGENT: Final = "Millrace-Webhooks/1"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a try: the receiver's status, or our word for why there is none."""

    status: int | None
    error: str | None = None


def resolve(host: str, port: int) -> list[str]:
    """Every address of a name, as the system's resolver gives it. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [str(entry[4][0]) for entry in found]


class Sender:
    """Posts deliveries; any number of threads may use one. ``loopback`` is the development setting."""

    def __init__(
        self, *, loopback: bool = False, resolver: Resolve = resolve, tls: ssl.SSLContext | None = None
    ) -> None:
        self._loopback = loopback
        self._resolve = resolver
        self._tls = tls or ssl.create_default_context()

    def send(self, url: str, event_id: str, body: bytes, secrets: Sequence[str], now: int) -> Answer:
        """One try at ``now`` (seconds). Never raises for anything that the receiver or the network does."""
        try:
            target = webhook_url.parse(url, loopback=self._loopback)
            addresses = self._resolve(target.host, target.port)
        except (RefusedUrl, OSError, UnicodeError):
            # Told alike: else a merchant would learn from its log which names our own network knows.
            return Answer(None, "address_refused")
        # One inner address is enough to refuse: whoever mixes them in is up to something.
        if not addresses or not all(self._may_go_to(target, address) for address in addresses):
            return Answer(None, "address_refused")
        headers = signature.headers(event_id, body, now, secrets)
        return self._post(target, addresses, body, headers)

    def _may_go_to(self, target: WebhookUrl, address: str) -> bool:
        """Without TLS only to this machine, whatever the name says."""
        if target.scheme == "http":
            return webhook_url.is_allowed(address, loopback=True) and not webhook_url.is_allowed(address)
        return webhook_url.is_allowed(address, loopback=self._loopback)

    def _post(self, target: WebhookUrl, addresses: Sequence[str], body: bytes, headers: dict[str, str]) -> Answer:
        connection = _Connection(target, addresses, self._tls if target.scheme == "https" else None)
        cut = threading.Timer(limits.MERCHANT_WEBHOOK_SEND_TIMEOUT_S, connection.cut)
        cut.daemon = True
        cut.start()
        try:
            connection.request(
                "POST",
                target.target,
                body,
                {"Content-Type": "application/json", "User-Agent": USER_AGENT, "Connection": "close", **headers},
            )
            answer = connection.getresponse()
            if connection.is_cut:  # in the middle of the head: no whole answer
                return Answer(None, "timeout")
            with suppress(OSError, http.client.HTTPException):  # the status is the answer, whatever becomes of the body
                answer.read(limits.MERCHANT_WEBHOOK_ANSWER_BYTES_MAX)
            return _judged(answer.status)
        except ssl.SSLError:
            return Answer(None, "timeout" if connection.is_cut else "tls_failed")
        except TimeoutError:
            return Answer(None, "timeout")
        except (OSError, http.client.HTTPException):
            return Answer(None, "timeout" if connection.is_cut else "no_answer")
        finally:
            cut.cancel()
            connection.close()


def _judged(status: int) -> Answer:
    if status in range(200, 300):
        return Answer(status)
    return Answer(status, "redirect" if status in range(300, 400) else "refused")


class _Connection(http.client.HTTPConnection):
    """A connection to the first of some addresses that takes it; name and certificate are the host's."""

    def __init__(self, target: WebhookUrl, addresses: Sequence[str], tls: ssl.SSLContext | None) -> None:
        super().__init__(target.host, target.port, timeout=limits.MERCHANT_WEBHOOK_SEND_TIMEOUT_S)
        self.default_port = 443 if tls else 80  # decides whether the Host field names the port
        self._addresses = addresses
        self._tls = tls
        self._raw: socket.socket | None = None
        self.is_cut = False

    def connect(self) -> None:
        """Opens the socket to a judged address; the name is not looked up again."""
        raw = self._raw = self.sock = self._reached()
        raw.settimeout(limits.MERCHANT_WEBHOOK_SEND_TIMEOUT_S)
        if self._tls is not None:
            wrapped = self._tls.wrap_socket(raw, server_hostname=self.host, do_handshake_on_connect=False)
            self._raw = self.sock = wrapped
            wrapped.do_handshake()  # checks the certificate and the host's name

    def _reached(self) -> socket.socket:
        """The addresses in turn, as every client does: one that is dead must not cost its receiver every event.

        Raises OSError, of the last one that was tried within the time.
        """
        failure = OSError("no time was left")
        for address in self._addresses:
            if self.is_cut:
                break
            try:
                return socket.create_connection((address, self.port), limits.MERCHANT_WEBHOOK_CONNECT_TIMEOUT_S)
            except OSError as error:
                failure = error
        raise failure

    def cut(self) -> None:
        """Ends the try from another thread: whatever waits for the receiver wakes up with an error."""
        self.is_cut = True
        if self._raw is not None:
            with suppress(OSError, ValueError):
                socket.socket.shutdown(self._raw, socket.SHUT_RDWR)
