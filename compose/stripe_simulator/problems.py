"""Refusals in Stripe's words. Source: Stripe's API reference, errors and idempotent requests."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

Object = dict[str, Any]


class Refused(Exception):
    """The request changed nothing."""

    def __init__(self, code: str, message: str, status: int = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status

    def body(self) -> Object:
        """As it leaves on the wire."""
        kind = "idempotency_error" if self.code == "idempotency_error" else "invalid_request_error"
        return {"error": {"type": kind, "code": self.code, "message": self.message}}


def missing(kind: str, name: str) -> Refused:
    """There is no such object."""
    return Refused("resource_missing", f"No such {kind}: '{name}'", HTTPStatus.NOT_FOUND)


def card_error(code: str, intent: Object) -> Object:
    """A decline: of Stripe's errors the only one after which something is kept."""
    problem = {
        "type": "card_error",
        "code": "card_declined",
        "decline_code": code,
        "message": "Your card was declined.",
    }
    return {"error": problem | {"payment_intent": intent}}
