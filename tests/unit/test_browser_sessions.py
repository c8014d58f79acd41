"""Sessions of different pages in one process: under one secret, and none proves anything to another."""

from __future__ import annotations

from itertools import permutations

import pytest

from ingress.browser import session
from ingress.browser.session import SignedIn
from ingress.console.session import Sessions as OfConsole
from ingress.console.state import Console
from ingress.identity.caller import Caller
from ingress.social.pages.session import Pages
from ingress.social.pages.session import Sessions as OfUsers
from schemas import errors

SECRET = b"s" * 32
NOW = 1_000.0


def caller() -> Caller:
    scopes = frozenset({"operator", "posts:read"})
    return Caller(principal="user:u_1", subject="user:u_1", scopes=scopes, expires_at=1e9, issued_at=7, token_id="t_1")


class Person(session.Session, frozen=True, kw_only=True):
    principal: str


class Sessions(session.Sessions[Person]):
    def __init__(self, owner: str, cookie: str, purpose: bytes) -> None:
        super().__init__(Person, owner, cookie, SECRET, purpose, lambda: NOW)

    def opened(self, caller: Caller) -> Person:
        return Person(**self.begun(caller, ("posts:read",), 60), principal=caller.principal)


def test_a_cookie_is_of_one_purpose_one_owner_and_one_name() -> None:
    """Also where both would read the same fields."""
    mine = Sessions("o", "c", b"p")
    cookie = mine.cookie(mine.opened(caller()))
    assert Sessions("o", "c", b"p").read(cookie).caller() == Caller(
        principal="user:u_1",
        subject="user:u_1",
        scopes=frozenset({"posts:read"}),
        expires_at=NOW + 60,
        issued_at=7,
        token_id="t_1",
    )
    for other in (Sessions("o", "c", b"q"), Sessions("o", "d", b"p"), Sessions("p", "c", b"p")):
        with pytest.raises(errors.Unauthenticated):
            other.read(cookie)
    with pytest.raises(errors.Forbidden):
        Sessions("o", "c", b"q").require_form_token("x", mine.form_token("x"))


def test_neither_of_console_and_pages_takes_what_the_other_made() -> None:
    both = (OfConsole(SECRET, lambda: NOW), OfUsers(SECRET, lambda: NOW))
    for one, other in permutations(both):
        with pytest.raises(errors.Unauthenticated):
            other.read(one.cookie(one.opened(caller())))  # type: ignore[arg-type]
        with pytest.raises(errors.Forbidden):
            other.require_form_token("x", one.form_token("x"))


def test_a_signed_cookie_of_another_form_is_no_session() -> None:
    """As a release with other fields might write it."""
    written = OfConsole(SECRET)._signer.write("console", "millrace_console", {"id": "x"})
    with pytest.raises(errors.Unauthenticated):
        OfConsole(SECRET).read(written)


def test_cookies_keep_the_names_of_their_fields() -> None:
    """Processes of two releases serve the same browsers while an upgrade goes round."""
    of_all = {"id", "subject", "scopes", "expires_at", "issued_at", "token_id"}
    assert set(OfConsole(SECRET).opened(caller()).__struct_fields__) == of_all | {"merchant", "seen_at"}
    assert set(OfUsers(SECRET).opened(caller()).__struct_fields__) == of_all | {"principal"}


def test_what_is_said_of_a_session_holds_no_cookie_and_no_form_token() -> None:
    sessions = OfConsole(SECRET)
    opened = sessions.opened(caller())
    for secret in (sessions.cookie(opened), sessions.form_token(opened.id), repr(SECRET)):
        assert secret not in f"{opened!r} {sessions!r} {vars(sessions)!r}"


def test_each_kind_of_pages_keeps_its_own_ends() -> None:
    kept = [(kind.ended_query, kind.end_query) for kind in SignedIn.__subclasses__()]
    assert {Console, Pages} <= set(SignedIn.__subclasses__())
    assert len({name for names in kept for name in names}) == 2 * len(kept)
