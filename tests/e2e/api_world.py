"""What the calls of the OpenAPI document are about: a caller of each kind, and objects of theirs that are there."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from tests.e2e import api_money, api_tenants, api_users
from tests.e2e.api_caller import Caller
from tests.e2e.tokens_by_scope import KIND_OF_TOKEN, SCOPES
from tests.eventually import becomes

if TYPE_CHECKING:
    from tests.worlds.public_system import PublicSystem

Json = dict[str, Any]


class ApiWorld:
    """Prepared anew for each test: what one call ends, the next one does not find."""

    def __init__(self, public: PublicSystem) -> None:
        self.public = public
        self.name = uuid.uuid4().hex[:12]
        self.objects: dict[str, dict[str, str]] = {}
        self.bodies: dict[str, Any] = {}
        self.queries: dict[str, dict[str, str]] = {}
        self.headers: dict[str, dict[str, str]] = {}
        with ExitStack() as stack:
            self.who = {kind: self._caller(kind) for kind in SCOPES if kind != "tenant"}
            self.tenant = self.active_tenant(tier="enterprise")
            self.who["tenant"] = Caller(
                public, public.token(self.tenant, SCOPES["tenant"], kind="tenant", subject="u_1")
            )
            for kind, *names in (("user", "leaver", "erased", "guest"), ("moderator", "judge"), ("signer", "requirer")):
                self.who |= {name: self._caller(kind, name) for name in names}
            for caller in self.who.values():
                stack.callback(caller.http.close)
            api_money.of_payments(self)
            api_money.of_merchants(self)
            api_users.of_moderators(self)
            api_users.of_users(self)  # from here on the user is private
            api_tenants.of_tenants(self)
            api_tenants.of_desks(self)
            api_money.of_staff(self)
            api_tenants.of_everybody(self)
            self.tokens = {kind: caller.token for kind, caller in self.who.items()}

    def told(self) -> Json:
        """As JSON, for another process."""
        return {name: getattr(self, name) for name in ("tokens", "objects", "bodies", "queries", "headers")}

    def _caller(self, kind: str, name: str = "") -> Caller:
        changes: Json = {"kind": KIND_OF_TOKEN[kind]} if kind in KIND_OF_TOKEN else {}
        whose = f"{name or kind.replace(':', '_')}_{self.name}"
        return Caller(self.public, self.public.token(whose, SCOPES[kind], **changes))

    def about(self, objects: dict[str, str], *operations: str) -> None:
        self.objects |= dict.fromkeys(operations, objects)

    def active_tenant(self, **payload: Any) -> str:
        desk = self.who["desk"]
        made: str = desk.does("POST", "/v1/tenants", {"name": "A tenant"} | payload)["tenant_id"]
        becomes(lambda: desk.does("GET", f"/v1/tenants/{made}")["state"], "active")
        return made
