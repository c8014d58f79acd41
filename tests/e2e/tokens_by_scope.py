"""Which token an operation of the OpenAPI document is asked with: the first kind of caller that has a scope it needs."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final

from ingress.identity.issuer import SCOPES_DEFAULT, SCOPES_OF_USERS, SCOPES_TENANT
from ingress.identity.roles import STAFF

if TYPE_CHECKING:
    from collections.abc import Mapping

#: by kind its scopes. Who may say that its calls are signed does not ask for anything else: nothing of it is, here.
SCOPES: Final[dict[str, tuple[str, ...]]] = {
    "staff": tuple(sorted(STAFF)),
    "merchant": SCOPES_DEFAULT,
    "signer": ("signing_keys:write",),
    "user": (*SCOPES_OF_USERS, "moderator"),
    "desk": ("tenants:admin", "support", "support:approve"),
    "tenant": (*SCOPES_TENANT, "tenant:admin", "limits:write"),  # its policies govern nobody else
    "gateway": ("limits:read",),
}


def kind_for(operation: Mapping[str, Any]) -> str | None:
    """Who asks; None where everybody may."""
    needed = {scope for one in operation.get("security", ()) for scope in one.get("bearer", ())}
    found = next((kind for kind, scopes in SCOPES.items() if needed.intersection(scopes)), None)
    assert found or not needed, f"no token has one of {needed}"
    return found


def tenant_of(token: str) -> str:
    """The tenant that a token names."""
    claims: dict[str, str] = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    return claims["tenant"]
