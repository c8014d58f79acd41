"""The development issuer: an Ed25519 key in a folder and its tokens. A real deployment names its own JWKS.

The key is made once, by whichever process comes first; the others read it.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from joserfc import jwk, jwt

from ingress import limits as ingress_limits
from ingress.identity import roles
from schemas import errors, limits
from sinks import kept_secrets, private_file
from sinks.kept_secrets import KeptSecrets

if TYPE_CHECKING:
    from pathlib import Path

ISSUER: Final = "urn:millrace:development"
#: of the tokens that our own services show each other
SERVICES_ISSUER: Final = "urn:millrace:services"
AUDIENCE: Final = "millrace"
ALGORITHM: Final = "Ed25519"
SCOPES_DEFAULT: Final = ("payments:read", "payments:write", "payouts:write", "payout_destinations:write")
SCOPES_TENANT: Final = ("resources:read", "resources:write", "usage:read", "usage:write")
SCOPES_OF_USERS: Final = ("posts:read", "posts:write")
STAFF_KIND: Final = "staff"
#: what a token of a kind may do where nothing else is said
SCOPES_OF: Final = {
    "merchant": SCOPES_DEFAULT,
    "tenant": SCOPES_TENANT,
    "user": SCOPES_OF_USERS,
    STAFF_KIND: (roles.OPERATOR,),
}

#: every scope that a call of ours needs, and no other means anything here
KNOWN_SCOPES: Final = frozenset(
    (
        *(scope for scopes in SCOPES_OF.values() for scope in scopes),
        *roles.STAFF,
        *("limits:read", "limits:write", "moderator", "signing_keys:write"),
        *("support", "support:approve", "tenant:admin", "tenants:admin"),
    )
)

#: so long a key that signs no more is believed: the life of a token, clocks that differ, verifiers that look seldom
KEY_OVERLAP_S: Final = limits.TOKEN_TTL_MAX_S + 2 * limits.CLOCK_SKEW_MAX_S + ingress_limits.JWKS_REFRESH_S
_CURSOR_KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class KeyFolder:
    """The files of one home: ``issuer.json`` signs tokens, ``jwks.json`` is public, ``cursor.key`` seals cursors."""

    path: Path

    @property
    def jwks(self) -> Path:
        """The public keys, as an issuer serves them."""
        return self.path / "jwks.json"

    @property
    def issuer(self) -> Path:
        """The private key that signs tokens."""
        return self.path / "issuer.json"

    @property
    def cursor(self) -> Path:
        """The secret that cursors are sealed with."""
        return self.path / "cursor.key"

    def ensure(self) -> None:
        """All files exist afterwards; run at once by several processes, all see the same keys."""
        private_file.write_once(self.issuer, json.dumps(_new_key().as_dict(private=True)))
        public = _read_key(self.issuer).as_dict(private=False)
        private_file.write_once(self.jwks, json.dumps({"keys": [public]}, indent=1))
        private_file.write_once(self.cursor, secrets.token_hex(_CURSOR_KEY_BYTES))

    def rotate(self, *, at_once: bool = False, settle: Callable[[], None] = lambda: None) -> None:
        """Tokens are signed by a new key; those of the key before are believed until none can live any more.

        ``at_once``: no longer at all. ``settle`` runs when verifiers can have the new key, and before it signs. Cut
        short, it leaves the key that signs believed without an end: rotate again.
        """
        with private_file.alone(self.path / "issuer.lock"):
            new, rows = _new_key(), self.public_keys()
            self._believe(new, rows)
            settle()
            private_file.replace(self.issuer, json.dumps(new.as_dict(private=True)))
            now = int(time.time())
            retires_at = now + KEY_OVERLAP_S
            kept = [{"exp": retires_at} | row for row in rows if row.get("exp", retires_at) > now]
            self._believe(new, [] if at_once else kept)

    def _believe(self, newest: jwk.OKPKey, others: list[dict[str, Any]]) -> None:
        rows = [newest.as_dict(private=False), *others]
        private_file.replace(self.jwks, json.dumps({"keys": rows}, indent=1))

    def signs(self) -> str:
        """The id of the key that signs; not the newest one where a rotation was cut short."""
        return str(_read_key(self.issuer).kid)

    def public_keys(self) -> list[dict[str, Any]]:
        """The rows of the JWKS, newest first; ``exp`` says when one retires (seconds since the epoch)."""
        rows: list[dict[str, Any]] = json.loads(self.jwks.read_text())["keys"]
        return rows

    def cursor_key(self) -> KeptSecrets:
        """The secrets that cursors are sealed with; they follow the file."""
        return KeptSecrets(self.cursor)

    def rotate_cursors(self, *, at_once: bool = False, settle: Callable[[], None] = lambda: None) -> None:
        """Cursors and cookies are sealed with a new secret; those of the one before are believed for a while yet.

        ``at_once``: no longer at all. ``settle`` runs when every process can have the new one, and before it seals.
        """
        with private_file.alone(self.path / "cursor.lock"):
            new = (secrets.token_bytes(_CURSOR_KEY_BYTES), float("inf"))
            retires_at = time.time() + ingress_limits.CURSOR_KEY_OVERLAP_S
            old = kept_secrets.read(self.cursor.read_text())
            private_file.replace(self.cursor, kept_secrets.written((*old, new)))
            settle()
            kept = tuple(
                (secret, min(until, retires_at)) for secret, until in old if until > time.time() and not at_once
            )
            private_file.replace(self.cursor, kept_secrets.written((new, *kept)))


def issue_token(
    keys: KeyFolder,
    name: str,
    scopes: tuple[str, ...] = SCOPES_DEFAULT,
    ttl_s: int = limits.TOKEN_TTL_DEFAULT_S,
    *,
    kind: Literal["merchant", "tenant", "user", "staff"] = "merchant",
    subject: str | None = None,
    issuer: str = ISSUER,
    audience: str = AUDIENCE,
    further: Mapping[str, object] = MappingProxyType({}),
) -> str:
    """A signed bearer token for a merchant, a tenant, a user, or of staff; ``subject`` is the person, if it is another.

    ``further``: claims beside those of every token.

    Raises InvalidCommand when the name or the time is out of bounds, or the scopes are not of this kind.
    """
    from ingress.identity.caller import NAME  # noqa: PLC0415 - the CLI prints a token without loading the server

    if not NAME.match(name):
        raise errors.InvalidCommand(
            [{"field": kind, "reason": "must be 1 to 64 of A-Z a-z 0-9 _ -"}],
            f"The {kind} is not a name.",
        )
    if not 1 <= ttl_s <= limits.TOKEN_TTL_MAX_S:
        reason = f"must be from 1 to {limits.TOKEN_TTL_MAX_S} seconds"
        raise errors.InvalidCommand([{"field": "ttl", "reason": reason}], f"The time to live {reason}.")
    if issuer == ISSUER:  # what those of our own services may have, is bounded where they are believed
        _require_one_side(kind, scopes)
    key = _read_key(keys.issuer)
    now = int(time.time())
    claims: dict[str, object] = {
        "iss": issuer,
        "aud": audience,
        "sub": subject or (name if kind == STAFF_KIND else f"{kind}:{name}"),
        "scope": " ".join(scopes),
        "iat": now,
        "nbf": now,
        "exp": now + ttl_s,
        "jti": secrets.token_hex(8),
    }
    if kind != STAFF_KIND:
        claims[kind] = name
    return jwt.encode({"alg": ALGORITHM, "kid": key.kid}, {**claims, **further}, key, algorithms=[ALGORITHM])


def _require_one_side(kind: str, scopes: tuple[str, ...]) -> None:
    """Rule: staff acts for nobody, and who acts for somebody is no staff; such a token would be believed nowhere."""
    of_staff = sorted(roles.STAFF.intersection(scopes))
    of_callers = [scope for scope in scopes if any(scope in SCOPES_OF[one] for one in SCOPES_OF if one != STAFF_KIND)]
    if kind == STAFF_KIND and of_callers:
        reason = f"{of_callers[0]} is a scope of callers: staff moves nothing in anybody's name"
    elif kind == STAFF_KIND and not of_staff:
        reason = f"staff has one of {', '.join(sorted(roles.STAFF))}"
    elif kind != STAFF_KIND and of_staff:
        reason = f"{of_staff[0]} is a scope of staff, whose token names no {kind}: make one of its own for it"
    else:
        return
    raise errors.InvalidCommand([{"field": "scope", "reason": reason}], f"The scopes do not go together: {reason}.")


def _new_key() -> jwk.OKPKey:
    key = jwk.OKPKey.generate_key("Ed25519", {"use": "sig", "alg": ALGORITHM}, auto_kid=True)
    key.ensure_kid()
    return key


def _read_key(path: Path) -> jwk.OKPKey:
    try:
        return jwk.OKPKey.import_key(json.loads(path.read_text()))
    except FileNotFoundError:
        raise errors.Unavailable(f"There is no key at {path.name}: run 'millrace up' first.") from None
