"""Which policies govern a key, and which snapshots a gateway believes."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dataflows.limiter.domain.limit_policy import OwnedPolicy, decide_publish
from limiter.policy.calendars import calendars_of
from limiter.policy.denied_keys import digests
from limiter.policy.policies import PolicySet
from limiter.policy.snapshot import Envelope, Snapshot, SnapshotRefused, key_id, sign, verified
from schemas.calendar_windows import Calendar, windows_of
from schemas.fields import validation
from schemas.limiter.limit_policy import LimitPolicy, as_policy, rendered
from schemas.limiter.limit_terms import SAFE_INTEGER, terms
from schemas.limiter.operations import OPERATIONS
from schemas.records import Rejection
from tests.each import each
from tests.worlds.payments import payment_cases as cases

NOW = 1_800_000_000
KEY = Ed25519PrivateKey.generate()
KEYS = {key_id(KEY.public_key()): KEY.public_key()}
PARTS = {"tenant": "t1", "user": "u1", "route": "/r"}


def policy(name: str = "pl_a", version: int = 1, **changes: Any) -> LimitPolicy:
    scope = {"tenant": "*", "user": "*", "route": "*"} | changes.pop("scope", {})
    payload = {"scope": scope, "algorithm": "fixed_window", "capacity": 10, "window_ms": 60_000} | changes
    found, wrong = OPERATIONS["publish_policy"].normalize(payload)
    assert not wrong
    return as_policy(found, name, version)


def levels(*policies: LimitPolicy) -> list[str]:
    return [level.id_ for level in PolicySet(policies, 1).levels(PARTS)]


def test_the_most_specific_scope_of_a_level_wins() -> None:
    everywhere, tenant = policy("pl_a"), policy("pl_b", scope={"tenant": "t1"})
    route, other = policy("pl_c", scope={"tenant": "t1", "route": "/r"}), policy("pl_d", scope={"tenant": "t2"})
    assert levels(everywhere, other) == ["pl_a"]
    assert levels(everywhere, tenant, other) == ["pl_b"]
    assert levels(route, everywhere, tenant) == ["pl_c"]


@pytest.mark.parametrize(
    ("kind", "name", "parts"),
    [
        ("merchant", "m_1", {"tenant": "m_1"}),
        ("tenant", "t_1", {"tenant": "t_1"}),
        ("tenant", "t_1", {"tenant": "tenant:t_1"}),
        ("user", "u_1", {"tenant": "user:u_1"}),
        ("subject", "auth0|jane doe", {"user": "auth0|jane doe"}),
        ("subject", "j\u0065\u0301an", {"user": "j\u00e9an"}),
        ("subject", "x" * 2_000, {"user": hashlib.sha256(b"x" * 2_000).hexdigest()}),
    ],
)
def test_nothing_lets_a_key_pass_whose_caller_is_denied(kind: str, name: str, parts: dict[str, str]) -> None:
    """An allow list that names the very key neither; nobody else is refused, and no name can be read."""
    allowed = policy("pl_a", scope=PARTS | parts, algorithm="unlimited", capacity=None, window_ms=None)
    found = PolicySet([allowed, policy("pl_b")], 1, denied=digests(kind, name))
    (level,) = found.levels(PARTS | parts)
    assert (level.policy.algorithm, found.by_id(level.id_)) == ("deny", level.policy)
    assert [one.id_ for one in found.levels(PARTS)] == ["pl_b"]
    assert not any(name in digest for digest in digests(kind, name))
    assert digests("token", name) == ()
    assert not PolicySet([], 1, denied=digests(kind, name)).is_empty


def test_of_equal_scope_the_least_id_wins() -> None:
    """By the whole id: the ends of these two are in the other order."""
    least, other = policy("pl_a_00000001"), policy("pl_b_00000000")
    assert levels(least, other) == levels(other, least) == ["pl_a_00000001"]


def test_levels_by_other_parts_all_hold() -> None:
    assert sorted(levels(policy("pl_a"), policy("pl_b", per=["tenant"]), policy("pl_c", per=["tenant", "route"]))) == [
        "pl_a",
        "pl_b",
        "pl_c",
    ]


def test_a_shadow_policy_takes_nobodys_place() -> None:
    assert sorted(levels(policy("pl_a"), policy("pl_b", scope={"tenant": "t1"}, shadow=True))) == ["pl_a", "pl_b"]


@each(
    "changes",
    [
        {"capacity": 0},
        {"capacity": -1},
        {"capacity": 1.5},
        {"capacity": True},
        {"capacity": SAFE_INTEGER},
        {"capacity": 2**40, "window_ms": 366 * 86_400_000},
        {"window_ms": 0},
        {"window_ms": None},
        {"algorithm": "magic"},
        {"algorithm": "token_bucket"},
        {"algorithm": "token_bucket", "window_ms": None, "refill_rate": 0},
        {"algorithm": "token_bucket", "refill_rate": 1},
        {"refill_rate": 1},
        {"algorithm": "sliding_window", "window_ms": 1, "slots": 7},
        {"algorithm": "concurrency", "consistency": "leased"},
        {"consistency": "maybe"},
        {"scope": {}},
        {"scope": {"tenant": "t", "user": "*"}},
        {"scope": {"tenant": "", "user": "*", "route": "*"}},
        {"per": []},
        {"per": ["tenant", "tenant"]},
        {"per": ["planet"]},
        {"per": [["tenant"]]},
        {"extra": 1},
    ],
)
def test_a_policy_that_cannot_be_computed_exactly_is_refused(changes: dict[str, Any]) -> None:
    scope = {"tenant": "*", "user": "*", "route": "*"}
    payload = {"scope": scope, "algorithm": "fixed_window", "capacity": 10, "window_ms": 60_000} | changes
    _, wrong = OPERATIONS["publish_policy"].normalize(payload)
    assert wrong
    assert all(row["field"].startswith("payload.") for row in wrong)


@each("changes", [{}, {"slots": 7, "window_ms": 700}, {"window_ms": 86_400_000}, {"window_ms": 997}])
@each("algorithm", ["fixed_window", "sliding_window", "token_bucket", "concurrency"])
def test_the_largest_capacity_of_a_window_is_told_and_is_taken(algorithm: str, changes: dict[str, Any]) -> None:
    """C*P at the edge: one more than what is told is refused again, with the same bound."""
    scope = {"tenant": "*", "user": "*", "route": "*"}
    payload = {
        "scope": scope,
        "algorithm": algorithm,
        "window_ms": 60_000,
        "slots": 1,
        "consistency": "exact",
    } | changes
    if algorithm == "token_bucket":
        payload |= {"refill_rate": 1, "refill_period_ms": payload["window_ms"], "window_ms": None}
    _, wrong = OPERATIONS["publish_policy"].normalize(payload | {"capacity": SAFE_INTEGER - 1})
    (told,) = wrong
    most = int(told["reason"].split()[4])
    assert told["field"] == "payload.capacity"
    assert OPERATIONS["publish_policy"].normalize(payload | {"capacity": most})[1] == []
    assert OPERATIONS["publish_policy"].normalize(payload | {"capacity": most + 1})[1] == [told]


@pytest.mark.parametrize(
    ("changes", "is_wrong"),
    [
        ({"boundary_guard": 10}, False),
        ({"boundary_guard": 11}, True),
        ({"boundary_guard": 0}, True),
        ({"boundary_guard": 1.5}, True),
        ({"boundary_guard": 1, "algorithm": "sliding_window"}, True),
        ({"boundary_guard": 1, "consistency": "durable"}, True),
        ({"boundary_guard": 1, "window_ms": None, "calendar": {"unit": "day", "time_zone": "UTC"}}, True),
    ],
)
def test_a_guard_is_of_a_fixed_window_and_at_most_its_capacity(changes: dict[str, Any], is_wrong: bool) -> None:
    scope = {"tenant": "*", "user": "*", "route": "*"}
    payload = {"scope": scope, "algorithm": "fixed_window", "capacity": 10, "window_ms": 60_000} | changes
    _, wrong = OPERATIONS["publish_policy"].normalize(payload)
    assert [error["field"] for error in wrong] == ["payload.boundary_guard"] * is_wrong


def test_a_guard_goes_where_its_window_goes() -> None:
    """A window that a more specific policy replaces takes its guard along; by its name the window is found."""
    parts = {"tenant": "t", "user": "u", "route": "/r"}
    guarded = policy(boundary_guard=3)
    found = PolicySet([guarded], 1)
    assert [(level.id_, level.store_id) for level in found.levels(parts)] == [("pl_a", "pl_a"), ("pl_a", "pl_a/guard")]
    assert found.by_id("pl_a") == guarded
    assert found.only(lambda _: True).by_id("pl_a") == guarded
    assert len(found.all_levels()) == 2
    own = policy("pl_b", scope={"tenant": "t", "user": "*", "route": "*"})
    assert [level.id_ for level in PolicySet([guarded, own], 1).levels(parts)] == ["pl_b"]


def test_slots_that_do_not_divide_the_window_are_said_to() -> None:
    scope = {"tenant": "*", "user": "*", "route": "*"}
    payload = {"scope": scope, "algorithm": "sliding_window", "capacity": 10, "window_ms": 1_000}
    for slots, field in ((7, "payload.slots"), (8, None), (60, "payload.slots")):
        _, wrong = OPERATIONS["publish_policy"].normalize(payload | {"slots": slots})
        assert [error["field"] for error in wrong] == ([field] if field else [])


def test_a_payload_may_say_a_scope_only_where_it_is_a_field() -> None:
    fields = OPERATIONS["publish_policy"].payload
    assert validation.names_its_caller({"scope": {}}, fields) is None
    assert validation.names_its_caller({"scope": {}, "tenant": "t"}, fields) == "tenant"


def test_the_finest_clock_that_stays_exact_is_taken() -> None:
    assert [terms(policy(capacity=c, window_ms=w)) for c, w in ((10, 60_000), (2**30, 86_400_000))] == [
        terms(policy(capacity=10, window_ms=60_000)),
        terms(policy(capacity=2**30, window_ms=86_400_000)),
    ]
    ticks = [
        terms(policy(capacity=c, window_ms=w)) for c, w in ((10, 60_000), (10**6, 86_400_000), (2**34, 86_400_000))
    ]
    assert [t.tick_us for t in ticks if t] == [1, 1_000, 1_000_000]


def document(**changes: Any) -> bytes:
    fields: dict[str, Any] = {"revision": 5, "issued_at": NOW, "not_after": NOW + 60, "policies": [policy()]} | changes
    return sign(Snapshot(**fields), KEY)


def test_a_snapshot_carries_the_windows_of_its_calendars() -> None:
    found = policy(calendar={"unit": "day", "time_zone": "Asia/Kolkata"}, window_ms=None)
    (windows,) = verified(document(policies=[found], calendars=calendars_of([found], NOW)), KEYS, 5, NOW).calendars
    assert windows.calendar == found.calendar
    assert {end - begin for begin, end in pairwise(windows.boundaries)} == {86_400}


def test_a_zone_that_this_machine_does_not_know_costs_no_other_policy_its_windows() -> None:
    known, unknown = (Calendar("day", zone) for zone in ("Asia/Kolkata", "Mars/Olympus"))
    assert [found.calendar for found in windows_of([unknown, None, known, known], NOW, NOW)] == [known]


def test_what_is_shown_of_a_policy_can_be_published_again() -> None:
    found = policy(calendar={"unit": "day", "time_zone": "Asia/Kolkata"}, window_ms=None)
    shown = {name: value for name, value in rendered(found).items() if name not in ("object", "version")}
    again, wrong = OPERATIONS["publish_policy"].normalize(json.loads(json.dumps(shown)))
    assert wrong == []
    assert as_policy(again, "pl_a", 1) == found


def test_a_calendar_without_windows_is_asked_as_nothing_that_the_store_knows() -> None:
    found = policy(calendar={"unit": "day", "time_zone": "Asia/Kolkata"}, window_ms=None)
    (level,) = PolicySet([found], 1).all_levels()
    assert struct.unpack("<11d", level.plain_terms)[0] == -1


def test_a_snapshot_is_what_was_signed() -> None:
    assert verified(document(), KEYS, 5, NOW).policies == [policy()]


def forged(**changes: Any) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(msgspec.json.decode(document(), type=Envelope), **changes))


@each(
    ("hostile", "said"),
    [
        (lambda: forged(signature=None), "not signed"),
        (lambda: forged(key_id=None), "not signed"),
        (lambda: forged(signature=base64.b64encode(bytes(64)).decode()), "is wrong"),
        (lambda: forged(signature="no base64!"), "cannot be read"),
        (lambda: forged(snapshot=msgspec.json.decode(document(revision=9), type=Envelope).snapshot), "is wrong"),
        (lambda: forged(key_id="0" * 16), "not known"),
        (lambda: document(revision=4), "older"),
        (lambda: document(not_after=NOW), "expired"),
        (lambda: document()[:-9], "cannot be read"),
        (lambda: b"", "cannot be read"),
        (lambda: b"[]", "cannot be read"),
    ],
)
def test_what_is_not_surely_ours_is_not_used(hostile: Any, said: str) -> None:
    with pytest.raises(SnapshotRefused, match=said):
        verified(hostile(), KEYS, 5, NOW)


@each(
    ("changes", "field", "reason"),
    [
        ({"window_ms": 60_000}, "window_ms", "must not be given beside a calendar"),
        ({"calendar": None}, "window_ms", "is required for a fixed_window, or a calendar"),
        ({"refill_rate": 1}, "refill_rate", "is not a field of a fixed_window policy"),
        ({"capacity": None}, "capacity", "is required for a fixed_window"),
        ({"algorithm": "sliding_window", "window_ms": 60_000}, "calendar", "is not a field of a sliding_window"),
        ({"algorithm": "token_bucket", "refill_rate": 1}, "calendar", "is not a field of a token_bucket"),
        ({"algorithm": "deny", "capacity": None}, "calendar", "is not a field of a deny"),
        ({"calendar": {"unit": "month"}}, "calendar", "must have unit and time_zone"),
        ({"calendar": {"unit": "month", "time_zone": "UTC", "week": 1}}, "calendar", "must have unit and time_zone"),
        ({"calendar": "month"}, "calendar", "must have unit and time_zone"),
        ({"calendar": {"unit": "year", "time_zone": "UTC"}}, "calendar", "unit must be one of hour, day, week, month"),
        ({"calendar": {"unit": ["day"], "time_zone": "UTC"}}, "calendar", "unit must be one of"),
        ({"calendar": {"unit": "day", "time_zone": "Mars/Olympus"}}, "calendar", "time_zone must be the IANA name"),
        ({"calendar": {"unit": "day", "time_zone": "../UTC"}}, "calendar", "time_zone must be the IANA name"),
        ({"calendar": {"unit": "day", "time_zone": "localtime"}}, "calendar", "time_zone must be the IANA name"),
        ({"calendar": {"unit": "day", "time_zone": {}}}, "calendar", "time_zone must be the IANA name"),
    ],
)
def test_a_calendar_that_does_not_fit_is_refused(changes: dict[str, Any], field: str, reason: str) -> None:
    scope, calendar = {"tenant": "*", "user": "*", "route": "*"}, {"unit": "month", "time_zone": "Europe/Berlin"}
    good = {"scope": scope, "algorithm": "fixed_window", "capacity": 10, "calendar": calendar}
    assert OPERATIONS["publish_policy"].normalize(good)[1] == []
    _, wrong = OPERATIONS["publish_policy"].normalize(good | changes)
    assert [row["field"] for row in wrong] == [f"payload.{field}"]
    assert wrong[0]["reason"].startswith(reason)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"per": ["user"]}, "must have tenant"),
        ({"per": ["tenant", "route"]}, None),
        ({"per": ["user"], "scope": {"tenant": "t1", "user": "*", "route": "*"}}, None),
        ({"algorithm": "concurrency"}, "must be exact"),
        ({"algorithm": "concurrency", "consistency": "exact", "capacity": 100_001}, "must be at most 100000 for a"),
    ],
)
def test_durable_quotas_are_of_one_tenant_each(changes: dict[str, Any], reason: str | None) -> None:
    """One owner counts them: a counter of all tenants would have several."""
    payload = {"scope": {"tenant": "*", "user": "*", "route": "*"}, "algorithm": "fixed_window", "capacity": 10}
    _, wrong = OPERATIONS["publish_policy"].normalize(
        payload | {"window_ms": 60_000, "consistency": "durable"} | changes
    )
    assert [w["reason"].startswith(reason or "") for w in wrong] == [True] * (reason is not None)


@pytest.mark.parametrize(("before", "after"), [("exact", "durable"), ("durable", "exact"), ("durable", "leased")])
def test_a_policy_neither_becomes_durable_nor_ceases_to_be(before: str, after: str) -> None:
    """Its usage lies with an owner or in the counter store: it would be forgotten."""

    def published(current: OwnedPolicy | None, consistency: str, policy_id: str | None) -> OwnedPolicy | Rejection:
        payload = {"scope": {"tenant": "t", "user": "*", "route": "*"}, "algorithm": "fixed_window", "capacity": 10}
        found, wrong = OPERATIONS["publish_policy"].normalize(
            payload | {"window_ms": 60_000, "consistency": consistency, "policy_id": policy_id}
        )
        assert not wrong
        expected = None if current is None else current.policy.version
        command = cases.command("publish_policy", found, key="k", aggregate_key="pl_a", expected_version=expected)
        return decide_publish(current, command, 1)

    first = published(None, before, None)
    assert isinstance(first, OwnedPolicy)
    refused = published(first, after, "pl_a")
    assert isinstance(refused, Rejection)
    assert (refused.code, refused.extra["errors"]) == (
        "invalid_command",
        [{"field": "payload.consistency", "reason": "cannot change to durable or from it"}],
    )
    assert isinstance(published(first, before, "pl_a"), OwnedPolicy)


def test_the_next_version_names_the_one_that_it_follows() -> None:
    """Of two who publish at once without that, the last one would win unseen."""
    payload = {"scope": {"tenant": "t", "user": "*", "route": "*"}, "algorithm": "fixed_window", "capacity": 10}
    current: OwnedPolicy | None = None
    for policy_id, expected, code in [
        (None, None, ""),
        ("pl_a", None, "invalid_command"),
        ("pl_a", 0, "version_conflict"),
        ("pl_a", 1, ""),
        ("pl_a", 1, "version_conflict"),
    ]:
        found, _ = OPERATIONS["publish_policy"].normalize(payload | {"window_ms": 60_000, "policy_id": policy_id})
        given = cases.command("publish_policy", found, key="k", aggregate_key="pl_a", expected_version=expected)
        decided = decide_publish(current, given, 1)
        assert (decided.code if isinstance(decided, Rejection) else "") == code
        current = decided if isinstance(decided, OwnedPolicy) else current
    assert current is not None
    assert current.policy.version == 2


@pytest.mark.parametrize(
    ("changes", "is_refused"),
    [
        ({"per": ["user"]}, True),
        ({"per": ["route"], "scope": {"tenant": "*", "user": "u", "route": "*"}}, True),
        ({"per": ["user"], "scope": {"tenant": "t", "user": "*", "route": "*"}}, False),
        ({"per": ["tenant", "user"]}, False),
        (
            {"per": ["network"], "algorithm": "deny", "capacity": None, "window_ms": None},
            False,
        ),  # a list counts nothing
    ],
)
def test_what_counts_over_tenants_is_refused_where_there_are_several_shards(
    changes: dict[str, object], *, is_refused: bool
) -> None:
    payload = {"scope": {"tenant": "*", "user": "*", "route": "*"}, "algorithm": "fixed_window", "capacity": 10}
    found, wrong = OPERATIONS["publish_policy"].normalize(payload | {"window_ms": 60_000} | changes)
    assert not wrong
    command = cases.command("publish_policy", found, key="k", aggregate_key="pl_a")
    assert isinstance(decide_publish(None, command, 1), OwnedPolicy)
    decided = decide_publish(None, command, 1, shards=2)
    assert isinstance(decided, Rejection) == is_refused
    if isinstance(decided, Rejection):
        assert (decided.code, decided.extra) == ("state_conflict", {"current_state": "sharded", "shards": 2})
        assert "`per`" in decided.detail
