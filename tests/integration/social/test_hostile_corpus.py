"""Trap 10: whatever hostile media are, nothing is served of them, or pictures that have nothing of their source but pixels."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from PIL import Image

from dataflows.social.media.rendering import Rendition, render
from dataflows.social.media.sandboxes import Sandboxes, Undecided
from schemas.social import limits
from tests.gate import RUN_SEED, examples
from tests.unit.social.hostile_corpus import SCRIPT, Hostile, corpus
from tests.unit.social.hostile_media import MARK, objects_in

_MUTANTS: Final = examples(gate=1, proof=60)
_EVERY: Final = examples(gate=10, proof=1)  # of the wrong types, which are all alike
_AT_ONCE: Final = 2


def wrong_with(sandboxes: Sandboxes, case: Hostile) -> str | None:
    """What is not as it must be; None when all is."""
    with tempfile.TemporaryDirectory(prefix="millrace-hostile-") as place:
        folder = Path(place)
        source, work, kept = folder / "source", folder / "work", folder / "renditions" / "md_1"
        source.write_bytes(case.data)
        work.mkdir()
        try:
            made = render(sandboxes, objects_in(folder), "md_1", source, case.mime, work)
        except Undecided:  # often enough, it is refused
            made = None
        if made is None:
            return "kept" if kept.exists() else "refused" if case.outcome == "clean" else None
        if case.outcome == "refused":
            return "served"
        unclean = (_unclean(one, kept / one.name) for one in made)
        return next((reason for reason in unclean if reason), None)


def _unclean(one: Rendition, path: Path) -> str | None:
    data = path.read_bytes()
    if (
        MARK in data
        or SCRIPT in data
        or any(tag in data for tag in (b"EXIF", b"Exif", b"XMP ", b"ICCP", b"PK\x05\x06"))
    ):
        return f"{one.name} has something of its source"
    with Image.open(path) as image:
        if image.getexif() or image.info.get("icc_profile") or max(image.size) > limits.MEDIA_FULL_PIXELS:
            return f"{one.name} has tags, or is too large"
        if image.format != "WEBP" or image.size != (one.width, one.height):
            return f"{one.name} is not what it says"
    return None


def test_every_hostile_medium_is_refused_or_clean() -> None:
    found_all = enumerate(corpus(RUN_SEED, _MUTANTS))
    cases = [case for n, case in found_all if "-as-" not in case.name or (n + RUN_SEED) % _EVERY == 0]
    with Sandboxes() as warm, ThreadPoolExecutor(_AT_ONCE) as pool:
        found = dict(zip((case.name for case in cases), pool.map(partial(wrong_with, warm), cases), strict=True))
    assert {name: wrong for name, wrong in found.items() if wrong} == {}
    assert len(found) >= 30
