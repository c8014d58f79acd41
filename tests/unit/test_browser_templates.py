"""What all pages begin and end with: nothing inline, every form with its token, every value escaped."""

from __future__ import annotations

import re
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
import pytest

from ingress.browser.rendering import environment
from ingress.console import pages
from ingress.console.visit import SITE as CONSOLE
from ingress.services import CONSOLE_PAGES
from ingress.social.pages import rendering
from ingress.social.pages.visit import SITE as USERS
from schemas.social.media_origin import MediaOrigin

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response

    from ingress.browser.site import Site

TEMPLATES = {entry.name: entry.read_text() for entry in (resources.files("ingress.browser") / "templates").iterdir()}
HOSTILE = "\"'><script>alert(1)</script>"
MEDIA = MediaOrigin(url="http://media.example", uploads_url="http://parts.example", key=b"k", folder=Path("none"))
ESCAPED = "&#34;&#39;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"


def test_no_template_holds_a_script_a_style_or_what_is_not_escaped() -> None:
    wrong = re.compile(r"<script|<style|\s(?:style|on\w+)=|\|\s*safe|autoescape|javascript:")
    assert "document.html" in TEMPLATES
    assert {name: found[0] for name, text in TEMPLATES.items() if (found := wrong.search(text))} == {}
    forms = re.findall(r"<form.*?</form>", "".join(TEMPLATES.values()), re.DOTALL)
    assert forms
    assert all('method="post"' in form and 'name="form_token" value="{{ form_token }}"' in form for form in forms)


@pytest.mark.parametrize(
    ("site", "html"),
    [
        (CONSOLE, pages.Templates().html),
        (USERS, partial(rendering.html, media=MEDIA)),
    ],
    ids=["console", "users"],
)
def test_the_sign_in_says_what_it_is_told_as_text_and_has_one_of_each(
    site: Site, html: Callable[..., Response]
) -> None:
    """Of document, head and form, whatever the templates of these pages put in between."""
    told = dict.fromkeys(("theme", "form_token", "next", "problem"), HOSTILE)
    text = bytes(
        html("sign_in.html", {"site": site, "session": None, "here": "", "at_issuer": True} | told).body
    ).decode()
    assert text.count(ESCAPED) == len(told)
    assert "issuer?next=%22%27%3E%3Cscript" in text
    assert "alert(1)</script>" not in text
    for once in (
        "<!doctype html>",
        "<title>Sign in",
        '<meta name="viewport"',
        'rel="stylesheet"',
        '<main id="main"',
        "</html>",
    ):
        assert text.count(once) == 1
    assert "<header" not in text


def test_a_value_that_nobody_gave_is_an_error_and_no_gap() -> None:
    with pytest.raises(jinja2.UndefinedError):
        environment().get_template("sign_in_form.html").render(site=USERS, problem=None, next="/app")


def test_no_kind_of_pages_has_a_template_of_the_same_name() -> None:
    """It would be read in place of this one."""
    packages = ["ingress.console", "ingress.social.pages", *(found.package for found in CONSOLE_PAGES)]
    names = {entry.name for package in packages for entry in (resources.files(package) / "templates").iterdir()}
    assert names & TEMPLATES.keys() == set()
