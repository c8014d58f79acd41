"""How the SDK's requests leave: over our own connections, which know whether a byte was sent, or through the vault.

The SDK's own HTTP clients call a refused connection and a lost answer by one name; the difference is a second charge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlsplit

import stripe

from dataflows.payments.attempts.http_connection import HttpAnswer
from schemas.identity import is_card_token

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dataflows.payments.attempts.adapter import Answer, Call
    from dataflows.payments.attempts.http_pool import HttpPool
    from dataflows.payments.attempts.vault_route import VaultForwarding

Response = tuple[bytes, int, "Mapping[str, str]"]
_TO_VAULT: Final = frozenset({"idempotency-key", "stripe-version"})
_CARD_TOKEN: Final = "card[token]"  # noqa: S105 - the name of a field


class ToldByVault(Exception):
    """The vault answered in its own name."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(type(answer).__name__)
        self.answer = answer


class DirectTransport(stripe.HTTPClient):
    """Requests over our own pool. NotConnectedError and NoAnswerError pass through the SDK as they are."""

    name = "millrace"

    def __init__(self, pool: HttpPool, on_written: Callable[[], None]) -> None:
        super().__init__()
        self._pool = pool
        self._on_written = on_written

    async def request_async(self, method: str, url: str, headers: Mapping[str, str], post_data: Any = None) -> Response:
        """The answer to one request; never repeated here."""
        body = post_data.encode() if isinstance(post_data, str) else (post_data or b"")
        on_written = self._on_written if method.upper() == "POST" else None
        answer = await self._pool.request(method.upper(), _target(url), list(headers.items()), body, on_written)
        return answer.body, answer.status, _headers(answer)

    async def close_async(self) -> None:
        """Closes idle connections."""
        self._pool.close()


class VaultTransport(stripe.HTTPClient):
    """Makes the payment method of a card that only the vault knows. Raises ToldByVault when that answers itself."""

    name = "millrace-vault"

    def __init__(self, vault: VaultForwarding, call: Call) -> None:
        super().__init__()
        self._vault = vault
        self._call = call

    async def request_async(
        self,
        method: str,  # noqa: ARG002 - the vault only posts
        url: str,
        headers: Mapping[str, str],
        post_data: Any = None,
    ) -> Response:
        """The processor's answer. The form travels as an object of texts; the vault writes it, the card in it."""
        form = dict(parse_qsl(str(post_data), strict_parsing=True, keep_blank_values=True))
        token = form.pop(_CARD_TOKEN, "")
        if not is_card_token(token):
            raise ValueError("only a card of the vault goes through the vault")
        passed = [(name, value) for name, value in headers.items() if name.lower() in _TO_VAULT]
        sent = [*passed, ("Content-Type", "application/json")]
        body: dict[str, object] = {**form, "payment_method": token}
        answer = await self._vault.request(self._call, _target(url), sent, body, lambda: None)
        if not isinstance(answer, HttpAnswer):
            raise ToldByVault(answer)
        return answer.body, answer.status, _headers(answer)


def _target(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def _headers(answer: HttpAnswer) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in answer.headers}
