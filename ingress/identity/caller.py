"""Who calls, as a verified token says it, and what a name of a merchant, a tenant or a user looks like."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from schemas import errors, limits

NAME: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{limits.SCOPE_LENGTH_MAX}}}\Z")


class Caller(Struct, frozen=True, kw_only=True):
    """What a verified token says about its holder.

    ``principal`` is in whose name the caller acts: its retry identities, objects and events are of that name. A
    merchant's is its own name; that of a tenant or user has its kind before a colon, which no merchant's name has.
    """

    principal: str
    subject: str
    scopes: frozenset[str]
    expires_at: float  # seconds since the epoch
    issued_at: float = 0  # of its token, in seconds since the epoch
    token_id: str = ""  # its token's ``jti``, by which that one can be revoked
    is_service: bool = False  # a process of ours: its token is of the issuer that they alone have
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
