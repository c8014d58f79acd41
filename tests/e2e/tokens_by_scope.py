"""Which tokens an operation of the OpenAPI document is asked with: those of every kind of caller with a scope it needs."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final

from ingress.identity.issuer import SCOPES_DEFAULT, SCOPES_OF_USERS, SCOPES_TENANT
from ingress.identity.roles import ROLES, STAFF

if TYPE_CHECKING:
    from collections.abc import Mapping

#: by kind its scopes. Who may say that its calls are signed does not ask for anything else: nothing of it is, here.
SCOPES: Final[dict[str, tuple[str, ...]]] = {
    "staff": tuple(sorted(STAFF)),
    "merchant": SCOPES_DEFAULT,
    "signer": ("signing_keys:write",),
    "user": SCOPES_OF_USERS,
    "moderator": (*SCOPES_OF_USERS, "moderator"),
    "desk": ("tenants:admin",),
    "supporter": ("support",),
    "approver": ("support:approve",),
    "tenant": (*SCOPES_TENANT, "tenant:admin", "limits:read", "limits:write"),  # its policies govern nobody else
    "gateway": ("limits:read",),
    **{role: (role,) for role in ROLES},
}
#: by operation who alone asks: others would ask for nothing afterwards, or may not
ASKED_BY: Final = {
    "erase_user": "leaver",
    "get_erasure": "erased",
    "set_signature_requirement": "requirer",
    **dict.fromkeys(("get_policy_snapshot", "get_policy_snapshot_by_digest"), "gateway"),  # of everybody's policies
}
#: kinds of whom a token says more than a name
KIND_OF_TOKEN: Final = {"user": "user", "moderator": "user", "tenant": "tenant"}


def kinds_for(operation: Mapping[str, Any]) -> list[str]:
    """Who asks, those of the most scopes first; nobody where everybody may."""
    if (only := ASKED_BY.get(operation["operationId"])) is not None:
        return [only]
    needed = {scope for one in operation.get("security", ()) for scope in one.get("bearer", ())}
    found = [kind for kind, scopes in SCOPES.items() if needed.intersection(scopes)]
    assert found or not needed, f"no token has one of {needed}"
    return found


def kind_for(operation: Mapping[str, Any]) -> str | None:
    """The first who may ask; None where everybody may."""
    return next(iter(kinds_for(operation)), None)


def tenant_of(token: str) -> str:
    """The tenant that a token names."""
    claims: dict[str, str] = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    return claims["tenant"]
