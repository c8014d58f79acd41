"""Delivers the account's events in their order, each until it is taken; signed as Stripe signs (``t=...,v1=...``)."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from compose.simulator import limits

if TYPE_CHECKING:
    from compose.stripe_simulator.book import Book


@dataclass(frozen=True, slots=True)
class Receiver:
    """Where events go, and the secret that they are signed with."""

    url: str
    secret: str = field(repr=False)


def signature(secret: str, body: bytes, stamp: int) -> str:
    """The value of ``Stripe-Signature``."""
    return f"t={stamp},v1={hmac.new(secret.encode(), f'{stamp}.'.encode() + body, hashlib.sha256).hexdigest()}"


class WebhookSender(threading.Thread):
    """Asks the book what is untold, tells it, and forgets what was taken."""

    def __init__(self, book: Book, receiver: Receiver) -> None:
        super().__init__(name="stripe-webhooks", daemon=True)
        self._book, self._receiver = book, receiver
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Ends after the delivery under way."""
        self._stopping.set()
        self.join(limits.SIMULATOR_STOP_SENDER_S)

    def run(self) -> None:
        """Until it is stopped."""
        while not self._stopping.wait(limits.SIMULATOR_WEBHOOK_POLL_MS / 1_000):
            with self._book.transaction() as made:
                untold = made.untold()
            for sequence, body in untold:
                if self._stopping.is_set() or not self._delivered(body.encode()):
                    break
                with self._book.transaction() as made:
                    made.put("outbox_delete", sequence)

    def _delivered(self, body: bytes) -> bool:
        parts = urlsplit(self._receiver.url)
        signed = signature(self._receiver.secret, body, int(time.time()))
        headers = {"Content-Type": "application/json", "Stripe-Signature": signed}
        connection = http.client.HTTPConnection(
            parts.hostname or "", parts.port or 80, timeout=limits.SIMULATOR_WEBHOOK_TIMEOUT_S
        )
        try:
            connection.request("POST", parts.path or "/", body, headers)
            return 200 <= connection.getresponse().status < 300  # noqa: PLR2004 - what every receiver says when it took it
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
