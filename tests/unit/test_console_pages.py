"""What pages say of values, and that nothing of a stranger's becomes markup; the vendored script is the pinned one."""

from __future__ import annotations

import hashlib
import re
import time
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingress.console import pages
from ingress.console.declared import ConsolePages, Guests, place
from ingress.console.state import Console
from ingress.http.parts import Parts
from ingress.http.store import Store
from ingress.identity.caller import Caller
from ingress.identity.denials import Denials
from ingress.services import CONSOLE_PAGES
from schemas.fields.currency import EXPONENTS, parse_minor
from sinks.kafka.connection import KafkaConnection
from tests.each import each

CONSOLE = Path(pages.__file__).parent
PACKAGES = [CONSOLE, *(files(found.package) for found in CONSOLE_PAGES)]
TEMPLATES = [Path(str(file)) for package in PACKAGES for file in (package / "templates").iterdir()]
NOW = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)


@each(
    ("amount", "currency", "text"),
    [
        (109_950, "USD", "1,099.50"),
        (-7, "USD", "\u22120.07"),
        (0, "USD", "0.00"),
        (5_000, "JPY", "5,000"),
        (1_234_567, "BHD", "1,234.567"),
        (1_234_567, "CLF", "123.4567"),
        (1_234, None, "1,234"),
        (1_234, "???", "1,234"),
        (None, "USD", "\u2014"),
    ],
)
def test_an_amount_has_the_decimals_of_its_currency(amount: int | None, currency: str | None, text: str) -> None:
    assert pages.money(amount, currency) == text


@given(st.integers(-(10**30), 10**30), st.sampled_from(sorted(EXPONENTS)))
def test_an_amount_can_be_read_back(amount: int, currency: str) -> None:
    """Also sums that have more than 64 bits: no float is on the way."""
    text = pages.money(amount, currency).replace(",", "").replace("\u2212", "-")
    assert parse_minor(text, currency) == amount


@pytest.mark.parametrize(
    ("before", "text"),
    [
        (timedelta(seconds=5), "5 s"),
        (timedelta(minutes=59, seconds=59), "59 min"),
        (timedelta(hours=23), "23 h"),
        (timedelta(days=400), "400 d"),
        (timedelta(minutes=-3), "in 3 min"),
    ],
)
def test_an_age_has_one_unit(before: timedelta, text: str) -> None:
    assert pages.age(NOW - before, NOW) == text


def test_the_absolute_time_is_in_utc() -> None:
    assert pages.stamp(NOW) == "2026-01-02 03:04:05.678 UTC"


@each("template", TEMPLATES)
def test_templates_leave_escaping_alone_and_have_nothing_inline(template: Path) -> None:
    """The policy would refuse it in the browser; here it is refused before."""
    text = template.read_text()
    assert not re.search(
        r"\|\s*safe\b|autoescape|Markup|<style|\sstyle=|\son[a-z]+=|javascript:|hx-on|hx-vals=.js", text
    )
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))
    forms = re.findall(r"<form[^>]*method=\"post\".*?</form>", text, re.DOTALL)
    assert all("parts.token(form_token)" in form for form in forms)


def test_no_template_hides_that_of_another_service() -> None:
    names = [template.name for template in TEMPLATES]
    assert len(names) == len(set(names)) > len(list((CONSOLE / "templates").iterdir()))


def test_navigation_shows_each_service_in_its_place_and_guests_their_own_alone() -> None:
    keys = [place.key for found in CONSOLE_PAGES for place in found.places]
    assert len(keys) == len(set(keys))
    places = [place("a", "/console/a", "A")]
    guests = Guests(name="guest", scope="guest", home="/console/g", admits=lambda _: True)
    theirs = [place("g", "/console/g", "G")]
    declared = [
        ConsolePages(
            package="ingress.social.console", routers=(), places=places, searches=True, warning=lambda _: "beware"
        ),
        ConsolePages(package="ingress.tenancy.console", routers=(), places=theirs, guests=guests, warning=lambda _: ""),
    ]
    store = Store("", synchronous_commit="on", packages=(), pool_max=1)  # is not opened
    console = Console("", b"k" * 32, KafkaConnection(bootstrap="localhost:1"), declared, Denials(store))
    staff, guest = (
        Caller(principal="m", subject="p", scopes=frozenset({scope}), expires_at=time.time() + 60)
        for scope in ("operator", "guest")
    )
    frame = console.frame(console.sessions.opened(staff), Parts())
    assert (frame["role"], frame["searches"], frame["warnings"]) == ("operator", True, ["beware"])
    assert [found.name for found in frame["places"]] == ["A", "Pipeline"]
    frame = console.frame(console.sessions.opened(guest), Parts())
    assert (frame["role"], frame["searches"]) == ("guest", False)
    assert [found.name for found in frame["places"]] == ["G"]


@given(st.text(max_size=60))
def test_text_stays_text(text: str) -> None:
    """Whatever an error says of what a stranger sent."""
    answer = pages.Templates().html(
        "part_error.html", {"status": 404, "error": type("Error", (), {"public": f"<b>{text}</b>"})(), "session": None}
    )
    assert b"&lt;b&gt;" in answer.body
    assert bytes(answer.body).count(b"<") == 4  # the page's own: p, b, and their ends


def test_htmx_is_the_pinned_file() -> None:
    """The digest in README.md is that of the file; its version is named beside it."""
    readme = (CONSOLE / "README.md").read_text()
    digest = hashlib.sha256((CONSOLE / "static" / "htmx.min.js").read_bytes()).hexdigest()
    assert f"`{digest}`" in readme
    named = re.search(r"htmx ([0-9]+\.[0-9]+\.[0-9]+)", readme)
    assert named
    assert f'version:"{named[1]}"'.encode() in (CONSOLE / "static" / "htmx.min.js").read_bytes()


def test_evidence_is_read_as_it_was_meant() -> None:
    """Amounts have decimals, ids lead somewhere, what is nested is JSON; a stranger's text stays text."""
    render = (
        pages.Templates()
        ._environment.from_string(
            '{% import "parts.html" as parts %}{% for n, v in e.items() %}{{ parts.evidence(n, v, e.currency) }}|{% endfor %}'
        )
        .render
    )
    text = render(
        e={"amount": 70_001, "sent": 3, "payment": "pi_abc", "reasons": [{"x": None}], "note": "<b>", "currency": "EUR"}
    )
    amount, sent, payment, reasons, note, _, _ = text.split("|")
    assert '<span class="amount">700.01</span>' in amount
    assert (sent, note) == ("3", "&lt;b&gt;")
    assert 'href="/console/search?q=pi_abc"' in payment
    assert reasons == "[{&#34;x&#34;: null}]"
    said = [{"rule": "large", "detail": "<i>", "shadow": False}, {"rule": "r", "detail": "d", "shadow": True}]
    assert render(e={"reasons": said, "currency": None}) == "large: &lt;i&gt;; r: d (shadow)|null|"
