"""Billing runs and support grants as their owner decides them: pure, every order of hands."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from dataflows.tenancy.domain import billing_entry, billing_run, support_grant
from dataflows.tenancy.domain.billing_entry import BillingEntry
from dataflows.tenancy.domain.billing_run import BillingRun, DeskTenant
from dataflows.tenancy.domain.support_grant import SupportGrant
from schemas.records import Command, Rejection
from schemas.tenancy import entitlements
from schemas.tenancy.desk_operations import DESK
from schemas.tenancy.instants import instant
from tests.each import each

NOW = 1_790_000_000_000_000
HOUR = 3_600_000_000
TENANT = DeskTenant("tn_1", "standard", "EUR", {"tokens": "0.5"})


def command(operation: str, version: int | None = None, **payload: Any) -> Command:
    return Command(
        operation=operation,
        request_id="r",
        idempotency_key="k",
        aggregate_key="tn_1",
        expected_version=version,
        scope="m_ops",
        request_hash=b"",
        trace_id="",
        issued_at=NOW,
        deadline_at=0,
        reply_to=-1,
        reply_id=0,
        payload=payload,
    )


def a_run(begins: int, ends: int, billed: list[tuple[int, int]] | None = None) -> BillingRun | Rejection:
    asked = command("create_billing_run", **{"from": instant(begins), "to": instant(ends), "grace_s": 0})
    return billing_run.decide_billing_run(TENANT, billed or [], 3, "br_x", asked, NOW)


def test_a_period_is_billed_when_it_is_over_and_touches_no_other() -> None:
    run = a_run(NOW - HOUR, NOW, [(NOW - 2 * HOUR, NOW - HOUR)])
    assert isinstance(run, BillingRun)
    assert (run.number, run.invoice_id, run.prices) == (3, "in_x", {"tokens": "0.5"})
    assert billing_run.rendered(run)["invoice_id"] is None
    assert billing_run.rendered(run, is_finalized=True)["invoice_id"] == "in_x"


@pytest.mark.parametrize(
    ("begins", "ends", "billed", "code"),
    [
        (NOW - HOUR, NOW + 1, [], "state_conflict"),
        (NOW - HOUR, NOW, [(NOW - 2 * HOUR, NOW - HOUR + 1)], "state_conflict"),
        (NOW - 3 * HOUR, NOW, [(NOW - 2 * HOUR, NOW - HOUR)], "state_conflict"),
        (NOW - HOUR, NOW - HOUR, [], "invalid_command"),
        (NOW - 360 * 24 * HOUR - 1, NOW, [], "invalid_command"),
    ],
)
def test_what_is_not_billed(begins: int, ends: int, billed: list[tuple[int, int]], code: str) -> None:
    found = a_run(begins, ends, billed)
    assert isinstance(found, Rejection)
    assert found.code == code


def asked_for(tier: str = "standard", **said: Any) -> SupportGrant | Rejection:
    payload = {"person": "s_1", "reason": "r", "ticket": "t", "scopes": ["resources:read"], "duration_s": 60}
    payload |= {"break_glass": None, "masked_fields": ["email"], "not_before": None} | said
    return support_grant.requested("sg_1", "tn_1", tier, command("request_support_grant", **payload), NOW)


def requested(tier: str = "standard", **said: Any) -> SupportGrant:
    grant = asked_for(tier, **said)
    assert isinstance(grant, SupportGrant)
    return grant


def after(
    grant: SupportGrant, *hands: tuple[str, str], at: int = NOW, tier: str = "standard", **said: Any
) -> SupportGrant | str:
    """The grant after these hands, or the code of the first refusal; ``said`` is what a consent says."""
    for verb, person in hands:
        further = {"findings": "as the ticket says"} if verb == "review" else {}
        further |= {"duration_s": None, "masked_fields": None} | said if verb == "consent" else {}
        asked = command(f"{verb}_support_grant", person=person, grant_id="sg_1", **further)
        decided = support_grant.decide(grant, "tn_1", tier, asked, at)
        if isinstance(decided, Rejection):
            return decided.code
        grant = decided
    return grant


def test_time_runs_when_another_person_and_the_tenant_of_a_tier_that_asks_for_it_have_allowed_it() -> None:
    active = after(requested(), ("approve", "s_2"))
    assert isinstance(active, SupportGrant)
    assert (active.state, active.approvers, active.expires_at) == ("active", ("s_2",), NOW + 60_000_000)
    assert [active.state_at(at) for at in (NOW + 59_999_999, NOW + 60_000_000)] == ["active", "expired"]
    waits = after(requested("enterprise"), ("approve", "s_2"))
    assert isinstance(waits, SupportGrant)
    assert (waits.state, waits.expires_at) == ("approved", None)
    for hands in ((("approve", "s_2"), ("consent", "u_1")), (("consent", "u_1"), ("approve", "s_2"))):
        both = after(requested("enterprise"), *hands)
        assert isinstance(both, SupportGrant)
        assert (both.state, both.consented_by, both.version) == ("active", "u_1", 3)


def test_a_tenant_is_asked_by_its_tier_of_when_it_is_approved_or_of_when_it_was_asked_for() -> None:
    raised = after(requested(), ("approve", "s_2"), tier="enterprise")
    assert isinstance(raised, SupportGrant)
    assert (raised.state, raised.needs_consent) == ("approved", True)
    agreed = after(raised, ("consent", "u_1"))
    assert isinstance(agreed, SupportGrant)
    assert agreed.state == "active"
    lowered = after(requested("enterprise"), ("approve", "s_2"))
    assert isinstance(lowered, SupportGrant)
    assert lowered.state == "approved"
    glass = after(requested(break_glass=True), ("approve", "s_2"), ("approve", "s_3"), tier="enterprise")
    assert isinstance(glass, SupportGrant)
    assert (glass.state, glass.needs_consent) == ("active", False)
    ended = after(after(requested(), ("approve", "s_2")), ("revoke", "s_3"), tier="enterprise")  # type: ignore[arg-type]
    assert isinstance(ended, SupportGrant)
    assert (ended.state, ended.needs_consent) == ("revoked", False)


BEGINS = NOW + HOUR
BOTH = ((("approve", "s_2"), ("consent", "u_1")), (("consent", "u_1"), ("approve", "s_2")))


def test_a_grant_that_begins_later_is_active_and_counts_its_time_from_then() -> None:
    later = after(requested(not_before=instant(BEGINS)), ("approve", "s_2"))
    assert isinstance(later, SupportGrant)
    over = BEGINS + 60_000_000
    states = [later.state_at(at) for at in (NOW, BEGINS - 1, BEGINS, over - 1, over)]
    assert (states, later.expires_at) == (["approved", "approved", "active", "active", "expired"], over)
    assert support_grant.rendered(later, NOW)["not_before"] == instant(BEGINS)
    for verb, at, code in (("deny", NOW, "denied"), ("revoke", NOW, "revoked"), ("deny", BEGINS, "state_conflict")):
        ended = after(later, (verb, "s_3"), at=at)
        assert (ended.state if isinstance(ended, SupportGrant) else ended) == code
    assert after(later, ("approve", "s_3")) == "state_conflict"
    assert after(later, ("review", "s_9")) == "state_conflict"
    late = after(requested(not_before=instant(BEGINS)), ("approve", "s_2"), at=BEGINS + 7)
    assert isinstance(late, SupportGrant)
    assert late.expires_at == BEGINS + 7 + 60_000_000  # nobody loses time by approving late


def test_a_tenant_that_comes_to_be_asked_is_asked_for_what_has_not_begun() -> None:
    later = after(requested(not_before=instant(BEGINS)), ("approve", "s_2"))
    assert isinstance(later, SupportGrant)
    waits = support_grant.asked_anew(later, "tn_1", "enterprise", BEGINS - 1)
    assert waits is not None
    assert (waits.state, waits.needs_consent, waits.expires_at, waits.version) == ("approved", True, None, 3)
    agreed = after(waits, ("consent", "u_1"), at=BEGINS - 1)
    assert isinstance(agreed, SupportGrant)
    assert (agreed.state, agreed.expires_at) == ("active", later.expires_at)
    for grant, tenant_id, tier, at in (
        (later, "tn_1", "standard", NOW),
        (later, "tn_2", "enterprise", NOW),
        (later, "tn_1", "enterprise", BEGINS),  # it has begun
        (agreed, "tn_1", "enterprise", NOW),
        (requested(), "tn_1", "enterprise", NOW),  # its approval looks at the tier
        (waits, "tn_1", "enterprise", NOW),
    ):
        assert support_grant.asked_anew(grant, tenant_id, tier, at) is None


def test_a_grant_begins_within_a_month_and_no_emergency_does_later() -> None:
    month = 30 * 24 * HOUR
    assert isinstance(asked_for(not_before=instant(NOW + month)), SupportGrant)
    far = asked_for(not_before=instant(NOW + month + 1))
    assert isinstance(far, Rejection)
    assert [one["field"] for one in far.extra["errors"]] == ["payload.not_before"]
    said = {"reason": "r", "ticket": "t", "person": "s_1", "not_before": instant(BEGINS)}
    operation = DESK["request_support_grant"]
    assert operation.normalize(said)[1] == []
    for wrong in ({"break_glass": True}, {"not_before": "tomorrow"}, {"not_before": 7}):
        assert [one["field"] for one in operation.normalize(said | wrong)[1]] == ["payload.not_before"]


@pytest.mark.parametrize("hands", BOTH)
def test_a_consent_narrows_whoever_is_first_and_what_is_in_force_is_the_narrower(
    hands: tuple[tuple[str, str], ...],
) -> None:
    less = after(requested("enterprise"), *hands, duration_s=30, masked_fields=["phone", "email"])
    assert isinstance(less, SupportGrant)
    assert (less.state, less.duration_s, less.expires_at) == ("active", 30, NOW + 30_000_000)
    assert less.masked_fields == ("email", "phone")  # what was masked already stays
    asked = {"duration_s": 60, "masked_fields": ["email"]}
    assert support_grant.rendered(less, NOW)["asked"] == asked
    fields = after(requested("enterprise"), *hands, masked_fields=["phone"])
    assert isinstance(fields, SupportGrant)
    assert (fields.duration_s, fields.masked_fields) == (60, ("email", "phone"))
    for same in ({}, {"duration_s": 60}, {"masked_fields": ["email"]}):
        whole = after(requested("enterprise"), *hands, **same)
        assert isinstance(whole, SupportGrant)
        assert (whole.duration_s, whole.masked_fields) == (60, ("email",))
        assert support_grant.rendered(whole, NOW)["asked"] is None


def test_nobody_consents_to_more_than_was_asked_for() -> None:
    consents = ("consent", "u_1")
    assert after(requested("enterprise"), consents, duration_s=61) == "invalid_command"
    writes = requested("enterprise", scopes=["resources:write"], masked_fields=None)
    assert after(writes, consents, masked_fields=["phone"]) == "invalid_command"
    many = [f"field{n}" for n in range(32)]
    assert after(requested("enterprise"), consents, masked_fields=many) == "invalid_command"
    assert isinstance(after(requested("enterprise"), consents, masked_fields=many[:31]), SupportGrant)
    once = after(requested("enterprise"), consents, duration_s=30)
    assert isinstance(once, SupportGrant)
    assert after(once, consents, duration_s=60) == "state_conflict"


def test_who_is_not_asked_may_narrow_what_has_not_begun() -> None:
    later = after(requested(not_before=instant(BEGINS)), ("approve", "s_2"), ("consent", "u_1"), duration_s=30)
    assert isinstance(later, SupportGrant)
    assert (later.consented_by, later.expires_at) == ("u_1", BEGINS + 30_000_000)
    assert after(later, ("consent", "u_2"), at=BEGINS) == "state_conflict"


def test_nobody_approves_their_own_and_what_is_over_stays_over() -> None:
    assert after(requested(), ("approve", "s_1")) == "four_eyes_required"
    for hands in ((("consent", "s_1"),), (("approve", "s_2"), ("consent", "s_1"))):  # a member of the tenant as well
        assert after(requested("enterprise"), *hands) == "four_eyes_required"
    assert after(requested(), ("approve", "s_2"), ("approve", "s_3")) == "state_conflict"
    assert after(requested(), ("approve", "s_2"), ("deny", "s_3")) == "state_conflict"
    for end in ("deny", "revoke"):
        for later in ("approve", "consent", "revoke"):
            assert after(requested(), (end, "s_3"), (later, "s_4")) == "state_conflict"
    active = after(requested(), ("approve", "s_2"))
    assert isinstance(active, SupportGrant)
    assert after(active, ("revoke", "s_3"), at=NOW + 60_000_000) == "state_conflict"


def test_a_broken_glass_needs_two_others_and_waits_for_no_tenant() -> None:
    asked = requested("enterprise", break_glass=True)
    assert (asked.needs_consent, asked.approvals_needed) == (False, 2)
    for hands in (
        (("approve", "s_1"),),
        (("approve", "s_2"), ("approve", "s_2")),
        (("approve", "s_2"), ("approve", "s_1")),
    ):
        assert after(asked, *hands) == "four_eyes_required"
    once = after(asked, ("approve", "s_2"))
    assert isinstance(once, SupportGrant)
    assert (once.state, once.expires_at) == ("requested", None)
    active = after(once, ("approve", "s_3"))
    assert isinstance(active, SupportGrant)
    assert (active.state, active.approvers, active.expires_at) == ("active", ("s_2", "s_3"), NOW + 60_000_000)
    assert after(active, ("approve", "s_4")) == "state_conflict"


@pytest.mark.parametrize("break_glass", [None, False, True])
def test_what_is_over_is_reviewed_once_by_somebody_else(break_glass: bool | None) -> None:
    asked, over = requested(break_glass=break_glass), NOW + 60_000_000
    active = after(asked, ("approve", "s_2"), *([("approve", "s_3")] if break_glass else []))
    assert isinstance(active, SupportGrant)
    for early in (asked, active):
        assert after(early, ("review", "s_9")) == "state_conflict"
    assert after(active, ("review", "s_1"), at=over) == "four_eyes_required"
    by_approver = after(active, ("review", "s_2"), at=over)
    assert (by_approver == "four_eyes_required") == bool(break_glass)
    for ended in (active, after(active, ("revoke", "u_1")), after(asked, ("deny", "s_2"))):
        assert isinstance(ended, SupportGrant)
        reviewed = after(ended, ("review", "s_9"), at=over)
        assert isinstance(reviewed, SupportGrant)
        said = (reviewed.state, reviewed.reviewed_by, reviewed.reviewed_at, reviewed.findings)
        assert said == ("reviewed", "s_9", over, "as the ticket says")
        for verb in ("review", "approve", "revoke", "deny", "consent"):
            assert after(reviewed, (verb, "s_10"), at=over) == "state_conflict"


def test_the_glass_is_broken_for_a_short_time() -> None:
    operation = DESK["request_support_grant"]
    said = {"reason": "r", "ticket": "t", "person": "s_1"}
    for wanted, duration_s in ((True, 1_800), (False, 14_400), (None, 14_400)):
        assert operation.normalize(said | {"break_glass": wanted, "duration_s": duration_s})[1] == []
    _, wrong = operation.normalize(said | {"break_glass": True, "duration_s": 1_801})
    assert [one["field"] for one in wrong] == ["payload.duration_s"]
    for value in ("true", 1, [], {}):
        _, wrong = operation.normalize(said | {"break_glass": value})
        assert [one["field"] for one in wrong] == ["payload.break_glass"]


def test_another_tenants_grant_is_not_there_and_a_stale_version_is_told() -> None:
    grant = requested()
    asked = command("approve_support_grant", person="s_2", grant_id="sg_1")
    for known, tenant in ((None, "tn_1"), (grant, "tn_2")):
        found = support_grant.decide(known, tenant, "standard", asked, NOW)
        assert isinstance(found, Rejection)
        assert found.code == "not_found"
    asked = command("approve_support_grant", 7, person="s_2", grant_id="sg_1")
    stale = support_grant.decide(grant, "tn_1", "standard", asked, NOW)
    assert isinstance(stale, Rejection)
    assert (stale.code, stale.extra) == ("version_conflict", {"current_version": 1})


def test_a_correction_is_of_the_billed_period_that_it_names_at_a_price_that_is_fixed_then() -> None:
    said = {"dimension": "tokens", "quantity": -3, "at": instant(NOW - HOUR), "unit_price": None, "reason": "twice"}
    period = (NOW - 2 * HOUR, NOW)
    then = {"tokens": "0.25", "tiered": "volume:10@2,*@1"}

    def adjusted(billed: dict[billing_run.Period, dict[str, str]], **other: Any) -> BillingEntry | Rejection:
        return billing_entry.adjusted(TENANT, billed, 4, "be_1", command("adjust_usage", **said | other), NOW)

    entry = adjusted({period: then})
    assert isinstance(entry, BillingEntry)
    assert (entry.number, entry.unit_price, entry.period) == (4, "0.25", period)
    assert billing_entry.rendered(entry)["amount"] == -1
    dearer = adjusted({period: then}, unit_price="7", dimension="tiered")
    assert isinstance(dearer, BillingEntry)
    assert (dearer.unit_price, billing_entry.rendered(dearer)["amount"]) == ("7", -21)
    beside = [(NOW - HOUR + 1, NOW), (NOW - 2 * HOUR, NOW - HOUR)]
    unbilled = adjusted(dict.fromkeys(beside, then))
    assert isinstance(unbilled, BillingEntry)
    assert (unbilled.period, unbilled.unit_price) == (None, "0.5")
    for prices, dimension in (({}, "tokens"), (then, "tiered")):  # whatever it costs today
        refused = adjusted({period: prices}, dimension=dimension)
        assert isinstance(refused, Rejection)
        assert [wrong["field"] for wrong in refused.extra["errors"]] == ["payload.unit_price"]


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("payload.quantity", {"quantity": 0}),
        ("payload.at", {"at": instant(NOW + 1)}),
        ("payload.unit_price", {"dimension": "calls"}),
        ("payload.unit_price", {"dimension": "tiered"}),
        ("payload.quantity", {"quantity": -(2**53 - 1), "unit_price": "1025"}),
        ("payload.quantity", {"quantity": 2**53 - 1, "unit_price": "1.1"}),
    ],
)
def test_what_is_no_correction(field: str, change: dict[str, Any]) -> None:
    tenant = structs.replace(TENANT, prices={"tokens": "0.5", "tiered": "volume:10@2,*@1"})
    said = {"dimension": "tokens", "quantity": 1, "at": instant(NOW), "unit_price": None, "reason": "r"} | change
    found = billing_entry.adjusted(tenant, {}, 1, "be_1", command("adjust_usage", **said), NOW)
    assert isinstance(found, Rejection)
    assert [wrong["field"] for wrong in found.extra["errors"]] == [field]


_OF_RESOURCES = {"dimension": "resources", "limit": 1}
ALLOWED = {
    "exports": {"kind": "bool", "value": True},
    "sso": {"kind": "bool", "value": False},
    "plan": {"kind": "static", "value": "gold: plus"},
    "tokens": {"kind": "metered", "dimension": "tokens", "limit": 10, "soft": False, "period": "month"},
    "calls": {"kind": "metered", "dimension": "a:5:soft", "limit": None, "soft": True, "period": "day"},
    "hours": {"kind": "metered", "dimension": "calls:5:soft", "limit": 7, "soft": False, "period": "month"},
    "seats": {"kind": "limit", "dimension": "resources", "limit": 3, "soft": True},
    "room": {"kind": "limit", "dimension": "resources", "limit": None, "soft": False},
}


def test_entitlements_travel_as_texts_and_look_as_they_were_given() -> None:
    assert entitlements.entitlements(ALLOWED) is None
    texts = entitlements.texts_of(ALLOWED)
    assert entitlements.entitlements(texts) is None
    assert entitlements.texts_of(texts) == texts
    assert entitlements.shown(texts) == ALLOWED
    assert (texts["tokens"], texts["calls"]) == ("metered:tokens:10", "metered:a:5:soft::soft:day")
    least = {"n": {"kind": "metered", "dimension": "tokens", "limit": 10}, "m": {"kind": "limit", **_OF_RESOURCES}}
    assert entitlements.texts_of(least) == {"m": "limit:resources:1:hard", "n": "metered:tokens:10"}


@each(
    "said",
    [
        True,
        "gold",
        {},
        {"kind": "bool", "value": 1},
        {"kind": "bool", "value": True, "limit": 1},
        {"kind": "static", "value": ""},
        {"kind": "static", "value": "x" * 101},
        {"kind": "metered", "dimension": "a b", "limit": 1},
        {"kind": "metered", "dimension": "tokens", "limit": -1},
        {"kind": "metered", "dimension": "tokens", "limit": True},
        {"kind": "metered", "dimension": "tokens", "limit": 1, "soft": 1},
        {"kind": "metered", "dimension": "tokens", "limit": 1, "period": "week"},
        {"kind": "metered", "dimension": "tokens", "limit": 1, "value": 1},
        {"kind": "limit", "dimension": "tokens", "limit": 1},
        {"kind": "limit", "dimension": "resources", "limit": -1},
        {"kind": "limit", "dimension": "resources", "limit": 1, "period": "day"},
        "limit:resources:1",
        "limit:tokens:1:soft",
        "metered:tokens:1:soft:week",
        {"kind": "other", "value": True},
    ],
)
def test_what_is_no_entitlement(said: object) -> None:
    assert entitlements.entitlements({"feature": said})
