"""Suspended callers and revoked tokens are refused at every door of every process, and what they have open ends."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from ingress.http.store import Store
from ingress.identity.caller import Caller
from ingress.identity.denials import Denials
from schemas import errors
from tests.eventually import becomes, eventually, patient
from tests.integration.operator_shell import Operator
from tests.worlds.payments.console_world import Visitor
from tests.worlds.payments.repair_world import audited
from tests.worlds.public_system import merchant, public

if TYPE_CHECKING:
    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["merchant", "public"]  # the fixtures of this module
pytestmark = pytest.mark.servers
REASON = "a court's order"


def decide(who: Merchant, kind: str, name: str, verb: str = "", **more: Any) -> httpx.Response:
    return who.http.post(f"/v1/access_denials/{kind}{verb}", json={"name": name, "reason": REASON} | more)


def answers(caller: Merchant) -> set[tuple[int, str | None]]:
    """What both ingress processes say to it; connections are spread over them."""
    found = [caller.fresh("/v1/payment_intents?limit=1") for _ in range(12)]
    return {(a.status_code, a.json().get("code")) for a in found}


def test_a_suspended_merchant_is_refused_everywhere_and_what_it_has_open_ends(
    public: PublicSystem, merchant: Merchant
) -> None:
    risk = public.merchant(scopes=("operator:risk",))
    vault = httpx.Client(base_url=public.settings.addresses().vault_url, headers=merchant.http.headers, trust_env=False)
    with risk.http, vault:
        assert vault.get("/v1/tokens/tok_unknown").status_code == 404
        opened, ended = threading.Event(), threading.Event()

        def listen() -> None:
            with public.merchant(merchant.name).http as other, other.stream("GET", "/v1/events/stream") as stream:
                opened.set()
                for _ in stream.iter_lines():
                    pass
            ended.set()

        threading.Thread(target=listen, daemon=True).start()
        assert opened.wait(patient(20))
        assert decide(risk, "merchant", merchant.name).json()["result"]["state"] == "denied"
        becomes(lambda: answers(merchant), {(403, "suspended")}, 20)
        becomes(lambda: vault.get("/v1/tokens/tok_unknown").status_code, 403, 20)
        assert ended.wait(patient(20))
        assert merchant.create().json()["code"] == "suspended"
        answer = risk.http.get("/v1/access_denials?kind=merchant")
        assert answer.status_code == 200, answer.text
        listed = answer.json()["data"]
        assert (merchant.name, REASON) in {(row["name"], row["reason"]) for row in listed}
        assert decide(risk, "merchant", merchant.name, "/lift").status_code == 200
        becomes(lambda: answers(merchant), {(200, None)}, 20)
        assert decide(risk, "merchant", merchant.name, "/lift").status_code == 404
    actions = [(actor, action, outcome) for actor, action, outcome in audited(public, merchant.name)]
    assert [a for a in actions if a[0] == risk.name] == [
        (risk.name, "access.deny_merchant", "done"),
        (risk.name, "access.lift_merchant", "done"),
    ]


def test_who_may_deny_whom(public: PublicSystem, merchant: Merchant) -> None:
    """Risk suspends callers, the platform persons and tokens; nobody else either of them."""
    who = {role: public.merchant(scopes=(f"operator:{role}",)) for role in ("risk", "platform", "support", "finance")}
    name = f"n_{uuid.uuid4().hex[:12]}"
    may = {
        (role, kind)
        for role, person in who.items()
        for kind in ("merchant", "user", "tenant", "subject", "token")
        if decide(person, kind, name).status_code == 200
    }
    wanted = {("risk", kind) for kind in ("merchant", "user", "tenant")}
    assert may == wanted | {("platform", kind) for kind in ("subject", "token")}
    assert decide(merchant, "merchant", name).status_code == 403
    for kind in ("merchant", "user", "tenant"):
        assert decide(who["risk"], kind, name, "/lift").status_code == 200
    wrong = decide(who["risk"], "merchant", "m:1", reason="")
    assert [one["field"] for one in wrong.json()["errors"]] == ["name", "reason"]
    assert decide(who["risk"], "processor", "p").status_code == 404
    for person in who.values():
        person.http.close()


def test_a_session_ends_with_its_token_and_a_person_signs_in_anew(public: PublicSystem) -> None:
    """Tokens so far, by the shell: what was issued before is refused, a fresh one is not."""
    name = f"p_{uuid.uuid4().hex[:12]}"
    visitor, person = Visitor(public), public.merchant(name, ("operator",))
    assert visitor.sign_in(public.token(name, ("operator",))).status_code == 303
    assert visitor.get("/console").status_code == 200
    shell = Operator.of(public.settings)
    said = shell.run("access", "deny", "subject", name, "--so-far", "--reason", "a lost laptop")
    assert said.stdout.strip() == f"subject {name} is refused at every door within 5 s"
    eventually(lambda: visitor.get("/console").status_code == 303, 20, what="the session is over")
    becomes(lambda: person.fresh("/v1/cases").json().get("code"), "unauthenticated", 20)

    def signs_in_anew() -> int:
        with public.merchant(name, ("operator",)).http as http:
            return http.get("/v1/cases?limit=1").status_code

    becomes(signs_in_anew, 200, 20)
    visitor.http.close()
    person.http.close()


def test_a_process_whose_clock_is_wrong_lets_nobody_in(public: PublicSystem) -> None:
    """Beside the database's own clock, over the ingress's own connection."""
    caller = Caller(
        principal="m_1", subject="ann", token_id="t_1", issued_at=0, expires_at=1e12, scopes=frozenset[str]()
    )

    async def ask(off_s: float) -> None:
        store = Store(public.settings.addresses().postgres_dsns["millrace_ingress"])
        await store.open()
        try:
            await Denials(store, wall=lambda: time.time() + off_s).require(caller)
        finally:
            await store.close()

    asyncio.run(ask(0))
    for off_s in (3_600, -3_600):
        with pytest.raises(errors.Unavailable, match="The clock of this server is"):
            asyncio.run(ask(off_s))
