"""Headless chromium for tests of pages, and windows that keep what the browser complained about."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import Error, sync_playwright

from tests.eventually import patient
from tests.servers import servers_missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext, Page, Playwright, ViewportSize

WAIT_MS = 1_000 * patient(15)
START_MS = 1_000 * patient(60)
DESK: Final[ViewportSize] = {"width": 1440, "height": 900}
PHONE: Final[ViewportSize] = {"width": 390, "height": 844}
#: the same browser without the windows of a desktop is there in a quarter of the time
_PROGRAMS: Final = ("chromium-headless-shell", "chromium")
#: nothing is drawn by a process of its own, and of the rules only what is run is compiled: a third less of a core for a page
_ARGUMENTS: Final = (
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--in-process-gpu",
    "--js-flags=--max-lazy",
)
#: what playwright writes of a browser that a signal ended
_DIED: Final = re.compile(r"process did exit: exitCode=null, signal=SIG")
#: a page that was refused on purpose is named by its status
EXPECTED = "Failed to load resource: the server responded"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Debian's chromium; a laptop without it skips, CI installs it."""
    found = program()
    with sync_playwright() as playwright:
        browser = launched(playwright, found)
        yield browser
        browser.close()


def program() -> str:
    """The browser of this machine; without one the test is skipped, or fails where it must not be."""
    found = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if found is None:
        servers_missing("there is no chromium on this machine")
    return found


def launched(playwright: Playwright, path: str) -> Browser:
    """The browser, started once more when a signal ended it at its launch. Raises playwright's Error for all else.

    Debian's headless shell dies of a segmentation fault now and then, before it has opened anything of ours.
    """
    try:
        return _launched(playwright, path)
    except Error as error:
        if not _DIED.search(str(error)):
            raise
    return _launched(playwright, path)


def _launched(playwright: Playwright, path: str) -> Browser:
    return playwright.chromium.launch(executable_path=path, args=_ARGUMENTS, timeout=START_MS)


class Window:
    """A browser window of one person, which keeps all that the browser complained about."""

    def __init__(self, chromium: Browser, base_url: str, **options: Any) -> None:
        self.context: BrowserContext = chromium.new_context(base_url=base_url, **options)
        self.context.set_default_timeout(WAIT_MS)
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))

    def close(self) -> list[str]:
        """What it complained about, but for pages that were refused on purpose."""
        self.context.close()
        return [text for text in self.complaints if not text.startswith(EXPECTED)]


def fits(page: Page) -> bool:
    """Whether the page scrolls sideways neither on a phone nor on a desk. The window has the size of before at the end."""
    before = page.viewport_size
    overhangs = []
    for size in (PHONE, DESK):
        page.set_viewport_size(size)
        overhangs.append(page.evaluate("document.documentElement.scrollWidth - innerWidth"))
    if before is not None:
        page.set_viewport_size(before)
    return max(overhangs) <= 0
