"""The one error tree. What it is for: every exception that Millrace raises says what to do next.

PlatformError                  code, public message (first line of the docstring unless given), internal context
  Rejected                     the caller's fault; nothing changed
    InvalidCommand             well-formed, wrong values (``errors``: list of {field, reason})
      EventTooOld
    MalformedRequest  IdempotencyKeyRequired  Unauthenticated  NotFound  TooLarge  UnsupportedMediaType
    Forbidden
      Suspended
    RequestTimeout  KeyReused  QuotaExceeded  VersionConflict  VersionRequired  StateConflict  Gone
    TenantNotActive  KeyShredded  GrantInactive    of a tenant
    SignatureRequired  SignatureInvalid  SignatureExpired    of a signed request
  Unavailable                  a dependency is out; carries its mode: fail_open, fail_closed, stale, read_only
    Overloaded  DependencyTimeout  DeadlineExceeded  TimeZoneUnknown  Maintenance  SafeMode
  OwnershipLost                stop this owner; nothing is wrong with the data
    Fenced  ClockOff
  Corrupt                      park the record and go on
    UndecodableRecord  UnknownSchema
  InvariantViolation           a bug or tampering: stop the partition, page, never retry
    UnbalancedPosting  CasMiss
    TopicReplaced  TopicShorter  CommandsExpired  GapInOffsets    what Kafka holds is not what Postgres has read
    DatabaseOlder    nor has Postgres all that Kafka was told

In the domain a refusal is a value (``schemas.records.Rejection``), never an exception.
The HTTP status of a code is decided in one table, ``ingress/http/problems.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

Retry = Literal["never", "same_identity"]
Mode = Literal["fail_open", "fail_closed", "stale", "read_only"]


class PlatformError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "internal_error"
    retry: ClassVar[Retry] = "never"

    def __init__(self, message: str | None = None, /, **context: object) -> None:
        self.public = message or (type(self).__doc__ or "").partition("\n")[0]
        self.context = context
        super().__init__(self.public)

    @property
    def line(self) -> str:
        """All that is public of it, for callers who get one line and nothing else: gRPC, a terminal."""
        return self.public


class Rejected(PlatformError):
    """The request cannot be carried out as it stands."""

    code = "rejected"


class MalformedRequest(Rejected):
    """The request is not a command envelope in JSON."""

    code = "malformed_request"


class IdempotencyKeyRequired(Rejected):
    """Give a retry identity: the header Idempotency-Key or the field idempotency_key."""

    code = "idempotency_key_required"


class InvalidCommand(Rejected):
    """The command has wrong values; see errors."""

    code = "invalid_command"

    def __init__(self, errors: list[dict[str, str]], message: str | None = None) -> None:
        super().__init__(message, errors=errors)
        self.errors = errors

    @property
    def line(self) -> str:
        """Each field with its reason, in place of "see errors"."""
        return "; ".join(f"{error['field']} {error['reason']}" for error in self.errors) or self.public


class EventTooOld(InvalidCommand):
    """Usage of so long ago is not taken any more; see errors."""

    code = "event_too_old"


class Unauthenticated(Rejected):
    """A valid bearer token is required."""

    code = "unauthenticated"


class Forbidden(Rejected):
    """The token lacks the scope for this operation."""

    code = "forbidden"


class Suspended(Forbidden):
    """Access is suspended; what is open was ended. Ask support."""

    code = "suspended"


class GrantInactive(Rejected):
    """The support grant is not active: not approved yet, not begun yet, over, or revoked."""

    code = "grant_inactive"


class NotFound(Rejected):
    """No such object."""

    code = "not_found"


class TooLarge(Rejected):
    """The body is larger than allowed."""

    code = "too_large"


class RequestTimeout(Rejected):
    """The body did not come in time; nothing was done."""

    code = "request_timeout"
    retry = "same_identity"


class UnsupportedMediaType(Rejected):
    """The content type is not supported here."""

    code = "unsupported_media_type"


class KeyReused(Rejected):
    """The idempotency key was used with another request; use a new key."""

    code = "key_reused"


class VersionConflict(Rejected):
    """The expected version is not the current one; read the object and decide again."""

    code = "version_conflict"

    def __init__(self, message: str | None = None, *, current_version: int | None = None) -> None:
        super().__init__(message, current_version=current_version)
        self.current_version = current_version


class Gone(Rejected):
    """It was there, and was deleted for ever."""

    code = "gone"


class StateConflict(Rejected):
    """The state of the object does not allow this operation."""

    code = "state_conflict"

    def __init__(self, message: str | None = None, current_state: str | None = None) -> None:
        super().__init__(message, current_state=current_state)
        self.current_state = current_state


class VersionRequired(Rejected):
    """Say which version is to be changed: the header If-Match or the field expected_version."""

    code = "version_required"


class TenantNotActive(Rejected):
    """No tenant of that name is known here: ask who issued the token.

    Or it is known and not served as its caller asks: ``state`` says why, and the message of each what that means.
    """

    code = "tenant_not_active"
    _NEXT: ClassVar[Mapping[str, str]] = {
        "provisioning": "The tenant is being made: try again when it is active.",
        "suspended": "The tenant is suspended: an operator of the platform says why, and resumes it.",
        "offboarding": "The tenant is leaving: it writes no more.",
        "exported": "The tenant is leaving: it writes no more.",
        "deleting": "The tenant is deleted: nothing of it is served again.",
        "deleted": "The tenant is deleted: nothing of it is served again.",
    }

    def __init__(self, state: str = "unknown") -> None:
        super().__init__(self._NEXT.get(state), state=state)
        self.state = state


class KeyShredded(Rejected):
    """The keys of this data were destroyed; nobody can read it again."""

    code = "key_shredded"


class QuotaExceeded(Rejected):
    """Too many requests; slow down."""

    code = "quota_exceeded"
    retry = "same_identity"

    def __init__(self, message: str | None = None, /, told: Mapping[str, object] | None = None) -> None:
        """``told``: the numbers of the limit, for the caller."""
        super().__init__(message)
        self.told = dict(told or {})


class SignatureRequired(Rejected):
    """The call has to be signed (RFC 9421) with one of the merchant's signing keys; see Accept-Signature."""

    code = "signature_required"


class SignatureInvalid(Rejected):
    """The signature of the request does not hold; sign the request as it is sent, with an active key."""

    code = "signature_invalid"


class SignatureExpired(Rejected):
    """The signature is not of this time; sign the request again, with the same idempotency key."""

    code = "signature_expired"


class Unavailable(PlatformError):
    """A dependency is unavailable; try again with the same identity."""

    code = "unavailable"
    retry = "same_identity"

    def __init__(self, message: str | None = None, /, *, mode: Mode = "fail_closed", **context: object) -> None:
        super().__init__(message, **context)
        self.mode = mode


class TimeZoneUnknown(Unavailable):
    """There is no data of the policy's time zone here: update tzdata and start this process again."""

    code = "time_zone_unknown"


class Overloaded(Unavailable):
    """Too much work is in flight; try again with the same identity."""

    code = "overloaded"


class Maintenance(Unavailable):
    """No new work is taken for the moment; nothing was done. Try again later with the same identity."""

    code = "maintenance"


class SafeMode(Unavailable):
    """Tenants may not be apart, so none of them is shown anything. Try again later with the same identity."""

    code = "safe_mode"


class DependencyTimeout(Unavailable):
    """A dependency did not answer in time; try again with the same identity."""


class DeadlineExceeded(Unavailable):
    """The deadline of the command passed before it was started; nothing was done."""

    code = "deadline_exceeded"


class OwnershipLost(PlatformError):
    """The process does not own the partition any more."""

    code = "ownership_lost"


class Fenced(OwnershipLost):
    """Another owner has taken the partition: its epoch in the database is higher than ours."""

    code = "fenced"


class ClockOff(OwnershipLost):
    """The clock of this machine and the database's are too far apart: set it, and the owner goes on by itself."""

    code = "clock_off"


class Corrupt(PlatformError):
    """A record cannot be read."""

    code = "corrupt"


class UndecodableRecord(Corrupt):
    """The bytes are not a record of the schema that their prefix names."""

    code = "undecodable_record"


class UnknownSchema(Corrupt):
    """The schema id in the prefix is not in ids.json."""

    code = "unknown_schema"


class InvariantViolation(PlatformError):
    """An invariant of the ledger or of ownership is broken; the partition stops."""

    code = "invariant_violation"


class UnbalancedPosting(InvariantViolation):
    """Debits and credits of a ledger transaction differ."""

    code = "unbalanced_posting"


class CasMiss(InvariantViolation):
    """A current owner found another version than the one it read."""

    code = "cas_miss"


class TopicReplaced(InvariantViolation):
    """The command topic was made again: it is not the one that was read."""

    code = "topic_replaced"


class DatabaseOlder(InvariantViolation):
    """Kafka was told of events that the database does not have: it is a copy of an earlier moment."""

    code = "database_older"


class TopicShorter(InvariantViolation):
    """The command topic has lost records: it does not hold, or not any more, what was read of it."""

    code = "topic_shorter"


class CommandsExpired(InvariantViolation):
    """Commands have expired from the topic before they were read."""

    code = "commands_expired"


class GapInOffsets(InvariantViolation):
    """The next command has another offset than the one that must follow."""

    code = "gap_in_offsets"
