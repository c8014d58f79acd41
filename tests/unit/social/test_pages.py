"""Pages without a server: what a cookie proves, what a text becomes, and what no template may hold."""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from ingress.identity.caller import Caller
from ingress.social.pages import rendering
from ingress.social.pages.session import Sessions
from ingress.social.pages.visit import inside
from schemas import errors
from schemas.social import limits
from tests.each import each

SECRET = b"s" * 32
NOW = 1_000.0


def caller(principal: str = "user:u_1", *scopes: str, expires_at: float = 1e9) -> Caller:
    return Caller(principal=principal, subject=principal, scopes=frozenset(scopes), expires_at=expires_at)


def sessions(now: float = NOW, secret: bytes = SECRET) -> Sessions:
    return Sessions(secret, lambda: now)


def test_a_session_is_of_its_user_and_ends_with_its_token_or_sooner() -> None:
    opened = sessions().opened(caller("user:u_1", "posts:read", "posts:write", "payments:read"))
    assert (opened.user, opened.scopes, opened.may_write) == ("u_1", ("posts:read", "posts:write"), True)
    assert opened.expires_at == NOW + limits.APP_SESSION_S
    cookie = sessions().cookie(sessions().opened(caller("user:u_1", "posts:read", expires_at=NOW + 5)))
    assert sessions(NOW + 4).read(cookie).may_write is False
    for wrong, cookie_of in ((sessions(NOW + 5), cookie), (sessions(secret=b"t" * 32), cookie), (sessions(), "AAAA")):
        with pytest.raises(errors.Unauthenticated):
            wrong.read(cookie_of)


@pytest.mark.parametrize("who", [caller("m_1", "posts:read"), caller("tenant:t", "posts:read"), caller("user:u_1")])
def test_nobody_else_has_a_session(who: Caller) -> None:
    with pytest.raises(errors.Forbidden):
        sessions().opened(who)


def test_a_forms_token_is_of_one_holder() -> None:
    tokens = sessions().form_tokens
    tokens.require("one", tokens.of("one"))
    for given_token in ("", tokens.of("other"), tokens.of("one")[:-1], "\u00e9"):
        with pytest.raises(errors.Forbidden):
            tokens.require("one", given_token)


@given(st.text(max_size=80).map(lambda text: f'{text} <b>@u_1</b> https://a.example/?x=1&y="<{text}'))
def test_what_a_text_becomes_holds_nothing_but_links_and_the_text(text: str) -> None:
    made = str(rendering.linked(text))
    plain = re.sub(r'<a href="(?:/app/users/[A-Za-z0-9_-]+|https?://[^"<>\s]+" rel="[a-z ]+)">|</a>', "", made)
    assert plain == str(escape(text))


@each(
    ("target", "goes"),
    [
        ("/app/posts/po_1", "/app/posts/po_1"),
        ("/app#po_1", "/app#po_1"),
        (None, "/app"),
        ("//evil.example/app", "/app"),
        ("/application", "/app"),
        ("https://evil.example/app", "/app"),
        ("/app/\\evil", "/app"),
        ("/app/\r\nSet-Cookie: a=b", "/app"),
    ],
)
def test_a_way_back_leads_nowhere_else(target: str | None, goes: str) -> None:
    assert inside(target) == goes


def test_what_came_of_an_appeal_is_said_and_none_is_offered_again() -> None:
    marks: Any = rendering._environment.get_template("marks.html").module
    one = {"decision": "remove", "reason": "No.", "policy_version": 1, "decision_id": "mo_1"}

    def said(appeal: str | None) -> str:
        return str(marks.decision(one, appeal, True, "t", "k", "/app/decisions/mo_1/appeal"))

    assert "<form" in said(None)
    outcomes = {"open": "will look at it", "upheld": "stands", "reversed": "taken back"}
    for state, words in outcomes.items():
        assert [one for one in outcomes.values() if one in said(state)] == [words]
        assert "<form" not in said(state)


def test_a_page_takes_the_film_that_is_as_wide_as_it_and_the_largest_where_none_is() -> None:
    marks: Any = rendering._environment.get_template("marks.html").module
    films = [
        {"url": f"/r/film{height}.mp4", "width": width, "height": height, "mime": "video/mp4"}
        for width, height in ((426, 240), (852, 480), (1280, 720))
    ]
    poster = {"url": "/r/poster.webp", "width": 1280, "height": 720, "mime": "image/webp"}
    post = {"author_id": "u_1", "media": [{"media_id": "md_1", "renditions": [poster, *films]}]}
    said = str(marks.media(post))
    assert re.findall(r'<source src="([^"]+)" type="video/mp4"(?: media="([^"]+)")?>', said) == [
        ("/r/film240.mp4", "(max-width: 426px)"),
        ("/r/film480.mp4", "(max-width: 852px)"),
        ("/r/film720.mp4", ""),
    ]
    assert 'poster="/r/poster.webp" width="1280" height="720"' in said


def test_no_template_holds_a_script_a_style_or_what_is_not_escaped() -> None:
    folder = resources.files("ingress.social.pages") / "templates"
    texts = {entry.name: entry.read_text() for entry in folder.iterdir()}
    assert "layout.html" in texts
    wrong = re.compile(
        r"<style|<script(?![^>]* src=\"/app/static/)|\s(?:style|on\w+)=|\|\s*safe|autoescape|javascript:"
    )
    assert {name: found[0] for name, text in texts.items() if (found := wrong.search(text))} == {}
