"""Aliases of a key are one key, and what can be no key is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limiter.policy.keys import key_parts, limit_key, normal_route, parts_of
from schemas import errors
from schemas.limiter import limits
from schemas.limiter.limit_policy import as_policy
from schemas.limiter.operations import OPERATIONS
from tests.each import each


@each(
    ("alias", "route"),
    [
        ("/a%20b", "/a b"),
        ("/a%2520b", "/a b"),
        ("/a b/", "/a b"),
        ("/./a b", "/a b"),
        ("//a b", "/a b"),
        ("/x/../a b", "/a b"),
        ("/../a b", "/a b"),
        ("/a%20b?q=1#f", "/a b"),
        ("/caf%C3%A9", "/caf\u00e9"),
        ("/cafe\u0301", "/caf\u00e9"),
        ("/", "/"),
        ("GetUser", "GetUser"),
    ],
)
def test_aliases_of_a_route_are_one(alias: str, route: str) -> None:
    assert normal_route(alias) == route


@pytest.mark.parametrize(
    "part", ["", "\x00", "a\nb", "%00", "%zz%ff", "x" * (limits.LIMIT_KEY_PART_LENGTH_MAX + 1), "\ud800"]
)
def test_what_can_be_no_key_is_refused(part: str) -> None:
    with pytest.raises(errors.InvalidCommand):
        key_parts(part, "u", "/r")


def test_a_name_that_is_encoded_again_and_again_is_refused() -> None:
    with pytest.raises(errors.InvalidCommand):
        key_parts("t", "u", "/%" + "25" * 9 + "41")


words = st.text(
    st.characters(min_codepoint=33, max_codepoint=0x2FF, exclude_characters="%\x7f"), min_size=1, max_size=20
)


@given(tenant=words, user=words, route=words)
def test_a_key_names_its_parts(tenant: str, user: str, route: str) -> None:
    """No colon of a tenant or user moves a part into the next: two callers never share a counter by their names."""
    parts = key_parts(tenant, user, f"/{route}")
    assert parts_of(limit_key(parts)) == parts


aliases = st.text(st.sampled_from("/a.%2E5Fe\u0301\u00e9?# *bB3"), min_size=1, max_size=24)


@given(alias=aliases)
def test_a_normal_form_is_its_own_and_a_policy_for_an_alias_governs_the_key(alias: str) -> None:
    scope = {"tenant": "t", "user": "*", "route": alias}
    payload = {"scope": scope, "algorithm": "deny"}
    found, wrong = OPERATIONS["publish_policy"].normalize(payload)
    try:
        parts = key_parts("t", "u", alias)
    except errors.InvalidCommand:
        assert [error["field"] for error in wrong] == ["payload.scope"]
        return
    assert key_parts("t", "u", parts["route"]) == parts == parts_of(limit_key(parts))
    if parts["route"] == "*":
        assert bool(wrong) == (alias != "*")  # every route is asked for by its own name only
        return
    assert as_policy(found, "pl_a", 1).scope.covers(parts)


def test_a_policy_for_an_alias_of_a_tenant_governs_the_tenant() -> None:
    scope = {"tenant": "%74", "user": "cafe\u0301", "route": "/adm%69n/"}
    found, wrong = OPERATIONS["publish_policy"].normalize({"scope": scope, "algorithm": "deny"})
    assert (found["scope"], wrong) == ({"tenant": "t", "user": "caf\u00e9", "route": "/admin"}, [])


@each("name", ["tenant", "user", "route"])
@each("text", ["%00", "%ff", "%2A", "%252a", "/%" + "25" * 9 + "41", "x" * 10_240])
def test_a_scope_that_is_no_key_or_every_key_by_another_name_is_refused(name: str, text: str) -> None:
    scope = {"tenant": "t", "user": "*", "route": "*"} | {name: text}
    _, wrong = OPERATIONS["publish_policy"].normalize({"scope": scope, "algorithm": "deny"})
    assert [(error["field"], error["reason"].startswith(name)) for error in wrong] == [("payload.scope", True)]
