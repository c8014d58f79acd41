"""Signing in at the console, signing out, the theme, and the console's files."""

from __future__ import annotations

from typing import Final

from ingress import limits
from ingress.browser.sign_in import SignIn
from ingress.console import pages
from ingress.console.visit import Visit

_KEPT: Final = {"Cache-Control": f"max-age={limits.CONSOLE_STATIC_KEPT_S}"}

router: Final = SignIn(Visit, "ingress.console", pages.HEADERS | _KEPT).router()
