"""The way of a call whose card only the vault knows: the vault puts the card in and passes the call on.

The worker never holds a card number: it sends the vault's token and hears the processor's answer. What the vault says
in its own name is about the way, not about the operation: marked answers are the processor's, all others are not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec

from dataflows.payments.attempts.adapter import Answer, Call, NotExecuted, Unknown
from dataflows.payments.attempts.http_connection import NoAnswerError, NotConnectedError
from dataflows.payments.attempts.http_pool import HttpPool
from schemas.identity import is_card_token

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflows.payments.attempts.http_connection import HttpAnswer

_PATH: Final = "/v1/forward"
#: on every answer that is the processor's own
_MARK: Final = (b"x-vault-answer", b"processor")
_REFUSED: Final = range(HTTPStatus.BAD_REQUEST, HTTPStatus.INTERNAL_SERVER_ERROR)
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class VaultRoute:
    """Where the vault is, and what a worker proves itself with."""

    url: str
    secret: str = field(repr=False)


def needs_vault(call: Call) -> bool:
    """Whether only the vault can send this call: what follows an earlier operation needs no card."""
    return call.parent_ref is None and is_card_token(call.payment_method)


class VaultForwarding:
    """Sends a processor's calls through the vault, over connections of its own."""

    def __init__(self, route: VaultRoute, processor: str) -> None:
        self._pool = HttpPool(route.url)
        self._authorization = ("Authorization", f"Bearer {route.secret}")
        self._processor = processor

    async def request(
        self,
        call: Call,
        path: str,
        headers: list[tuple[str, str]],
        body: dict[str, object],
        on_written: Callable[[], None],
    ) -> Answer | HttpAnswer:
        """The processor's answer, still to be read, or what the vault itself says of the call."""
        content = {
            "token": call.payment_method,
            "merchant_id": call.merchant_id,
            "processor": self._processor,
            "path": path,
            "body": body,
        }
        sent = [self._authorization, *headers]
        try:
            answer = await self._pool.request("POST", _PATH, sent, _encode(content), on_written)
        except NotConnectedError:
            return NotExecuted("vault_not_connected")
        except NoAnswerError as error:
            return Unknown(f"vault_{error}")
        return answer_of_vault(answer) or answer

    def close(self) -> None:
        """Closes idle connections."""
        self._pool.close()


def answer_of_vault(answer: HttpAnswer) -> Answer | None:
    """What the vault itself says of a call; None when the answer is the processor's.

    Its contract: 4xx and 503 mean that nothing was sent, anything else that it may have been. An outage of the vault
    is none of the processor's, so the circuit breaker is left out of it.
    """
    if _MARK in answer.headers:
        return None
    if answer.status == HTTPStatus.NOT_FOUND:
        # Deleted since the payment was made, or never this merchant's: no retry will find it.
        return NotExecuted("payment_method_unknown", is_for_good=True)
    if answer.status == HTTPStatus.SERVICE_UNAVAILABLE or answer.status in _REFUSED:
        return NotExecuted(f"vault_{answer.status}")
    return Unknown(f"vault_{answer.status}")
