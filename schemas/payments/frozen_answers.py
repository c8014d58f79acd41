"""How answers to commands on payments are rendered again from their events. A line that was released never changes.

``rendering.payment_intent`` is what a caller is told today. When it shows something else, a rendering with the next
number is added here, and ``INTENT`` names it; ``tests/contracts/test_answers_golden`` says so.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final

from schemas.service import Rendering

_SECOND_US: Final = 1_000_000
_NUMBERS_AND_TEXTS_1: Final = (
    *("merchant_id", "amount", "currency", "state", "version", "capture_method", "payment_method", "processor"),
    *("amount_capturable", "amount_received", "amount_refunded", "amount_disputed"),
)
_SAID_1: Final = ("reference", "description", "receipt_email", "statement_descriptor", "return_url", "metadata")


def _intent_1(body: dict[str, Any]) -> dict[str, Any]:
    """The intent after the command, as releases show it since schema version 6 of its event."""
    intent = body["payment_intent"]
    error, action = intent["last_payment_error"], intent["next_action"]
    return {
        "id": intent["id"],
        "object": "payment_intent",
        **{name: intent[name] for name in _NUMBERS_AND_TEXTS_1},
        "last_payment_error": None if error is None else {"code": error},
        "cancellation_reason": intent["cancellation_reason"],
        "latest_attempt": intent["latest_attempt"],
        "next_action": None if action is None else _action_1(action),
        "authorized_until": _time_1(intent["authorized_until"]),
        **{name: intent[name] for name in _SAID_1},
        "created_at": _time_1(intent["created_at"]),
        "updated_at": _time_1(intent["updated_at"]),
    }


def _action_1(action: str) -> Any:
    return json.loads(action) if action.startswith("{") else {"type": "redirect_to_url", "url": action}


def _time_1(time_us: int | None) -> str | None:
    if time_us is None:
        return None
    seconds, rest = divmod(time_us, _SECOND_US)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:06d}Z"


RENDERINGS: Final = {1: Rendering(schema_version=6, result=_intent_1)}
#: the rendering that makes what ``rendering.payment_intent`` makes
INTENT: Final = 1
