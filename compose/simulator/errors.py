"""What the processor refuses, as an outside processor would: a status, a stable code, one line of advice.

SimulatorError                 status, code, message; rendered as application/problem+json by ``app``
  MalformedRequest 400         no JSON, no usable Idempotency-Key
  NotFound 404                 the operation was never executed (a definitive answer), or no such route
  KeyReused 409                the identity belongs to another body
  DisputeClosed 409            the dispute has another end already
  TooLarge 413  UnsupportedMediaType 415
  InvalidOperation 422         well-formed, wrong values (``errors``: list of {field, reason})
  Overloaded 503               the writer's queue is full; nothing was done
  PortTaken                    at the start only: somebody else listens there
  WebhooksMisconfigured        at the start only: the receiver's address or secret is none
  BookUnavailable 503          the book could not be written or read; ask again with the same identity
"""

from __future__ import annotations

from typing import ClassVar


class SimulatorError(Exception):
    """The processor cannot do this."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"

    def __init__(self, message: str | None = None, errors: list[dict[str, str]] | None = None) -> None:
        self.message = message or (type(self).__doc__ or "").partition("\n")[0]
        self.errors = errors
        super().__init__(self.message)


class MalformedRequest(SimulatorError):
    """The body is not a JSON object."""

    status = 400
    code = "malformed_request"


class IdempotencyKeyRequired(SimulatorError):
    """Give the operation's identity in the header Idempotency-Key (letters, digits and _ . : ~ -)."""

    status = 400
    code = "idempotency_key_required"


class NotFound(SimulatorError):
    """The operation was never executed."""

    status = 404
    code = "not_found"


class KeyReused(SimulatorError):
    """The Idempotency-Key belongs to an operation with another body."""

    status = 409
    code = "key_reused"


class DisputeClosed(SimulatorError):
    """The dispute was closed with another outcome."""

    status = 409
    code = "dispute_closed"


class TooLarge(SimulatorError):
    """The body is too large for one operation."""

    status = 413
    code = "too_large"


class UnsupportedMediaType(SimulatorError):
    """Send the operation as application/json."""

    status = 415
    code = "unsupported_media_type"


class InvalidOperation(SimulatorError):
    """The operation has wrong values; see errors."""

    status = 422
    code = "invalid_operation"


class Overloaded(SimulatorError):
    """Too many operations wait for the book; nothing was done, send it again later."""

    status = 503
    code = "overloaded"


class BookUnavailable(SimulatorError):
    """The book cannot be reached; send the same operation again to learn its outcome."""

    status = 503
    code = "unavailable"


class PortTaken(SimulatorError):
    """Somebody else listens on the simulator's port; stop it or choose another."""


class WebhooksMisconfigured(SimulatorError):
    """Give the webhook receiver's http address and a secret as whsec_ and base64."""
