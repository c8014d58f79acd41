"""Who calls: bearer JWTs, verified with the issuer's public keys. Who a caller is and its scopes come only from here.

How a token is signed is in ``signed_token``, in whose name it speaks in ``claims``. Times are checked with a bounded
skew; a token that our own clock gave out, by the home's own issuer or to support, ends at its ``exp``.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NoReturn

from starlette.datastructures import Headers

from ingress import limits as ingress_limits
from ingress.http.requests import strict_json
from ingress.identity.caller import NAME, Caller
from ingress.identity.claims import principal_in, staff_in, time_in, token_id_in
from ingress.identity.issuer import ISSUER, SERVICES_ISSUER
from ingress.identity.jwks import KeySource
from ingress.identity.roles import STAFF
from ingress.identity.signed_token import KEY_TYPES, claims_said, issuer_said, read_header, verify
from ingress.trust import MONITOR_ISSUER, SUPPORT_ISSUER
from schemas import errors, limits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from starlette.types import Scope

    from ingress.identity.denials import Denials
    from ingress.trust import Trust

_BEARER: Final = "bearer "
_JUDGED: Final = "millrace.caller"  # of a request's scope: who judged it, and whom it found


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
        #: how long its tokens are taken after their end; our own clock gives out those of callers here and of support
        self._late_s = 0 if issuer in (ISSUER, SUPPORT_ISSUER) else limits.CLOCK_SKEW_MAX_S
        self._scopes_max = scopes_max
        self._further = {other.issuer: other for other in further}
        self._denials = denials
        # by the digest of a token: who reads this process's memory finds none that could be shown
        self._known: OrderedDict[bytes, tuple[int, Caller]] = OrderedDict()
        self._issuers: OrderedDict[bytes, str] = OrderedDict()  # those of the others' tokens

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

    async def caller_in(self, scope: Scope, *, anew: bool = False) -> Caller:
        """The caller of a request, judged once for all of its way, or ``anew``. Raises as ``caller``, whoever asks."""
        found: tuple[Authenticator, Caller] | None = scope.pop(_JUDGED, None) if anew else scope.get(_JUDGED)
        if anew or found is None or found[0] is not self:
            found = scope[_JUDGED] = self, await self.caller(Headers(scope=scope).get("authorization"))
        return found[1]

    async def principal_in(self, scope: Scope) -> str:
        """Whose request it is. Raises as ``caller``."""
        return (await self.caller_in(scope)).principal

    async def caller(self, authorization: str | None) -> Caller:
        """The caller that the Authorization field proves, who is not denied.

        Raises Unauthenticated or Suspended; Unavailable without keys, or when nobody knows who is denied.
        """
        caller = await self._proven(authorization)
        if self._denials is not None:
            await self._denials.require(caller)
        return caller

    async def _proven(self, authorization: str | None) -> Caller:
        token = _token_in(authorization)
        if token is None:
            raise errors.Unauthenticated
        if self._keys.due():
            await self._keys.refresh()
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        remembered = self._known.get(digest)
        if remembered is not None and remembered[0] == self._keys.generation:
            self._keys.require_fresh()
            self._refuse_expired(remembered[1].expires_at)
            return remembered[1]
        if self._further and (other := self._elsewhere(digest, token)):
            return await other.caller(authorization)
        caller = await self._verify(token)
        self._known[digest] = (self._keys.generation, caller)
        if len(self._known) > ingress_limits.TOKENS_CACHED_MAX:
            self._known.popitem(last=False)
        return caller

    def _elsewhere(self, digest: bytes, token: str) -> Authenticator | None:
        """Who verifies it, where it says that it is another issuer's; what a token says is read once."""
        issuer = self._issuers.get(digest)
        if issuer is None:
            issuer = issuer_said(token)
            if issuer in self._further:
                self._issuers[digest] = issuer
                if len(self._issuers) > ingress_limits.TOKENS_CACHED_MAX:
                    self._issuers.popitem(last=False)
        return self._further.get(issuer)

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
        if not isinstance(kid, str) or header.get("alg") not in KEY_TYPES:
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
            principal=principal_in(claims, subject) if scopes.isdisjoint(STAFF) else staff_in(claims, subject, scopes),
            subject=subject,
            scopes=scopes,
            expires_at=expires_at,
            issued_at=issued_at,
            token_id=token_id_in(claims),
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
        expires_at, issued_at = time_in(claims, "exp"), time_in(claims, "iat")
        if expires_at is None or issued_at is None:
            raise errors.Unauthenticated("The token says no exp or no iat.")
        self._refuse_expired(expires_at)
        not_before = time_in(claims, "nbf")
        if issued_at > now + skew or (not_before is not None and not_before > now + skew):
            self._refuse_by_our_clock("The token is not valid yet.")
        if expires_at - issued_at > limits.TOKEN_TTL_MAX_S:
            raise errors.Unauthenticated("The token lives longer than allowed.")
        return expires_at, issued_at

    def _refuse_expired(self, expires_at: float) -> None:
        if self._clock() >= expires_at + self._late_s:
            self._refuse_by_our_clock("The token has expired.")

    def _refuse_by_our_clock(self, why: str) -> NoReturn:
        """By one that is wrong good tokens are bad: their callers try again, and give up only what is refused."""
        if self._denials is not None:
            self._denials.require_clock()
        raise errors.Unauthenticated(why)


def says_grant(authorization: str | None) -> bool:
    """Whether a token says that it is under a support grant, whether or not it can be judged at this moment."""
    token = _token_in(authorization)
    if token is None:
        return False
    said = claims_said(token)
    return said.get("iss") == SUPPORT_ISSUER or bool(said.get("grant_id"))


def _token_in(authorization: str | None) -> str | None:
    if authorization is None or authorization[: len(_BEARER)].lower() != _BEARER:
        return None
    return authorization[len(_BEARER) :].strip()
