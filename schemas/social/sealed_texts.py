"""Texts of users, each under its user's key: from the ingress to the tables nobody else can read them.

What lies in Kafka, in stored answers, in parked commands and in copies of all these is ciphertext; an erasure destroys
the key, and so every copy. What is sealed opens in its own place only. AES-256-GCM with random nonces: a user
writes far fewer than 2^32 texts.
"""

from __future__ import annotations

import base64
from typing import Any, Final

from schemas.crypto import sealing
from schemas.fields.validation import Field
from schemas.fields.value_types import SIGNALS

#: the field of each operation that a user writes as it likes
WRITTEN: Final = {
    "publish_post": "text",
    "edit_post": "text",
    "change_profile": "display_name",
    "report_object": "comment",
    "appeal_decision": "text",
}
#: what stands where a text was that travels beside its command
PLACEHOLDER: Final = "(sealed)"
#: those whose result says a text again, be it one of before
ANSWERING: Final = frozenset({"publish_post", "edit_post", "change_profile"})
#: fields of results that say a text again
ANSWERED: Final = ("text", "display_name")
KEY_BYTES: Final = sealing.KEY_BYTES
#: the version of these commands from which on a text may travel sealed
SINCE: Final = 2
TRAVELS: Final = Field(SIGNALS, "the text, under its user's key", default=None, nullable=True, since=SINCE)
_SEALED: Final = "sealed"
Json = dict[str, Any]


def _bound(user_id: str, *place: object) -> bytes:
    return sealing.SEPARATOR.join(("millrace/social", user_id, *map(str, place))).encode()


def _seal(text: str, key: bytes, bound: bytes) -> str:
    return base64.b64encode(sealing.encrypt(key, text.encode(), bound)).decode()


def _open(sealed: str, key: bytes, bound: bytes) -> str:
    try:
        closed = base64.b64decode(sealed, validate=True)
    except ValueError as error:
        raise sealing.SealBroken from error
    return sealing.decrypt(key, closed, bound).decode()


def text_of(operation: str, payload: Json) -> str | None:
    """What of a command has to be sealed; None where it says no text."""
    text = payload.get(WRITTEN.get(operation, ""))
    return text if isinstance(text, str) and text else None


def travelling(operation: str, payload: Json) -> Json:
    """The payload without its text."""
    return payload if text_of(operation, payload) is None else payload | {WRITTEN[operation]: PLACEHOLDER}


def sealed_command(
    operation: str, payload: Json, key: bytes, user_id: str, idempotency_key: str
) -> dict[str, str] | None:
    """What travels beside the payload: the text, for this command of this user; None without one."""
    text = text_of(operation, payload)
    return None if text is None else {_SEALED: _seal(text, key, _bound(user_id, operation, idempotency_key))}


def is_sealed(operation: str, signals: dict[str, str] | None) -> bool:
    """Whether a command's text is not in its payload."""
    return operation in WRITTEN and _SEALED in (signals or {})


def opened_payload(
    operation: str, payload: Json, signals: dict[str, str], key: bytes, user_id: str, idempotency_key: str
) -> Json:
    """The payload with its text. Raises SealBroken."""
    return payload | {WRITTEN[operation]: _open(signals[_SEALED], key, _bound(user_id, operation, idempotency_key))}


def sealed_result(result: Json, key: bytes, user_id: str) -> Json:
    """A result as it is stored: each of its texts under the key, for this object in this version."""
    named = {name: result[name] for name in ANSWERED if result.get(name)}
    if not named:
        return result
    place = result["id"], result["version"]
    closed = {name: _seal(text, key, _bound(user_id, *place, name)) for name, text in named.items()}
    return result | dict.fromkeys(named, PLACEHOLDER) | {_SEALED: closed}


def opened_result(result: Json, key: bytes, user_id: str) -> Json:
    """The reverse of ``sealed_result``. Raises SealBroken."""
    place = result["id"], result["version"]
    texts = {name: _open(closed, key, _bound(user_id, *place, name)) for name, closed in result[_SEALED].items()}
    return {name: value for name, value in (result | texts).items() if name != _SEALED}


def has_sealed(result: object) -> bool:
    """Whether a stored result has texts that must be opened."""
    return isinstance(result, dict) and _SEALED in result
