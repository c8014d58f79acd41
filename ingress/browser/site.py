"""What is told apart of pages of one kind and those of another: where they are, and what their cookies are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

THEMES: Final = ("light", "dark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One kind of pages. Browsers send its cookies to ``home`` and what lies below, and nowhere else."""

    home: str
    cookie: str  # of the session
    visitor: str  # of who has not signed in yet: binds the form tokens of the sign-in page to one browser
    theme: str  # light, dark, or none: then the system's
    failed: str  # how the log calls an answer that we could not give
    package: str  # whose folder ``static`` has the files that pages load
    file_headers: Mapping[str, str]
    redirect_headers: Mapping[str, str]
    form_bytes_max: int
    form_fields_max: int
    back_follows: tuple[str, ...] = ("/",)  # what stands behind ``home`` where a way back is of this site

    @property
    def sign_in(self) -> str:
        """Where a session begins."""
        return f"{self.home}/sign-in"

    def sign_in_for(self, request: Request) -> str:
        """There, with the way back to what was asked for; what a form would have done, is not done later."""
        return f"{self.sign_in}?next={quote(request.url.path if request.method == 'GET' else self.home)}"

    def inside(self, target: str | None) -> str:
        """A path of these pages, never an address elsewhere."""
        if target is None or not target.isprintable() or "\\" in target:
            return self.home
        is_inside = target.startswith(tuple(f"{self.home}{mark}" for mark in self.back_follows))
        return target if is_inside else self.home

    def go(self, target: str) -> Response:
        """The browser goes on there, and asks anew."""
        return RedirectResponse(target, 303, self.redirect_headers)
