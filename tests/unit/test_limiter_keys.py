"""Aliases of a key are one key, and what can be no key is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limiter.keys import key_parts, limit_key, normal_route, parts_of
from schemas import errors, limits


@pytest.mark.parametrize(
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
