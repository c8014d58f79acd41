"""What can go wrong for a caller, and what it may do then.

MillraceClientError
  CallRefused            the service said no; the same call would be refused again. ``code``, ``status``, ``problem``
    InvalidCall          wrong values or a malformed request; ``errors`` lists them
    Conflict             the version or the state is another one; read the object and decide again
    IdentityReused       the idempotency key belongs to another request
    SignatureRefused     the call is not signed as it has to be
    ObjectNotFound       no such object, or not the caller's
  ServiceUnavailable     no answer within the tries of a read
  Undecided              a command got no decision within the tries; the same ``idempotency_key`` finds out later
  StillProcessing        a bounded wait for a state ended; ``intent`` is what was seen last
"""

from __future__ import annotations

from typing import Any


class MillraceClientError(Exception):
    """Something did not work out."""


class CallRefused(MillraceClientError):
    """The service refused the call; ``problem`` is the RFC 9457 document."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        self.status = status
        self.problem = problem
        self.code = str(problem.get("code", "unknown"))
        super().__init__(f"{status} {self.code}: {problem.get('detail', '')}")


class InvalidCall(CallRefused):
    """Wrong values or a malformed request."""

    @property
    def errors(self) -> list[dict[str, str]]:
        """The wrong fields with the reasons."""
        found: list[dict[str, str]] = self.problem.get("errors", [])
        return found


class Conflict(CallRefused):
    """The object is not in the version or state that the call needs."""


class IdentityReused(CallRefused):
    """The idempotency key was used with another request."""


class SignatureRefused(CallRefused):
    """The call is not signed as it has to be: key, clock, or something on the way that changes requests."""


class ObjectNotFound(CallRefused):
    """No such object, or not the caller's."""


class ServiceUnavailable(MillraceClientError):
    """The service did not answer within the tries."""


class Undecided(MillraceClientError):
    """The command may or may not be carried out later; the same identity finds out."""

    def __init__(self, idempotency_key: str, request_id: str, cause: str) -> None:
        self.idempotency_key = idempotency_key
        self.request_id = request_id
        super().__init__(f"no decision for {idempotency_key!r} (request {request_id}): {cause}")


class StillProcessing(MillraceClientError):
    """The intent did not reach the wanted state in time."""

    def __init__(self, intent: dict[str, Any], wanted: tuple[str, ...]) -> None:
        self.intent = intent
        super().__init__(f"{intent['id']} is {intent['state']}, not {' or '.join(wanted) or 'settled'}")


_KINDS: dict[str, type[CallRefused]] = {
    "malformed_request": InvalidCall,
    "idempotency_key_required": InvalidCall,
    "invalid_command": InvalidCall,
    "version_conflict": Conflict,
    "state_conflict": Conflict,
    "key_reused": IdentityReused,
    "signature_required": SignatureRefused,
    "signature_invalid": SignatureRefused,
    "signature_expired": SignatureRefused,
    "not_found": ObjectNotFound,
}


def refusal(status: int, problem: dict[str, Any]) -> CallRefused:
    """The error of a problem document, by its code."""
    return _KINDS.get(str(problem.get("code")), CallRefused)(status, problem)
