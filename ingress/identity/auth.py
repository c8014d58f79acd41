"""Who calls: bearer JWTs, verified with the issuer's public keys. Who a caller is and its scopes come only from here.

The algorithm must be on our list and must fit the key, so ``none``, HMAC with a public key as its secret, and
keys inside the token (jwk, jku, x5u) lead nowhere. Header and claims have each member once, and no extension is
understood (``crit``). Times are checked with a bounded skew.
"""

from __future__ import annotations

import base64
import re
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from joserfc import jws
from joserfc.errors import JoseError
from msgspec import Struct

from ingress import limits as ingress_limits
from ingress.http import strict_json
from ingress.identity.jwks import KeySource
from ingress.trust import SUPPORT_ISSUER
from schemas import errors, limits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from joserfc._rfc7515.model import JWSAlgModel

    from ingress.identity.jwks import Key
    from ingress.trust import Trust

NAME: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{limits.SCOPE_LENGTH_MAX}}}\Z")
#: algorithm to the one kind of key that it may be used with
_KEY_TYPES: Final = {"Ed25519": "OKP", "EdDSA": "OKP", "ES256": "EC", "RS256": "RSA"}
_BEARER: Final = "bearer "
_SEGMENT: Final = re.compile(rb"[A-Za-z0-9_-]+")
_TIME_MAX_S: Final = 253_402_300_799  # the last second that a date can have: year 9999
_KINDS: Final = ("merchant", "tenant", "user")  # the claims that name who calls


class Caller(Struct, frozen=True, kw_only=True):
    """What a verified token says about its holder.

    ``principal`` is in whose name the caller acts: its retry identities, objects and events are of that name. A
    merchant's is its own name; that of a tenant or user has its kind before a colon, which no merchant's name has.
    """

    principal: str
    subject: str
    scopes: frozenset[str]
    expires_at: float  # seconds since the epoch
    grant_id: str = ""  # of the support grant that it acts under: every call of it is looked at, and audited

    @property
    def merchant(self) -> str:
        """The merchant that the caller acts for. Raises Forbidden when the token names another kind of caller."""
        if ":" in self.principal:
            raise errors.Forbidden("The token names no merchant.")
        return self.principal

    @property
    def tenant(self) -> str:
        """The tenant that the caller acts for. Raises Forbidden when the token names another kind of caller."""
        return self._of_kind("tenant")

    @property
    def user(self) -> str:
        """The user that the caller is. Raises Forbidden when the token names another kind of caller."""
        return self._of_kind("user")

    def _of_kind(self, kind: str) -> str:
        found, _, name = self.principal.partition(":")
        if found != kind or not name:
            raise errors.Forbidden(f"The token names no {kind}.")
        return name

    def require(self, *scopes: str | None) -> None:
        """Raises Forbidden unless the token has one of the scopes."""
        if not self.scopes.intersection(scopes):
            raise errors.Forbidden(f"The token needs the scope {' or '.join(str(scope) for scope in scopes)}.")


class _Algorithms(jws.JWSRegistry):
    """Our allow-list. The older name EdDSA is what most issuers still write, so it is taken without a warning."""

    def get_alg(self, name: str) -> JWSAlgModel:
        return super().get_alg(str(_same(name)))


_registry: Final = _Algorithms(algorithms=list(_KEY_TYPES))


class Authenticator:
    """Verifies tokens for one event loop; a verdict is remembered until its token expires or the keys change."""

    def __init__(
        self,
        keys: KeySource,
        issuer: str,
        audiences: Collection[str],
        clock: Callable[[], float] = time.time,
        *,
        scopes_max: frozenset[str] | None = None,
        further: Sequence[Authenticator] = (),
    ) -> None:
        self._keys = keys
        self.issuer = issuer
        self._audiences = frozenset(audiences)
        self._clock = clock
        self._scopes_max = scopes_max
        self._further = {other.issuer: other for other in further}
        self._known: OrderedDict[str, tuple[int, Caller]] = OrderedDict()

    @classmethod
    def of(cls, trusted: Sequence[Trust]) -> Authenticator:
        """Believes the tokens of these issuers, each by its own keys and for its own audiences and scopes."""
        first, *others = trusted
        further = [cls(KeySource(o.jwks), o.issuer, o.audiences, scopes_max=o.scopes_max) for o in others]
        keys = KeySource(first.jwks)
        return cls(keys, first.issuer, first.audiences, scopes_max=first.scopes_max, further=further)

    async def refresh(self) -> None:
        """Reads every issuer's keys; what cannot be read now is read when it is asked for."""
        await self._keys.refresh()
        for one in self._further.values():
            await one.refresh()

    def require_fresh(self) -> None:
        """Raises Unavailable when the callers' issuer was not heard of for too long."""
        self._keys.require_fresh()

    async def principal(self, authorization: str | None) -> str:
        """Whose token it is. Raises as ``caller``."""
        return (await self.caller(authorization)).principal

    async def caller(self, authorization: str | None) -> Caller:
        """The caller that the Authorization field proves. Raises Unauthenticated, or Unavailable without keys."""
        if authorization is None or authorization[: len(_BEARER)].lower() != _BEARER:
            raise errors.Unauthenticated
        token = authorization[len(_BEARER) :].strip()
        if self._keys.due():
            await self._keys.refresh()
        remembered = self._known.get(token)
        if remembered is not None and remembered[0] == self._keys.generation:
            self._keys.require_fresh()
            self._refuse_expired(remembered[1].expires_at)
            return remembered[1]
        if self._further and (other := self._further.get(_issuer_said(token))):
            return await other.caller(authorization)
        caller = await self._verify(token)
        self._known[token] = (self._keys.generation, caller)
        if len(self._known) > ingress_limits.TOKENS_CACHED_MAX:
            self._known.popitem(last=False)
        return caller

    async def _verify(self, token: str) -> Caller:
        if len(token) > ingress_limits.TOKEN_BYTES_MAX or not token.isascii():
            raise errors.Unauthenticated
        header = read_header(token)
        kid = header.get("kid")
        if not isinstance(kid, str) or header.get("alg") not in _KEY_TYPES:
            raise errors.Unauthenticated
        key = await self._keys.key(kid)
        if key is None:
            raise errors.Unauthenticated
        try:
            claims = strict_json.parse(verify(token, key))
        except errors.MalformedRequest as error:
            raise errors.Unauthenticated from error
        if not isinstance(claims, dict):
            raise errors.Unauthenticated
        return self._caller_of(claims)

    def _caller_of(self, claims: dict[str, Any]) -> Caller:
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if claims.get("iss") != self.issuer or not any(isinstance(a, str) and a in self._audiences for a in audiences):
            raise errors.Unauthenticated("The token is not for this service.")
        expires_at = self._check_times(claims)
        scope, subject = claims.get("scope", ""), claims.get("sub")
        if not isinstance(scope, str) or not isinstance(subject, str):
            raise errors.Unauthenticated("The token's claims are not readable.")
        scopes = frozenset(scope.split())
        if self._scopes_max is not None:
            scopes &= self._scopes_max
        return Caller(
            principal=_principal(claims),
            subject=subject,
            scopes=scopes,
            expires_at=expires_at,
            grant_id=self._grant_of(claims),
        )

    def _grant_of(self, claims: dict[str, Any]) -> str:
        """Rule: a token of the issuer of support names its grant, or it is none."""
        grant_id = claims.get("grant_id", "")
        if not isinstance(grant_id, str) or (self.issuer == SUPPORT_ISSUER and not NAME.match(grant_id)):
            raise errors.Unauthenticated("The token names no support grant.")
        return grant_id

    def _check_times(self, claims: dict[str, Any]) -> float:
        """The expiry. Rule: a token must say when it ends and when it was made, and may not live longer than a day."""
        now, skew = self._clock(), limits.CLOCK_SKEW_MAX_S
        expires_at, issued_at = _time(claims, "exp"), _time(claims, "iat")
        if expires_at is None or issued_at is None:
            raise errors.Unauthenticated("The token says no exp or no iat.")
        self._refuse_expired(expires_at)
        not_before = _time(claims, "nbf")
        if issued_at > now + skew or (not_before is not None and not_before > now + skew):
            raise errors.Unauthenticated("The token is not valid yet.")
        if expires_at - issued_at > ingress_limits.TOKEN_TTL_MAX_S:
            raise errors.Unauthenticated("The token lives longer than allowed.")
        return expires_at

    def _refuse_expired(self, expires_at: float) -> None:
        if self._clock() >= expires_at + limits.CLOCK_SKEW_MAX_S:
            raise errors.Unauthenticated("The token has expired.")


def _principal(claims: dict[str, Any]) -> str:
    """In whose name a token speaks: exactly one merchant, tenant or user."""
    named = [kind for kind in _KINDS if kind in claims]
    if len(named) != 1:
        raise errors.Unauthenticated(f"The token must name one of {', '.join(_KINDS)}.")
    (kind,) = named
    name = claims[kind]
    if not isinstance(name, str) or not NAME.match(name):
        raise errors.Unauthenticated(f"The token names no {kind}.")
    return principal_of(kind, name)


def principal_of(kind: str, name: str) -> str:
    """The principal of a merchant, a tenant or a user."""
    return name if kind == "merchant" else f"{kind}:{name}"


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


def _issuer_said(token: str) -> str:
    """Whose token it says it is: only which keys are asked follows from it. "" when it says nothing readable."""
    try:
        claims = strict_json.parse(jws.extract_compact(token.encode()).payload)
    except (JoseError, ValueError, TypeError, errors.MalformedRequest):
        return ""
    issuer = claims.get("iss") if isinstance(claims, dict) else None
    return issuer if isinstance(issuer, str) else ""


def verify(token: str, key: Key) -> bytes:
    """The payload of a token that this key signed with an algorithm of ours. Raises Unauthenticated, nothing else."""
    algorithm = read_header(token).get("alg")
    # Rule: the key decides what it may be used for, never the token.
    if not isinstance(algorithm, str) or key.key_type != _KEY_TYPES.get(algorithm):
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


def _time(claims: dict[str, Any], name: str) -> float | None:
    """A NumericDate (RFC 7519), when the claim is there: a number that a date can have, and nothing else."""
    if name not in claims:
        return None
    value = claims[name]
    if type(value) not in (int, float) or not 0 <= value <= _TIME_MAX_S:  # NaN is in no range, a bool no number
        raise errors.Unauthenticated(f"The token's {name} is not a time.")
    return float(value)
