"""Signing in at the issuer: the authorization code flow with PKCE, of which we keep the person and no token.

Sources: OpenID Connect Core 1.0 (3.1), OpenID Connect Discovery 1.0, RFC 7636 (S256 alone), RFC 9207, RFC 9700.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import httpx
import msgspec
from msgspec import Struct

from ingress import limits
from ingress.identity.auth import Authenticator
from ingress.identity.jwks import KeySource
from schemas import errors
from schemas.fields import validation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingress.identity.caller import Caller
    from ingress.identity.denials import Denials
    from ingress.trust import SignInClient

_DISCOVERY: Final = "/.well-known/openid-configuration"
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_RANDOM_BYTES: Final = 32


class Begun(Struct, frozen=True):
    """One sign-in that was begun in one browser, which keeps it sealed until the issuer sends it back."""

    state: str
    nonce: str
    verifier: str
    next: str
    expires_at: float


class _Endpoints(Struct, frozen=True):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str


class _Granted(Struct, frozen=True):
    id_token: str


_Document = TypeVar("_Document", _Endpoints, _Granted)


class AuthorizationCode:
    """Asks the issuer who somebody is. ``client`` is None where nobody signs in there."""

    def __init__(self, client: SignInClient | None, denials: Denials, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._clock = clock
        self._endpoints: tuple[float, _Endpoints] | None = None
        if client is not None:
            keys = KeySource(client.jwks)
            self._proofs = Authenticator(keys, client.issuer, (client.client_id,), clock, denials=denials)

    @property
    def is_offered(self) -> bool:
        """Whether people may sign in there."""
        return self._client is not None

    @property
    def client(self) -> SignInClient:
        """Who we are there. Raises NotFound where nobody signs in there."""
        if self._client is None:
            raise errors.NotFound
        return self._client

    async def begin(self, back: str, next_: str) -> tuple[str, Begun]:
        """The address at the issuer that the browser goes to, and what it keeps. ``back``: our path that it comes to.

        Raises Unavailable when the issuer cannot be asked for its endpoints.
        """
        client, endpoints = self.client, await self._discovered()
        state, nonce, verifier = (secrets.token_urlsafe(_RANDOM_BYTES) for _ in range(3))
        asked = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": client.origin + back,
            "scope": "openid",
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge(verifier),
            "code_challenge_method": "S256",
        }
        mark = "&" if urlsplit(endpoints.authorization_endpoint).query else "?"
        begun = Begun(state, nonce, verifier, next_, self._clock() + limits.SIGN_IN_BEGUN_S)
        return f"{endpoints.authorization_endpoint}{mark}{urlencode(asked)}", begun

    async def finish(self, begun: Begun, answered: Mapping[str, str], back: str) -> Caller:
        """The caller that the issuer names, for what it sent back with the browser.

        Raises Unauthenticated when it is not the answer to this sign-in, or names nobody; Suspended; Unavailable.
        """
        client = self.client
        if self._clock() >= begun.expires_at:
            raise errors.Unauthenticated("The sign-in took too long; begin again.")
        if not hmac.compare_digest(answered.get("state", "").encode(), begun.state.encode()):
            raise errors.Unauthenticated("The issuer's answer is to another sign-in; begin again.")
        if answered.get("iss", client.issuer) != client.issuer:
            raise errors.Unauthenticated("The answer is of another issuer.")
        if "code" not in answered:
            said = validation.visible(answered.get("error", "no code"))[: limits.SIGN_IN_REASON_LENGTH_MAX]
            raise errors.Unauthenticated(f"The issuer let nobody in: {said}.")
        id_token = await self._exchanged(answered["code"], begun.verifier, client.origin + back)
        return await self._proofs.signed_in(id_token, begun.nonce, client.scope_claim)

    async def _exchanged(self, code: str, verifier: str, redirect_uri: str) -> str:
        """The ID token for a code, which the issuer gives once."""
        client, endpoints = self.client, await self._discovered()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "client_id": client.client_id,
            "code_verifier": verifier,
        }
        known = None
        if client.secret is not None:  # RFC 6749, 2.3.1
            known = httpx.BasicAuth(quote(client.client_id, ""), quote(client.secret, ""))
        answer = await _asked("POST", endpoints.token_endpoint, data=form, auth=known)
        if answer.is_client_error:
            raise errors.Unauthenticated("The issuer did not take its own code; begin again.")
        return _read(answer, _Granted).id_token

    async def _discovered(self) -> _Endpoints:
        """Where the issuer is asked, from its own document; read again now and then."""
        now = self._clock()
        if self._endpoints is not None and now < self._endpoints[0] + limits.JWKS_REFRESH_S:
            return self._endpoints[1]
        issuer = self.client.issuer
        found = _read(await _asked("GET", issuer.rstrip("/") + _DISCOVERY), _Endpoints)
        if found.issuer != issuer:
            raise errors.Unavailable("The issuer's document is of another issuer.")
        for one in (found.authorization_endpoint, found.token_endpoint):
            if urlsplit(one).scheme != "https" and urlsplit(one).hostname not in _LOOPBACK:
                raise errors.Unavailable("The issuer has endpoints without TLS.")
        self._endpoints = now, found
        return found


def challenge(verifier: str) -> str:
    """Proves later that who shows the code is who began (RFC 7636, 4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


async def _asked(method: str, url: str, **given: Any) -> httpx.Response:
    try:
        async with httpx.AsyncClient(timeout=limits.SIGN_IN_TIMEOUT_S, follow_redirects=False) as client:
            return await client.request(method, url, headers={"Accept": "application/json"}, **given)
    except httpx.HTTPError as error:
        raise errors.Unavailable("The issuer does not answer; try again later.") from error


def _read(answer: httpx.Response, kind: type[_Document]) -> _Document:
    if not answer.is_success or len(answer.content) > limits.JWKS_BYTES_MAX:
        raise errors.Unavailable("The issuer does not answer; try again later.")
    try:
        return msgspec.json.decode(answer.content, type=kind)
    except msgspec.DecodeError as error:
        raise errors.Unavailable("The issuer's answer is not readable.") from error
