"""Signing in at the pages, signing out, the theme, and the pages' files."""

from __future__ import annotations

from typing import Final

from ingress.browser import protection
from ingress.browser.sign_in import SignIn
from ingress.social.pages.visit import Visit
from schemas.social import limits

_KEPT: Final = {"Cache-Control": f"max-age={limits.APP_STATIC_KEPT_S}"}

router: Final = SignIn(Visit, "ingress.social.pages", protection.headers("default-src 'none'") | _KEPT).router()
