"""What the claims of a verified token say: in whose name it speaks, what it is called, its times."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from ingress.identity.caller import NAME
from ingress.identity.issuer import SCOPES_OF, STAFF_KIND
from schemas import errors, limits
from schemas.fields import validation
from schemas.senders import MERCHANT, TENANT, USER

_TIME_MAX_S: Final = 253_402_300_799  # the last second that a date can have: year 9999
_KINDS: Final = (MERCHANT, TENANT, USER)  # the claims that name who calls
_SCOPES_OF_CALLERS: Final = frozenset(scope for kind in _KINDS for scope in SCOPES_OF[kind])


def principal_in(claims: dict[str, Any], subject: str) -> str:
    """In whose name a token speaks: exactly one merchant, tenant or user.

    Rule: a member of a tenant is a person. Its consent to support and what it pays stand under its ``sub``.
    """
    named = [kind for kind in _KINDS if kind in claims]
    if len(named) != 1:
        raise errors.Unauthenticated(f"The token must name one of {', '.join(_KINDS)}.")
    (kind,) = named
    name = claims[kind]
    if not isinstance(name, str) or not NAME.match(name):
        raise errors.Unauthenticated(f"The token names no {kind}.")
    if kind == TENANT and not validation.is_person(subject):
        raise errors.Unauthenticated("The subject of a token of a tenant must name a person.")
    return _principal_of(kind, name)


def staff_in(claims: dict[str, Any], subject: str, scopes: frozenset[str]) -> str:
    """In whose name staff acts: its own alone.

    Rule: who decides about everybody's money has none there, and moves none as a caller.
    """
    if any(kind in claims for kind in _KINDS):
        raise errors.Unauthenticated(f"A token of staff must name no {', '.join(_KINDS)}: its subject is who acts.")
    if beyond := scopes & _SCOPES_OF_CALLERS:
        raise errors.Unauthenticated(f"A token of staff must not have the scope {min(beyond)}: it is of callers.")
    if not validation.is_person(subject):
        raise errors.Unauthenticated("The subject of a token of staff must name a person.")
    named = subject if NAME.match(subject) else hashlib.sha256(subject.encode()).hexdigest()[: limits.SCOPE_LENGTH_MAX]
    return _principal_of(STAFF_KIND, named)


def _principal_of(kind: str, name: str) -> str:
    """The principal of a merchant, a tenant, a user, or of staff."""
    return name if kind == MERCHANT else f"{kind}:{name}"


def token_id_in(claims: dict[str, Any]) -> str:
    """By what the token can be revoked; "" where its issuer gives no such name, or one that is none."""
    found = claims.get("jti")
    is_name = isinstance(found, str) and validation.clean_text(found, limits.AUDIT_TEXT_LENGTH_MAX) is None
    return str(found) if is_name else ""


def time_in(claims: dict[str, Any], name: str) -> float | None:
    """A NumericDate (RFC 7519), when the claim is there: a number that a date can have, and nothing else."""
    if name not in claims:
        return None
    value = claims[name]
    if type(value) not in (int, float) or not 0 <= value <= _TIME_MAX_S:  # NaN is in no range, a bool no number
        raise errors.Unauthenticated(f"The token's {name} is not a time.")
    return float(value)
