"""The console over HTTP on the running system: who gets in, what is found, what is refused, and what the audit log says."""

from __future__ import annotations

import re
import uuid
from importlib import resources
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from ingress import limits
from ingress.console.session import COOKIE
from ingress.services import CONSOLE_PAGES
from schemas import identity
from tests.each import each
from tests.eventually import eventually, patient
from tests.worlds.payments.console_world import HOSTILE, Scene, Visitor, Visitors, ann, posted_at_last, scene, visitors
from tests.worlds.payments.repair_world import audited, opened, proposed, transactions
from tests.worlds.public_system import public

if TYPE_CHECKING:
    from tests.worlds.public_system import PublicSystem

__all__ = ["ann", "public", "scene", "visitors"]  # the fixtures of this module
pytestmark = pytest.mark.servers

PAGES = (
    *("", "/reconciliation", "/trial-balance", "/processors", "/pipeline", "/tenants", "/billing", "/grants"),
    *(f"/queues/{queue}" for queue in ("cases", "attempts", "unknown", "parked", "webhooks", "refused", "review")),
)


def audit_of(public: PublicSystem, actor: str, action: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_operator"]) as connection:
        query = "select object, outcome from audit_log where actor = %s and action = %s order by seq"
        return connection.execute(query, (actor, action)).fetchall()


def test_nobody_sees_a_page_without_a_session(visitors: Visitors) -> None:
    stranger = visitors()
    for path in (*PAGES, "/story/pi_x", "/cases/case_x", "/no/such/page"):
        answer = stranger.get(f"/console{path}")
        assert (answer.status_code, answer.headers["location"]) == (303, f"/console/sign-in?next=/console{path}")
    part = stranger.get("/console/detail/event?id=evt_x", headers={"HX-Request": "true"})
    assert (part.status_code, part.headers["hx-redirect"]) == (401, "/console/sign-in?next=/console/detail/event")
    for path in ("/console/repairs/rp_x/approve", "/console/cases/case_x/proposals"):
        assert stranger.http.post(path).headers["location"] == "/console/sign-in?next=/console"


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_shown_audited_and_guarded(
    visitors: Visitors, public: PublicSystem, scene: Scene, path: str
) -> None:
    name = f"m_{uuid.uuid4().hex[:8]}"
    reader = visitors(name, "console:read")
    answer = reader.get(f"/console{path}")
    assert answer.status_code == 200, answer.text
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert "<main" in answer.text
    assert "HTTPException" not in answer.text
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_operator"]) as connection:
        query = "select outcome from audit_log where actor = %s and action like 'console.%%' and action <> 'console.sign_in'"
        assert connection.execute(query, (name,)).fetchall() == [("done",)]


def test_the_cookie_is_kept_from_scripts_and_other_sites(visitors: Visitors, public: PublicSystem) -> None:
    visitor = visitors()
    token = public.token("m_cookie", ("operator",))
    cookie = visitor.sign_in(token).headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    assert {"HttpOnly", "SameSite=strict", "Path=/console"} <= set(cookie.split(", ")[0].split("; "))
    assert token not in cookie
    over_tls = visitors()
    page = over_tls.get("/console/sign-in", headers={"Host": "console.example"})
    assert "Secure" in page.headers["set-cookie"]


@pytest.mark.parametrize(
    ("scopes", "changes", "status"),
    [(("payments:read",), {}, 403), (("operator",), {"audience": "another"}, 401), (None, {}, 401)],
)
def test_other_tokens_open_nothing_and_that_is_audited(
    visitors: Visitors, public: PublicSystem, scopes: tuple[str, ...] | None, changes: dict[str, Any], status: int
) -> None:
    name = f"m_{uuid.uuid4().hex[:8]}"
    token = "rubbish" if scopes is None else public.token(name, scopes, **changes)
    visitor = visitors()
    before = len(audit_of(public, "console:stranger", "console.sign_in"))
    window_s = limits.CONSOLE_SIGN_IN_WINDOW_S  # a process told strangers 429 for so long, if another test asked much
    answer = eventually(
        lambda: (a := visitor.sign_in(token)).status_code != 429 and a, window_s + 10, what="it is told"
    )
    assert answer.status_code == status
    assert token not in answer.text
    assert COOKIE not in visitor.http.cookies
    actor = f"merchant:{name}" if status == 403 else "console:stranger"
    rows = audit_of(public, actor, "console.sign_in")
    assert rows[-1] == ("console", "refused")
    assert len(rows) > (0 if status == 403 else before)


def test_a_session_ends_with_its_token(visitors: Visitors) -> None:
    """The issuer's clock skew is no gift to a session: the cookie says when it ends."""
    visitor = visitors("m_short", ttl_s=int(patient(4)))  # signed in and looked at within that
    assert visitor.get("/console/pipeline").status_code == 200
    over = eventually(lambda: found if (found := visitor.get("/console/pipeline")).status_code != 200 else None, 20)
    assert over.headers["location"] == "/console/sign-in?next=/console/pipeline"


def test_signing_out_ends_a_stolen_cookie_too(visitors: Visitors) -> None:
    visitor = visitors("m_leaver")
    stolen = visitor.http.cookies[COOKIE]
    assert visitor.post("/console/sign-out", page="/console").status_code == 303
    thief = visitors()
    thief.http.cookies.set(COOKIE, stolen, path="/console")
    for _ in range(4):  # whichever process answers
        assert thief.get("/console", headers={"Connection": "close"}).status_code == 303


def test_forms_of_others_are_refused(visitors: Visitors, public: PublicSystem, scene: Scene) -> None:
    bob, other = visitors("m_bob"), visitors("m_other")
    path = f"/console/repairs/{scene.repair}/approve"
    foreign = other.form_token("/console")
    for fields in ({}, {"form_token": ""}, {"form_token": foreign}, {"form_token": "0" * 64}):
        assert bob.http.post(path, data=fields).status_code == 403
    own = bob.form_token("/console")
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}):
        assert bob.http.post(path, data={"form_token": own}, headers=headers).status_code == 403
    assert bob.http.post(path, json={"form_token": own}).status_code == 415
    assert bob.http.post(path, data={"form_token": own, "x": "y" * 20_000}).status_code == 413
    stranger = visitors()
    stranger.get("/console/sign-in")
    assert stranger.http.post("/console/sign-in", data={"token": "t", "form_token": own}).status_code == 403
    assert transactions(public, scene.repair) == []
    assert [row for row in audited(public, scene.repair) if row[1:] == ("repair.approve", "refused")]


def test_any_id_leads_to_its_story(public: PublicSystem, scene: Scene, ann: Visitor) -> None:
    story = f"/console/story/{scene.payment}"
    operation = identity.operation_id(scene.payment, 1)
    ((provider_ref,),) = public.rows(
        "select provider_ref from processor_attempt where intent_id = %s and attempt = 1", scene.payment
    )
    ((dispute_ref,),) = public.rows("select provider_ref from dispute where id = %s", scene.dispute)
    ((line, operation_of_line),) = public.rows(
        "select line_id, matched from settlement_line where intent_id = %s and class = 'short'", scene.short
    )
    ((event,),) = public.rows("select event_id from idempotency where request_id = %s", scene.request)
    ((told,),) = public.rows("select provider_event_id from provider_event where reference = %s limit 1", scene.payment)
    wanted = {
        scene.payment: story,
        f" {scene.payment} ": story,
        scene.refund: f"{story}#{scene.refund}",
        scene.dispute: f"{story}#{scene.dispute}",
        dispute_ref: f"{story}#{scene.dispute}",
        operation: f"{story}#{operation}",
        provider_ref: f"{story}#{operation}",
        scene.request: f"{story}#{scene.request}",
        event: f"{story}#{event}",
        told: f"{story}#{told}",
        line: f"/console/story/{scene.short}#{line}",
        operation_of_line: f"/console/story/{scene.short}#{operation_of_line}",
        scene.case: f"/console/cases/{scene.case}",
        scene.repair: f"/console/repairs/{scene.repair}",
        scene.merchant: f"/console/merchants/{scene.merchant}",
    }

    def led(q: str) -> str | None:
        """To the one page; to a list with a link to it where a case of another test is about the same payment."""
        answer = ann.get("/console/search", params={"q": q})
        listed = wanted[q] if f'href="{wanted[q]}"' in answer.text else None
        return answer.headers.get("location", listed)

    assert {q: led(q) for q in wanted} == wanted
    for q in (scene.key, f"{scene.merchant}/{scene.key}"):
        answer = ann.get("/console/search", params={"q": q})
        assert answer.headers["location"].startswith(f"{story}#"), answer.text
    assert ann.get("/console/search", params={"q": f"repair:{scene.posted}"}).status_code == 303


def test_the_story_has_every_kind_of_thing_in_order(public: PublicSystem, scene: Scene, ann: Visitor) -> None:
    text = ann.get(f"/console/story/{scene.payment}").text
    for kind in ("command", "attempt", "refund", "dispute", "webhook", "posting", "settlement"):
        assert f'class="entry {kind}"' in text, kind
    times = [part.split('"')[1] for part in text.split("<time datetime=")[1:] if "summary" not in part[:20]]
    in_list = text[text.index('<ol class="timeline">') :]
    shown = [part.split('"')[1] for part in in_list.split("<summary>\n<time datetime=")[1:]]
    assert shown == sorted(shown)
    assert len(shown) > 10
    assert times
    assert [said for said in ("1,234.56", "evidence due by") if said not in text] == []
    kinds = {kind for (kind,) in public.rows("select kind from ledger_txn where aggregate_key = %s", scene.payment)}
    assert all(f">{kind.replace('_', ' ')}" in text for kind in kinds)
    short = ann.get(f"/console/story/{scene.short}").text
    assert 'class="entry discrepancy"' in short
    assert 'class="entry case"' in short


def test_what_a_merchant_wrote_stays_text(scene: Scene, ann: Visitor) -> None:
    queue = "/console/queues/cases?state=proposed"
    for path in (f"/console/story/{scene.payment}", f"/console/cases/{scene.case}", queue):
        text = ann.get(path).text
        assert HOSTILE not in text
        assert "&lt;script&gt;" in text
    found = ann.get("/console/search", params={"q": HOSTILE})
    assert found.status_code == 404
    assert "<img" not in found.text


def test_details_are_read_as_they_are(public: PublicSystem, scene: Scene, ann: Visitor) -> None:
    ((event,),) = public.rows("select event_id from idempotency where request_id = %s", scene.request)
    ((processor, told),) = public.rows(
        "select processor, provider_event_id from provider_event where reference = %s limit 1", scene.payment
    )
    ((bank, line),) = public.rows(
        "select processor, line_id from settlement_line where intent_id = %s limit 1", scene.short
    )
    for what, query, text in (
        ("command", {"scope": scene.merchant, "key": scene.key}, scene.payment),
        ("event", {"id": event}, "create_payment_intent"),
        ("webhook", {"processor": processor, "id": told}, scene.payment),
        ("line", {"processor": bank, "id": line}, line),
    ):
        page = ann.get(f"/console/detail/{what}", params=query)
        part = ann.get(f"/console/detail/{what}", params=query, headers={"HX-Request": "true"})
        assert (page.status_code, part.status_code) == (200, 200), what
        assert text in page.text
        assert text in part.text
        assert "<main" not in part.text


@pytest.mark.parametrize(
    "path",
    [
        "/story/pi_thatnobodyaskedfor", "/story/%00", "/cases/case_nobody", "/cases/..%2f..", "/repairs/rp_nobody", "/merchants/m_nobody",
        "/merchants/a%20b", "/queues/nothing", "/detail/secrets?id=1", "/detail/event?id=evt_1", "/detail/command?scope=a&key=b",
        "/trial-balance/XXX/cash", "/static/..%2fsession.py", "/no/such/page", "/search?q=nothing_is_called_so",
    ],
)  # fmt: skip
def test_what_is_not_there_is_a_page_that_says_so(ann: Visitor, path: str) -> None:
    """The payment is one that no other test asks for: a command about it, refused as it is, would be its story."""
    answer = ann.get(f"/console{path}")
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")
    assert "Nothing found" in answer.text


def test_who_only_reads_decides_nothing(visitors: Visitors, public: PublicSystem, scene: Scene) -> None:
    name = f"m_{uuid.uuid4().hex[:8]}"
    reader = visitors(name, "console:read")
    page = reader.get(f"/console/repairs/{scene.repair}")
    assert "deciding needs a token with the scope operator" in page.text
    for path, fields in (
        (f"/console/repairs/{scene.repair}/approve", {}),
        (f"/console/repairs/{scene.repair}/reject", {}),
        (f"/console/repairs/{scene.posted}/reverse", {"note": "n", "key": "k"}),
        (f"/console/cases/{scene.case}/proposals", {"note": "n", "key": "k"}),
    ):
        assert reader.post(path, page="/console", **fields).status_code == 403
    assert audit_of(public, name, "repair.approve") == [(scene.repair, "refused")]
    assert transactions(public, scene.repair) == []


def test_two_persons_repair_and_reverse(visitors: Visitors, public: PublicSystem, ann: Visitor) -> None:
    bob = visitors("m_bob")
    case = opened(public, currency="USD")
    page = f"/console/cases/{case}"
    fields = {"key": "k1", "template": "write_off", "amount": "7.00", "currency": "USD", "note": "the bank said so"}
    bad = ann.post(f"{page}/proposals", page=page, **fields | {"amount": "7.001"})
    assert bad.status_code == 422
    assert "at most 2 decimals" in bad.text
    made = [ann.post(f"{page}/proposals", page=page, **fields).headers["location"] for _ in range(2)]
    assert made[0] == made[1]
    text = ann.get(made[0]).text
    assert "You proposed it: a second person has to approve." in text
    assert "disabled" in text[text.index("Decide") :]
    assert "+7.00" in text
    assert ann.post(f"{made[0]}/approve", page=made[0]).status_code == 403
    repair_id = made[0].rpartition("/")[2]
    assert bob.post(f"{made[0]}/approve", page=made[0]).status_code == 303
    posted_at_last(public, bob, repair_id)
    assert len(transactions(public, repair_id)) == 1
    back = bob.post(f"{made[0]}/reverse", page=made[0], key="k2", note="it was wrong").headers["location"]
    assert bob.post(f"{back}/approve", page=back).status_code == 403
    assert ann.post(f"{back}/reject", page=back, note="no").status_code == 303
    assert "rejected" in ann.get(back).text


def test_a_review_goes_the_way_of_the_api(public: PublicSystem, scene: Scene, visitors: Visitors) -> None:
    """Nothing waits for a review here, so its owner refuses; who only reads is not even asked."""
    path, fields = f"/console/queues/review/{scene.payment}", {"decision": "approve", "key": uuid.uuid4().hex}
    assert visitors("m_reader", "console:read").post(path, page="/console", **fields).status_code == 403
    bob = visitors("m_bob")
    assert bob.post(path, page="/console", **fields | {"decision": "maybe"}).status_code == 422
    assert bob.post(path, page="/console", **fields).status_code == 409
    rows = audited(public, scene.payment)
    assert [outcome for actor, action, outcome in rows if (actor, action) == ("m_bob", "risk.review")] == [
        "refused",
        "begun",
        "refused",
    ]


def test_the_trial_balance_is_the_ledger(public: PublicSystem, scene: Scene, ann: Visitor) -> None:
    text = ann.get("/console/trial-balance").text
    currencies = public.rows("select currency, sum(debits), sum(credits) from account_balance group by 1")
    assert text.count('data-difference="0"') == len(currencies)
    account = f"merchant_pending:{scene.merchant}:USD"
    accounts = ann.get("/console/trial-balance/USD/merchant_pending").text
    following = ann.get(
        "/console/trial-balance/USD/merchant_pending", params={"after": f"merchant_pending:{scene.merchant}:"}
    )
    assert account in accounts + following.text


def test_too_many_refused_sign_ins_are_not_even_looked_at(visitors: Visitors, public: PublicSystem) -> None:
    """Each process counts for itself; with more tries than all take together, one says stop. Who is right gets in."""
    visitor = visitors()
    token = visitor.form_token("/console/sign-in")
    statuses = {
        visitor.http.post(
            "/console/sign-in", data={"form_token": token, "token": "wrong"}, headers={"Connection": "close"}
        ).status_code
        for _ in range(45)
    }
    assert statuses == {401, 429}
    assert visitor.sign_in(public.token("m_right", ("operator",))).status_code == 303


def test_the_role_of_the_console_reads_and_changes_nothing(public: PublicSystem) -> None:
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_console"], autocommit=True) as connection:
        for statement in (
            "update payment_intent set amount = 1",
            "update repair_proposal set state = 'approved'",
            "delete from audit_log",
            "select * from merchant_webhook_secret",
            "select body from merchant_webhook_delivery",
            "select repair_approve('x', 'y')",
            "select audit_append('x', 'y', 'z', 'done', '{}')",
            "select * from vault.card",
            "update console_session_ended set expires_at = now()",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)


#: tables that stay small, or of which a page wants every row
WHOLE = {
    "account_balance",  # the trial balance: every account, once
    *("processor_health", "stream_position"),
    "settlement_report",  # the newest ones: one row for each file that was ever taken in
    "tenant_store",  # as many rows as there are stores
}
_QUERIES = {
    file.name.removesuffix(".sql"): file.read_text()
    for package in ("ingress.console", *(pages.package for pages in CONSOLE_PAGES))
    if (folder := resources.files(package) / "queries").is_dir()
    for file in folder.iterdir()
}


def scanned(plan: dict[str, Any]) -> set[str]:
    """The tables that a plan reads from end to end, without a condition on an index."""
    is_whole = plan["Node Type"] == "Seq Scan"
    found = {plan["Relation Name"]} if is_whole else set()
    return found.union(*(scanned(part) for part in plan.get("Plans", [])))


def test_every_read_is_served_by_an_index(public: PublicSystem) -> None:
    """With the settings of the ingress a sequential scan is the planner's last resort: no index would do."""
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_console"]) as connection:
        connection.execute("set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off")

        @each("name", sorted(_QUERIES))
        def planned(name: str) -> None:
            places: dict[str, str] = {}
            text = re.sub(r"%\((\w+)\)s", lambda at: places.setdefault(at[1], f"${len(places) + 1}"), _QUERIES[name])
            explained = f"explain (generic_plan, format json) {text.replace('%%', '%')}"
            ((plan,),) = psycopg.RawCursor(connection).execute(explained).fetchall()
            assert scanned(plan[0]["Plan"]) <= WHOLE

        planned()


def test_a_repair_of_somebody_else_is_seen_by_all(visitors: Visitors, public: PublicSystem) -> None:
    """Operators are one team: what one proposed another decides."""
    first = public.merchant("m_first", ("operator",))
    with first.http:
        made = proposed(first, opened(public, currency="USD"))["id"]
    page = visitors("m_second").get(f"/console/repairs/{made}")
    assert "Approve and post" in page.text
    assert "You proposed it" not in page.text
