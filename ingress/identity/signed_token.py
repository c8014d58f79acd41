"""Signed tokens (JWS): read so strictly that nobody can read them otherwise, verified with a key of their issuer.

The algorithm must be on our list and must fit the key, so ``none``, HMAC with a public key as its secret, and
keys inside the token (jwk, jku, x5u) lead nowhere. Header and claims have each member once, and no extension is
understood (``crit``).
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any, Final

from joserfc import jws
from joserfc.errors import JoseError

from ingress.http.requests import strict_json
from schemas import errors

if TYPE_CHECKING:
    from joserfc._rfc7515.model import JWSAlgModel

    from ingress.identity.jwks import Key

#: algorithm to the one kind of key that it may be used with
KEY_TYPES: Final = {"Ed25519": "OKP", "EdDSA": "OKP", "ES256": "EC", "RS256": "RSA"}
_SEGMENT: Final = re.compile(rb"[A-Za-z0-9_-]+")


class _Algorithms(jws.JWSRegistry):
    """Our allow-list. The older name EdDSA is what most issuers still write, so it is taken without a warning."""

    def get_alg(self, name: str) -> JWSAlgModel:
        return super().get_alg(str(_same(name)))


_registry: Final = _Algorithms(algorithms=list(KEY_TYPES))


def read_header(token: str) -> dict[str, Any]:
    """The header of a token, believed in nothing yet. Raises Unauthenticated when there is none.

    Rule: a member that is given twice says two things, and an extension that has to be understood (RFC 7515, 4.1.11)
    is not understood here, whatever it is: nobody may read the token otherwise than we do.
    """
    segment = token.partition(".")[0].encode()
    if not _SEGMENT.fullmatch(segment):
        raise errors.Unauthenticated
    try:
        header = strict_json.parse(base64.urlsafe_b64decode(segment + b"=" * (-len(segment) % 4)))
    except (ValueError, errors.MalformedRequest) as error:
        raise errors.Unauthenticated from error
    if not isinstance(header, dict) or "crit" in header:
        raise errors.Unauthenticated
    return header


def issuer_said(token: str) -> str:
    """Whose token it says it is: only which keys are asked follows from it. "" when it says nothing readable."""
    issuer = claims_said(token).get("iss")
    return issuer if isinstance(issuer, str) else ""


def claims_said(token: str) -> dict[str, Any]:
    """What a token says, believed in nothing; {} when it says nothing readable."""
    try:
        claims = strict_json.parse(jws.extract_compact(token.encode()).payload)
    except (JoseError, ValueError, TypeError, errors.MalformedRequest):
        return {}
    return claims if isinstance(claims, dict) else {}


def verify(token: str, key: Key) -> bytes:
    """The payload of a token that this key signed with an algorithm of ours. Raises Unauthenticated, nothing else."""
    algorithm = read_header(token).get("alg")
    # Rule: the key decides what it may be used for, never the token.
    if not isinstance(algorithm, str) or key.key_type != KEY_TYPES.get(algorithm):
        raise errors.Unauthenticated
    stated = key.get("alg")
    if stated is not None and _same(stated) != _same(algorithm):
        raise errors.Unauthenticated
    try:
        payload = jws.deserialize_compact(token, key, registry=_registry).payload
    except (JoseError, ValueError, TypeError) as error:
        raise errors.Unauthenticated from error
    return payload or b""


def _same(algorithm: object) -> object:
    return "Ed25519" if algorithm == "EdDSA" else algorithm
