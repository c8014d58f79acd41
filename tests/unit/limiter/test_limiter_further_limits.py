"""Several limits in one policy: what may be published, what each is called, and what an owner counts of them."""

from __future__ import annotations

from typing import Any

import msgspec

from dataflows.limiter.domain.durable_quota import Consumption, Governed, decide_consume
from dataflows.limiter.domain.limit_policy import has_terms
from dataflows.limiter.quota_rows import named_policies
from limiter.edge.asgi import fields
from limiter.policy.calendars import calendars_of, named_calendars
from limiter.policy.policies import PolicySet
from limiter.spending.decision import Decision
from schemas.limiter import limits
from schemas.limiter.limit_policy import LimitPolicy, further_limits_of, limit_of, policy_of, rendered
from schemas.limiter.operations import OPERATIONS
from schemas.limiter.quota_fields import CONSUME_QUOTA
from schemas.records import Denial
from tests.each import each
from tests.unit.limiter.test_limiter_policies import policy

HOURLY = {"algorithm": "fixed_window", "capacity": 1_000, "window_ms": 3_600_000}
MONTHLY = {"algorithm": "fixed_window", "capacity": 9, "calendar": {"unit": "month", "time_zone": "Europe/Berlin"}}
BUCKET = {"algorithm": "token_bucket", "capacity": 10, "refill_rate": 10}
PARTS = {"tenant": "t", "user": "u", "route": "/r"}


def of_several(*further: dict[str, Any], **changes: Any) -> LimitPolicy:
    return policy(**BUCKET, window_ms=None, further_limits=list(further), **changes)


def wrong(*further: object, **changes: Any) -> list[dict[str, str]]:
    scope = {"tenant": "*", "user": "*", "route": "*"}
    return OPERATIONS["publish_policy"].normalize({"scope": scope, "further_limits": [*further], **BUCKET} | changes)[1]


@each(
    ("further", "changes", "field"),
    [
        ({}, {}, "payload.further_limits"),
        (7, {}, "payload.further_limits"),
        ({**HOURLY, "capacity": 0}, {}, "payload.further_limits"),
        ({**HOURLY, "capacity": None}, {}, "payload.further_limits"),
        ({**HOURLY, "scope": {}}, {}, "payload.further_limits"),
        ({**HOURLY, "further_limits": [HOURLY]}, {}, "payload.further_limits"),
        ({**HOURLY, "window_ms": None}, {}, "payload.further_limits[0].window_ms"),
        ({**HOURLY, "refill_rate": 1}, {}, "payload.further_limits[0].refill_rate"),
        ({**HOURLY, "capacity": 2**51}, {}, "payload.further_limits[0].capacity"),
        ({**HOURLY, "algorithm": "concurrency"}, {}, "payload.further_limits[0].consistency"),
        ({"algorithm": "deny", "capacity": 1}, {}, "payload.further_limits[0].algorithm"),
        (
            HOURLY,
            {"algorithm": "unlimited", "capacity": None, "refill_rate": None},
            "payload.further_limits[0].algorithm",
        ),
        (BUCKET, {}, "payload.further_limits[0]"),
    ],
)
def test_a_further_limit_that_is_none_is_said_by_its_place(further: Any, changes: dict[str, Any], field: str) -> None:
    assert [error["field"] for error in wrong(further, **changes)] == [field]


def test_there_are_few_of_them_and_none_twice() -> None:
    assert wrong(HOURLY, MONTHLY) == []
    assert [error["field"] for error in wrong(HOURLY, HOURLY)] == ["payload.further_limits[1]"]
    many = [{**HOURLY, "capacity": n + 1} for n in range(limits.LIMIT_FURTHER_LIMITS_MAX + 1)]
    assert wrong(*many[:-1]) == []
    assert [error["field"] for error in wrong(*many)] == ["payload.further_limits"]
    assert wrong() != []  # none of them is said by null


def test_each_limit_has_a_name_by_which_an_answer_tells_it() -> None:
    published = of_several(HOURLY, MONTHLY, boundary_guard=None)
    found = PolicySet([published], 1, calendars_of([published], 1_800_000_000))
    assert [(level.id_, level.store_id) for level in found.levels(PARTS)] == [
        ("pl_a", "pl_a"),
        ("pl_a/2", "pl_a/2"),
        ("pl_a/3", "pl_a/3"),
    ]
    hourly = found.by_id("pl_a/2")
    assert hourly is not None
    assert (hourly.capacity, hourly.window_ms, hourly.scope) == (1_000, 3_600_000, published.scope)
    assert found.by_id("pl_a") == published
    assert found.only(lambda _: True).by_id("pl_a/3") == found.by_id("pl_a/3")
    told = Decision(False, 0, 60_000, 60_000, "pl_a/2", 1)
    assert fields(hourly, told)["RateLimit-Policy"] == '"pl_a/2";q=1000;w=3600'


def test_a_limit_goes_where_its_policy_goes() -> None:
    """A more specific policy takes the place of all of them; in shadow mode none of them counts for real."""
    own = policy("pl_b", scope={"tenant": "t"})
    assert [level.id_ for level in PolicySet([of_several(HOURLY), own], 1).levels(PARTS)] == ["pl_b"]
    shadow = PolicySet([of_several(HOURLY, shadow=True)], 1)
    assert [level.store_id for level in shadow.levels(PARTS)] == ["pl_a/shadow", "pl_a/2/shadow"]


def test_the_windows_of_a_further_calendar_are_in_the_snapshot() -> None:
    published = of_several(HOURLY, MONTHLY)
    assert {found.calendar for found in calendars_of([published], 1_800_000_000)} == named_calendars([published])
    assert [calendar.unit for calendar in named_calendars([published])] == ["month"]


def test_policies_that_were_stored_before_have_one_limit_and_say_so() -> None:
    stored = msgspec.json.decode(msgspec.json.encode(policy()))
    del stored["further_limits"]
    assert msgspec.convert(stored, LimitPolicy) == policy()
    assert further_limits_of(policy()) == ()
    assert rendered(policy())["further_limits"] is None


def test_what_is_shown_can_be_published_again_and_a_retry_hashes_alike() -> None:
    short, normal = HOURLY, {**HOURLY, "refill_rate": None, "refill_period_ms": 1_000, "slots": 10, "strict": False}
    normal["calendar"] = None
    assert of_several(short) == of_several(normal)
    assert rendered(of_several(short))["further_limits"] == [normal]
    scope = {"tenant": "*", "user": "*", "route": "*"}
    payloads = [
        OPERATIONS["publish_policy"].normalize({"scope": scope, **BUCKET, "further_limits": [one]})[0]
        for one in (short, normal)
    ]
    assert payloads[0] == payloads[1]


def test_an_owner_counts_all_of_them_or_none() -> None:
    published = of_several(HOURLY, consistency="durable", per=["tenant"])
    assert has_terms(published)
    governed = [Governed(one, None) for one in (published, *further_limits_of(published))]
    decided = decide_consume(governed, 10, 0, 1_800_000_000_000_000)
    assert isinstance(decided, Consumption)
    assert [(left.policy_id, left.remaining) for left in decided.levels] == [("pl_a", 0), ("pl_a/2", 990)]
    again = [Governed(level.policy, owned) for level, owned in zip(governed, decided.counters, strict=True)]
    refused = decide_consume(again, 1, 1, 1_800_000_000_000_000)
    assert isinstance(refused, Denial)
    assert [left.remaining for left in refused.extra["levels"]] == [0, 990]


@each("name", ["pl_a/", "pl_a/1", "pl_a/5", "pl_a/22", "/2", "pl_a/2/2", "pl a", "pl_a/x", "", 7])
def test_an_owner_is_asked_of_limits_by_their_names_alone(name: Any) -> None:
    check = CONSUME_QUOTA["levels"].type.check
    assert check([{"policy_id": name, "version": 1, "counted_by": "t"}])
    assert not check([{"policy_id": "pl_a/4", "version": 1, "counted_by": "t"}])


def test_a_limit_is_found_in_its_policy() -> None:
    published = of_several(HOURLY)
    assert [policy_of("pl_a/2"), policy_of("pl_a")] == ["pl_a", "pl_a"]
    assert limit_of(published, "pl_a") == published
    assert limit_of(published, "pl_a/2") == further_limits_of(published)[0]
    assert limit_of(published, "pl_a/3") is None
    assert named_policies([]) == []


def test_usage_is_told_of_every_limit_that_may_refuse() -> None:
    guarded = policy("pl_b", per=["tenant"], boundary_guard=3)
    others = [
        policy("pl_c", shadow=True),
        policy("pl_d", per=["route"], algorithm="unlimited", capacity=None, window_ms=None),
    ]
    network = policy("pl_e", per=["network"])
    found = PolicySet([of_several(HOURLY), guarded, *others, network], 1).limits(PARTS)
    assert [(level.id_, level.policy.algorithm) for level in found] == [
        ("pl_a", "token_bucket"),
        ("pl_b", "fixed_window"),
        ("pl_a/2", "fixed_window"),
    ]
