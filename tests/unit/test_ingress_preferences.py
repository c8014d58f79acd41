"""How long a caller waits is bounded, whatever it asks for."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from ingress import limits
from ingress.http.requests import preferences
from ingress.http.requests.preferences import Preferences
from schemas import errors
from tests.each import each


@each(
    ("fields", "expected"),
    [
        ([], Preferences()),
        (["wait=5"], Preferences(wait_s=5)),
        (["WAIT = 5"], Preferences(wait_s=5)),
        (['wait="5"; x=1'], Preferences(wait_s=5)),
        (["wait=500"], Preferences(wait_s=limits.RESULT_WAIT_MAX_S)),
        (["wait=5, wait=9"], Preferences(wait_s=5)),
        (["respond-async, wait=10"], Preferences(wait_s=10, respond_async=True)),
        (["return=minimal", "respond-async"], Preferences(respond_async=True)),
        (["wait=-1"], Preferences()),
        (["wait=abc, wait"], Preferences()),
        (["wait=\u0665"], Preferences()),
        ([",,;;=="], Preferences()),
    ],
)
def test_preferences(fields: list[str], expected: Preferences) -> None:
    """RFC 7240: unknown and unreadable preferences are ignored, the first of a name counts."""
    assert preferences.parse(fields) == expected


def test_what_was_applied_is_told() -> None:
    assert Preferences().applied() is None
    assert Preferences(wait_s=3).applied() == "wait=3"
    assert Preferences(wait_s=3, respond_async=True).applied() == "respond-async"


def test_a_wait_ends_with_the_deadline() -> None:
    assert preferences.wait_s(Preferences(), None) == limits.RESULT_WAIT_DEFAULT_S
    assert preferences.wait_s(Preferences(wait_s=0), None) == 0
    assert preferences.wait_s(Preferences(wait_s=20), 1_000) == (1_000 + limits.DEADLINE_GRACE_MS) / 1_000
    assert preferences.wait_s(Preferences(wait_s=1), 60_000) == 1


@pytest.mark.parametrize("text", ["0", "-5", "1.5", "soon", "", "9" * 12, str(limits.DEADLINE_MS_MAX + 1)])
def test_an_unreadable_deadline_is_refused(text: str) -> None:
    """Ignoring it would start a command that its caller gave up."""
    with pytest.raises(errors.MalformedRequest):
        preferences.deadline_ms(Headers({"X-Deadline-Ms": text}))


def test_a_deadline_is_read() -> None:
    assert preferences.deadline_ms(Headers({"X-Deadline-Ms": "250"})) == 250
    assert preferences.deadline_ms(Headers({})) is None
