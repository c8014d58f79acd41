"""One issuer that is believed, for which audiences and scopes, and where its public keys are."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

#: of what support shows while its grant is active
SUPPORT_ISSUER: Final = "urn:millrace:support"
#: of what the isolation monitor shows, in the name of its own tenants
MONITOR_ISSUER: Final = "urn:millrace:monitor"


class SignInClient(Struct, frozen=True, kw_only=True):
    """Who we are at the issuer at which people sign in."""

    issuer: str
    jwks: str  # a file or an http(s) address
    client_id: str
    secret: str | None  # None: a public client, which proves itself by PKCE alone
    origin: str  # where browsers reach our pages
    scope_claim: str  # of ID tokens: a text or a list

    def __repr__(self) -> str:
        return f"SignInClient({self.client_id!r} at {self.issuer!r})"


class Trust(Struct, frozen=True, kw_only=True):
    """``jwks`` is a file or an http(s) address. ``scopes_max``: all that its tokens may have; None for no bound."""

    issuer: str
    audiences: tuple[str, ...]
    jwks: str
    scopes_max: frozenset[str] | None = None
