"""Who calls: bearer JWTs, verified with the issuer's public keys. Who a caller is and its scopes come only from here.

The algorithm must be on our list and must fit the key, so ``none``, HMAC with a public key as its secret, and
keys inside the token (jwk, jku, x5u) lead nowhere. Header and claims have each member once, and no extension is
understood (``crit``). Times are checked with a bounded skew.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from joserfc import jws
from joserfc.errors import JoseError

from ingress import limits as ingress_limits
from ingress.http import strict_json
from ingress.identity.caller import NAME, Caller
from ingress.identity.issuer import SCOPES_OF, SERVICES_ISSUER, STAFF_KIND
from ingress.identity.jwks import KeySource
from ingress.identity.roles import STAFF
from ingress.trust import MONITOR_ISSUER, SUPPORT_ISSUER
from schemas import errors, limits, validation
from schemas.senders import MERCHANT, TENANT, USER

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from joserfc._rfc7515.model import JWSAlgModel

    from ingress.identity.denials import Denials
    from ingress.identity.jwks import Key
    from ingress.trust import Trust

#: algorithm to the one kind of key that it may be used with
_KEY_TYPES: Final = {"Ed25519": "OKP", "EdDSA": "OKP", "ES256": "EC", "RS256": "RSA"}
_BEARER: Final = "bearer "
_SEGMENT: Final = re.compile(rb"[A-Za-z0-9_-]+")
_TIME_MAX_S: Final = 253_402_300_799  # the last second that a date can have: year 9999
_KINDS: Final = (MERCHANT, TENANT, USER)  # the claims that name who calls
_SCOPES_OF_CALLERS: Final = frozenset(scope for kind in _KINDS for scope in SCOPES_OF[kind])


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
        denials: Denials | None = None,
    ) -> None:
        self._keys = keys
        self.issuer = issuer
        self._audiences = frozenset(audiences)
        self._clock = clock
        self._scopes_max = scopes_max
        self._further = {other.issuer: other for other in further}
        self._denials = denials
        # by the digest of a token: who reads this process's memory finds none that could be shown
        self._known: OrderedDict[bytes, tuple[int, Caller]] = OrderedDict()

    @classmethod
    def of(cls, trusted: Sequence[Trust], denials: Denials | None = None) -> Authenticator:
        """Believes the tokens of these issuers, each by its own keys and for its own audiences and scopes.

        ``denials`` refuse people's tokens; those of our own processes are none.
        """

        def one(trust: Trust, further: Sequence[Authenticator] = ()) -> Authenticator:
            who = None if trust.issuer in (SERVICES_ISSUER, MONITOR_ISSUER) else denials
            keys = KeySource(trust.jwks)
            return cls(keys, trust.issuer, trust.audiences, scopes_max=trust.scopes_max, further=further, denials=who)

        first, *others = trusted
        return one(first, [one(other) for other in others])

    async def refresh(self) -> None:
        """Reads every issuer's keys; what cannot be read now is read when it is asked for."""
        await self._keys.refresh()
        for one in self._further.values():
            await one.refresh()

    def require_fresh(self) -> None:
        """Raises Unavailable when the callers' issuer was not heard of for too long, and while our clock is wrong."""
        self._keys.require_fresh()
        if self._denials is not None:
            self._denials.require_clock()

    async def principal(self, authorization: str | None) -> str:
        """Whose token it is. Raises as ``caller``."""
        return (await self.caller(authorization)).principal

    async def caller(self, authorization: str | None) -> Caller:
        """The caller that the Authorization field proves, who is not denied.

        Raises Unauthenticated or Suspended; Unavailable without keys, or when nobody knows who is denied.
        """
        caller = await self._proven(authorization)
        if self._denials is not None:
            await self._denials.require(caller)
        return caller

    async def _proven(self, authorization: str | None) -> Caller:
        if authorization is None or authorization[: len(_BEARER)].lower() != _BEARER:
            raise errors.Unauthenticated
        token = authorization[len(_BEARER) :].strip()
        if self._keys.due():
            await self._keys.refresh()
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        remembered = self._known.get(digest)
        if remembered is not None and remembered[0] == self._keys.generation:
            self._keys.require_fresh()
            self._refuse_expired(remembered[1].expires_at)
            return remembered[1]
        if self._further and (other := self._further.get(_issuer_said(token))):
            return await other.caller(authorization)
        caller = await self._verify(token)
        self._known[digest] = (self._keys.generation, caller)
        if len(self._known) > ingress_limits.TOKENS_CACHED_MAX:
            self._known.popitem(last=False)
        return caller

    async def signed_in(self, id_token: str, nonce: str, scope_claim: str) -> Caller:
        """The person of an ID token that was asked for with this nonce; ``scope_claim`` has its scopes.

        Raises as ``caller``. Such a token opens a session, and is no bearer token: those are of another authenticator.
        Source: OpenID Connect Core 1.0, 3.1.3.7.
        """
        claims = await self._claims(id_token)
        said = claims.get("nonce")
        if not isinstance(said, str) or not hmac.compare_digest(said.encode(), nonce.encode()):
            raise errors.Unauthenticated("The ID token answers another sign-in.")
        audience, party = claims.get("aud"), claims.get("azp")
        is_for_others_too = isinstance(audience, list) and len(audience) > 1
        is_ours = isinstance(party, str) and party in self._audiences
        if ("azp" in claims or is_for_others_too) and not is_ours:
            raise errors.Unauthenticated("The ID token is for another client.")
        scopes = claims.get(scope_claim, "")
        if isinstance(scopes, list) and all(isinstance(scope, str) for scope in scopes):
            scopes = " ".join(scopes)
        caller = self._caller_of(claims | {"scope": scopes})
        if self._denials is not None:
            await self._denials.require(caller)
        return caller

    async def _verify(self, token: str) -> Caller:
        return self._caller_of(await self._claims(token))

    async def _claims(self, token: str) -> dict[str, Any]:
        """What the issuer signed; for whom and until when, is not looked at."""
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
        return claims

    def _caller_of(self, claims: dict[str, Any]) -> Caller:
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if claims.get("iss") != self.issuer or not any(isinstance(a, str) and a in self._audiences for a in audiences):
            raise errors.Unauthenticated("The token is not for this service.")
        expires_at, issued_at = self._check_times(claims)
        scope, subject = claims.get("scope", ""), claims.get("sub")
        if not isinstance(scope, str) or not isinstance(subject, str):
            raise errors.Unauthenticated("The token's claims are not readable.")
        scopes = frozenset(scope.split())
        if self._scopes_max is not None:
            scopes &= self._scopes_max
        return Caller(
            principal=_principal(claims) if scopes.isdisjoint(STAFF) else _staff(claims, subject, scopes),
            subject=subject,
            scopes=scopes,
            expires_at=expires_at,
            issued_at=issued_at,
            token_id=_token_id(claims),
            is_service=self.issuer == SERVICES_ISSUER,
            grant_id=self._grant_of(claims),
        )

    def _grant_of(self, claims: dict[str, Any]) -> str:
        """Rule: a token of the issuer of support names its grant, or it is none."""
        grant_id = claims.get("grant_id", "")
        if not isinstance(grant_id, str) or (self.issuer == SUPPORT_ISSUER and not NAME.match(grant_id)):
            raise errors.Unauthenticated("The token names no support grant.")
        return grant_id

    def _check_times(self, claims: dict[str, Any]) -> tuple[float, float]:
        """The expiry, and when it was issued.

        Rule: a token must say when it ends and when it was made, and may not live longer than a day.
        """
        now, skew = self._clock(), limits.CLOCK_SKEW_MAX_S
        expires_at, issued_at = _time(claims, "exp"), _time(claims, "iat")
        if expires_at is None or issued_at is None:
            raise errors.Unauthenticated("The token says no exp or no iat.")
        self._refuse_expired(expires_at)
        not_before = _time(claims, "nbf")
        if issued_at > now + skew or (not_before is not None and not_before > now + skew):
            raise errors.Unauthenticated("The token is not valid yet.")
        if expires_at - issued_at > limits.TOKEN_TTL_MAX_S:
            raise errors.Unauthenticated("The token lives longer than allowed.")
        return expires_at, issued_at

    def _refuse_expired(self, expires_at: float) -> None:
        if self._clock() >= expires_at + limits.CLOCK_SKEW_MAX_S:
            raise errors.Unauthenticated("The token has expired.")


def _token_id(claims: dict[str, Any]) -> str:
    """By what the token can be revoked; "" where its issuer gives no such name, or one that is none."""
    found = claims.get("jti")
    is_name = isinstance(found, str) and validation.clean_text(found, limits.AUDIT_TEXT_LENGTH_MAX) is None
    return str(found) if is_name else ""


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


def _staff(claims: dict[str, Any], subject: str, scopes: frozenset[str]) -> str:
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
    return principal_of(STAFF_KIND, named)


def principal_of(kind: str, name: str) -> str:
    """The principal of a merchant, a tenant, a user, or of staff."""
    return name if kind == MERCHANT else f"{kind}:{name}"


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
