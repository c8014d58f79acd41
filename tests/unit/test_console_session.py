"""Sessions of the console: what a cookie proves, for how long, and what a form's token proves."""

from __future__ import annotations

import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingress import limits
from ingress.console.session import Session, Sessions
from ingress.console.visit import inside as _inside
from ingress.http.cursors import Cursors
from ingress.identity.caller import Caller
from ingress.payments.console.search import clean, event_place
from schemas import errors, identity
from tests.each import each

SECRET = b"s" * 32


def caller(*scopes: str, expires_at: float = 10_000) -> Caller:
    return Caller(principal="m_1", subject="merchant:m_1", scopes=frozenset(scopes), expires_at=expires_at)


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> Sessions:
    return Sessions(SECRET, clock)


def test_a_cookie_is_read_back_by_any_process(sessions: Sessions, clock: Clock) -> None:
    session = sessions.opened(caller("operator", "payments:write"))
    assert Sessions(SECRET, clock).read(sessions.cookie(session)) == session
    assert session.scopes == ("operator",)  # nothing that the console has no use for


@pytest.mark.parametrize(("expires_at", "ends"), [(2_000, 2_000), (1e9, 1_000 + limits.CONSOLE_SESSION_S)])
def test_a_session_ends_with_its_token_or_sooner(
    sessions: Sessions, clock: Clock, expires_at: float, ends: float
) -> None:
    opened = sessions.opened(caller("operator", expires_at=expires_at))
    cookie = sessions.cookie(msgspec.structs.replace(opened, seen_at=ends - 1))  # somebody worked until then
    clock.now = ends - 1
    assert sessions.read(cookie).expires_at == ends
    clock.now = ends
    with pytest.raises(errors.Unauthenticated):
        sessions.read(cookie)


def test_a_session_ends_when_nothing_is_done_and_lives_while_somebody_works(sessions: Sessions, clock: Clock) -> None:
    """And never longer than it would have."""
    session = sessions.opened(caller("operator"))
    began, cookie = clock.now, sessions.cookie(session)
    clock.now = began + limits.CONSOLE_SEEN_S - 1
    assert sessions.renewed(session) is None
    clock.now = began + limits.CONSOLE_IDLE_S - 1
    renewed = sessions.renewed(sessions.read(cookie))
    assert renewed is not None
    assert renewed.expires_at == session.expires_at
    clock.now = began + limits.CONSOLE_IDLE_S
    with pytest.raises(errors.Unauthenticated):
        sessions.read(cookie)
    assert sessions.read(sessions.cookie(renewed)) == renewed
    clock.now = session.expires_at
    with pytest.raises(errors.Unauthenticated):
        sessions.read(sessions.cookie(msgspec.structs.replace(renewed, seen_at=clock.now)))


def test_a_token_without_a_scope_of_the_console_opens_nothing(sessions: Sessions) -> None:
    with pytest.raises(errors.Forbidden):
        sessions.opened(caller("payments:read", "payments:write"))
    assert not sessions.opened(caller("console:read")).may_decide
    assert sessions.opened(caller("operator")).may_decide


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_changed_cookie_proves_nothing(place: int, change: int) -> None:
    sessions = Sessions(SECRET, Clock())
    text = sessions.cookie(sessions.opened(caller("console:read")))
    raw = bytearray(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    raw[place % len(raw)] ^= change
    with pytest.raises(errors.Unauthenticated):
        sessions.read(base64.urlsafe_b64encode(bytes(raw)).rstrip(b"=").decode())


def test_what_other_keys_and_other_lists_signed_is_no_session(sessions: Sessions, clock: Clock) -> None:
    session = sessions.opened(caller("operator"))
    cursor = Cursors(SECRET).write("console", "millrace_console", {"id": "x"})
    for forged in (None, "", "x", "\u00e4", cursor, Sessions(b"t" * 32, clock).cookie(session), "a" * 5_000):
        with pytest.raises(errors.Unauthenticated):
            sessions.read(forged)


def test_a_form_is_of_one_session(sessions: Sessions) -> None:
    mine, other = (sessions.opened(caller("operator")) for _ in range(2))
    sessions.require_form_token(mine.id, sessions.form_token(mine.id))
    for given_token in ("", "0" * 64, sessions.form_token(other.id), sessions.form_token(mine.id)[:-1], "\u00e4"):
        with pytest.raises(errors.Forbidden):
            sessions.require_form_token(mine.id, given_token)


def test_a_session_says_nothing_secret(sessions: Sessions) -> None:
    assert set(Session.__struct_fields__) == {
        "id",
        "merchant",
        "subject",
        "scopes",
        "expires_at",
        "seen_at",
        "issued_at",
        "token_id",
    }


@each(
    "target",
    [
        None,
        "",
        "https://evil.example/console/",
        "//evil.example",
        "/consolex",
        "/console/\r\nX: y",
        "/console/\\evil",
        "/v1",
    ],
)
def test_nobody_is_sent_elsewhere(target: str | None) -> None:
    assert _inside(target) == "/console"


def test_an_event_id_names_its_place() -> None:
    place = event_place(identity.event_id("py", 7, 123_456))
    assert place is not None
    assert (place.partition, place.seq) == (7, 123_456)
    assert event_place("evt_1") is None


@pytest.mark.parametrize("text", ["x" * 257, "a\x00b", "a\nb", "\u202e"])
def test_what_can_be_no_name_is_not_searched(text: str) -> None:
    with pytest.raises(errors.InvalidCommand):
        clean(text)
