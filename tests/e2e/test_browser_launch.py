"""The browser of these tests is started once more when it dies at its launch, and for no other reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Error, sync_playwright

from tests.worlds.browser import launched, program

if TYPE_CHECKING:
    from pathlib import Path

DIES = "kill -SEGV $$"


def faked(folder: Path, ends: str, times: int) -> Path:
    """A program that ends so at its first starts, and is the browser from then on; it notes each start."""
    path = folder / "browser"
    starts = folder / "starts"
    path.write_text(
        f'#!/bin/sh\necho >> {starts}\n[ $(wc -l < {starts}) -gt {times} ] || {ends}\nexec {program()} "$@"\n'
    )
    path.chmod(0o755)
    return path


def starts(folder: Path) -> int:
    return len((folder / "starts").read_text().splitlines())


def test_a_browser_that_dies_at_its_launch_is_started_once_more(tmp_path: Path) -> None:
    path = faked(tmp_path, DIES, 1)
    with sync_playwright() as playwright:
        browser = launched(playwright, str(path))
        page = browser.new_page()
        page.set_content("<title>alive</title>")
        assert page.title() == "alive"
        browser.close()
    assert starts(tmp_path) == 2


@pytest.mark.parametrize(("ends", "times"), [(DIES, 2), ("exit 1", 1)])
def test_a_browser_that_dies_again_or_cannot_start_is_told(tmp_path: Path, ends: str, times: int) -> None:
    path = faked(tmp_path, ends, times)
    with sync_playwright() as playwright, pytest.raises(Error, match="process did exit"):
        launched(playwright, str(path))
    assert starts(tmp_path) == times
