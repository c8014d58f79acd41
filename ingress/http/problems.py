"""The one table that turns a code into an HTTP status (RFC 9457). Nothing else in Millrace knows a status of an error.

A problem has no request-specific member: a replayed refusal is the same bytes as the first one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingress import limits
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

MEDIA_TYPE: Final = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Row:
    """How one code looks outside. ``retry`` = the same identity may be tried again after a moment, at least so long."""

    status: int
    title: str
    retry: bool = False
    retry_after_s: int = 0


TABLE: Final[dict[str, Row]] = {
    "malformed_request": Row(400, "The request is not well-formed"),
    "idempotency_key_required": Row(400, "An idempotency key is required"),
    "unauthenticated": Row(401, "A valid bearer token is required"),
    "invalid_signature": Row(401, "The webhook is not signed by its processor"),
    "signature_required": Row(401, "The request has to be signed"),
    "signature_invalid": Row(401, "The signature of the request does not hold"),
    "signature_expired": Row(401, "The signature of the request is not of this time"),
    "forbidden": Row(403, "The caller may not do this"),
    "suspended": Row(403, "The caller is suspended"),
    "url_invalid": Row(403, "The URL is not one that was signed, or is over"),
    "four_eyes_required": Row(403, "Another person has to approve"),
    "grant_inactive": Row(403, "The support grant is not active"),
    "tenant_not_active": Row(403, "The tenant is not served now"),
    "not_found": Row(404, "No such object"),
    "method_not_allowed": Row(405, "The method is not allowed here"),
    "request_timeout": Row(408, "The body did not come in time", retry=True),
    "version_conflict": Row(409, "The expected version is not the current one"),
    "state_conflict": Row(409, "The state does not allow the operation"),
    "placement_full": Row(409, "No store has room for another tenant"),
    "account_frozen": Row(409, "The account is frozen"),
    "parked": Row(409, "The object waits for an operator"),
    "key_shredded": Row(410, "The keys of this data were destroyed"),
    "gone": Row(410, "It is deleted for ever"),
    "too_large": Row(413, "The body is too large"),
    "unsupported_media_type": Row(415, "The content type is not supported"),
    "range_not_satisfiable": Row(416, "There are no such bytes"),
    "rejected": Row(422, "The command was refused"),
    "invalid_command": Row(422, "The values are wrong"),
    "event_too_old": Row(422, "The usage is of too long ago"),
    "amount_exceeds_capturable": Row(422, "The amount is more than can be captured"),
    "amount_not_higher": Row(422, "The amount is not more than is authorized"),
    "amount_exceeds_refundable": Row(422, "The amount is more than can be refunded"),
    "too_many_attempts": Row(422, "No more attempts can be begun for the payment"),
    "insufficient_funds": Row(422, "The amount is more than there is"),
    "no_reference_rate": Row(422, "No reference rate is in force"),
    "destination_not_usable": Row(422, "Nothing is paid to that destination"),
    "too_many_destinations": Row(422, "No more destinations can be registered"),
    "rate_outside_band": Row(422, "The rate is too far from the reference rate"),
    "amount_mismatch": Row(422, "The amount is not the recorded one"),
    "stale_fact": Row(409, "The object already has this or a later state"),
    "media_not_ready": Row(422, "Media cannot be attached"),
    "checksum_mismatch": Row(422, "The bytes are not the declared ones"),
    "key_reused": Row(422, "The idempotency key was used with another request"),
    "version_required": Row(428, "Say which version is to be changed"),
    "quota_exceeded": Row(429, "Too many requests", retry=True),
    "headers_too_large": Row(431, "Too many header fields"),
    "internal_error": Row(500, "Something went wrong"),
    "outcome_unknown": Row(502, "The call may have been carried out"),
    "time_zone_unknown": Row(503, "A time zone is not known here", retry=True),
    "unavailable": Row(503, "A dependency is unavailable", retry=True),
    "overloaded": Row(503, "Too much work is in flight", retry=True),
    "maintenance": Row(503, "No new work is taken", retry=True, retry_after_s=limits.MAINTENANCE_RETRY_AFTER_S),
    "safe_mode": Row(503, "No tenant is served now", retry=True, retry_after_s=limits.MAINTENANCE_RETRY_AFTER_S),
    "deadline_exceeded": Row(504, "The deadline passed before the command was started", retry=True),
}
# A 401 says how to do better (RFC 9110 section 15.5.2).
_SIGNATURE: Final = 'Signature realm="millrace"'
_CHALLENGES: Final = {
    "signature_required": _SIGNATURE,
    "signature_invalid": _SIGNATURE,
    "signature_expired": _SIGNATURE,
    "unauthenticated": 'Bearer realm="millrace"',
    "invalid_signature": 'Signature realm="millrace-webhooks"',
}
# What to sign (RFC 9421 section 5.1); fields that a request does not have need not be covered.
_ACCEPT_SIGNATURE: Final = (
    'millrace=("@method" "@path" "@query" "content-digest" "idempotency-key" "if-match")'
    ';created;keyid;alg="ed25519";tag="millrace"'
)
# A refusal that a domain adds later is the caller's to mend until it gets a row of its own.
_OTHER_REFUSAL: Final = TABLE["rejected"]
_MEMBERS: Final = frozenset({"type", "title", "status", "detail", "code"})
_encode: Final = msgspec.json.Encoder().encode


class HeadersTooLarge(errors.Rejected):
    """The request has too many header fields."""

    code = "headers_too_large"


def row(code: str) -> Row:
    """The row of a code; unknown codes are refusals."""
    return TABLE.get(code, _OTHER_REFUSAL)


def render(code: str, detail: str, extra: Mapping[str, Any] | None = None, *, type_: str | None = None) -> bytes:
    """The problem as JSON. Members of ``extra`` that the RFC or the table own are left out.

    ``type_`` is for a problem that others have named already.
    """
    found = row(code)
    problem: dict[str, Any] = {
        "type": type_ or f"urn:millrace:problem:{code}",
        "title": found.title,
        "status": found.status,
        "detail": detail,
        "code": code,
    }
    if extra:
        problem |= {name: value for name, value in extra.items() if name not in _MEMBERS}
    return _encode(problem)


def of_error(error: errors.PlatformError) -> bytes:
    """The problem of an error: its public message, never its context; and what is wrong, or the version."""
    extra: dict[str, Any] | None = {"errors": error.errors} if isinstance(error, errors.InvalidCommand) else None
    if isinstance(error, errors.VersionConflict) and error.current_version is not None:
        extra = {"current_version": error.current_version}
    if isinstance(error, errors.StateConflict) and error.current_state is not None:
        extra = {"current_state": error.current_state}
    if isinstance(error, errors.QuotaExceeded) and error.told:
        extra = error.told
    if isinstance(error, errors.TenantNotActive):
        extra = {"state": error.state}
    return render(error.code, error.public, extra)


def headers_of(code: str, retry_after_s: int | None = limits.RETRY_AFTER_S) -> dict[str, str]:
    """The header fields that go with a code; without a Retry-After when no wait helps."""
    headers = {"Cache-Control": "no-store"}
    if code in _CHALLENGES:
        headers["WWW-Authenticate"] = _CHALLENGES[code]
        if _CHALLENGES[code] is _SIGNATURE:
            headers["Accept-Signature"] = _ACCEPT_SIGNATURE
    found = row(code)
    if found.retry and retry_after_s is not None:
        headers["Retry-After"] = str(max(retry_after_s, found.retry_after_s))
    return headers
