"""What pages say of values, and that nothing of a stranger's becomes markup; the vendored script is the pinned one."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingress.console import pages
from schemas.currency import EXPONENTS, parse_minor

CONSOLE = Path(pages.__file__).parent
NOW = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("template", sorted(path.name for path in (CONSOLE / "templates").iterdir()))
def test_templates_leave_escaping_alone_and_have_nothing_inline(template: str) -> None:
    """The policy would refuse it in the browser; here it is refused before."""
    text = (CONSOLE / "templates" / template).read_text()
    assert not re.search(
        r"\|\s*safe\b|autoescape|Markup|<style|\sstyle=|\son[a-z]+=|javascript:|hx-on|hx-vals=.js", text
    )
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))
    forms = re.findall(r"<form[^>]*method=\"post\".*?</form>", text, re.DOTALL)
    assert all("parts.token(form_token)" in form for form in forms)


@given(st.text(max_size=60))
def test_text_stays_text(text: str) -> None:
    """Whatever an error says of what a stranger sent."""
    answer = pages.html(
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
    render = pages._environment.from_string(
        '{% import "parts.html" as parts %}{% for n, v in e.items() %}{{ parts.evidence(n, v, e.currency) }}|{% endfor %}'
    ).render
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
