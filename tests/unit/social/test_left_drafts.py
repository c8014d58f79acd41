"""What an edge leaves that is killed while parts come in: it goes at once, and nothing of those that go on."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

from ingress.social.media.origin import Origin
from schemas.social import limits
from schemas.social.media_origin import MediaOrigin
from sinks.objects import held_files
from sinks.objects.media_objects import media_objects, part_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DATA: Final = b"half of it"
_WRITES: Final = """
import sys
from pathlib import Path
from schemas.social.media_origin import MediaOrigin
from sinks.objects.media_objects import media_objects
draft = media_objects(MediaOrigin(url="", uploads_url="", key=b"k" * 32, folder=Path(sys.argv[1]))).draft(100)
draft.write(b"half of it")
draft._file.flush()
print("written", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path) -> MediaOrigin:
    return MediaOrigin(url="", uploads_url="", key=b"k" * 32, folder=tmp_path)


@pytest.fixture
def other_edge(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process, in the midst of a part."""
    command = [sys.executable, "-c", _WRITES, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        yield process
        process.kill()


def drafts(place: MediaOrigin) -> int:
    return len(list((place.folder / "drafts").iterdir()))


def test_an_edge_that_starts_takes_away_what_a_killed_one_left(
    place: MediaOrigin, other_edge: subprocess.Popen[bytes]
) -> None:
    async def restarted() -> int:
        origin = Origin("postgresql://127.0.0.1:1/nowhere", place)
        await origin.start()
        await origin.close()
        return drafts(place)

    assert asyncio.run(restarted()) == 1, "another edge is writing it"
    other_edge.kill()
    other_edge.wait()
    assert asyncio.run(restarted()) == 0


def test_what_is_being_written_is_kept_whoever_looks(place: MediaOrigin, other_edge: subprocess.Popen[bytes]) -> None:
    mine, others = media_objects(place), media_objects(place)
    with mine.draft(len(DATA)) as draft:
        draft.write(DATA)
        others.forget_left_drafts()
        assert draft.keep(part_key("md_1", 1), hashlib.sha256(DATA).hexdigest())
        others.forget_left_drafts()
    assert mine.holds("md_1", "a" * 64)
    assert drafts(place) == 1, "that of the other edge"
    assert other_edge.poll() is None


def test_a_draft_that_is_taken_for_a_left_one_before_it_is_held_is_made_again(
    place: MediaOrigin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its first two steps nobody holds it."""
    mine, others, flock, interrupted = media_objects(place), media_objects(place), fcntl.flock, [False]

    def interrupting(*given: Any) -> None:
        if not interrupted[0]:
            interrupted[0] = True
            others.forget_left_drafts()
        flock(*given)

    monkeypatch.setattr(held_files.fcntl, "flock", interrupting)
    with mine.draft(len(DATA)) as draft:
        draft.write(DATA)
        assert draft.keep(part_key("md_1", 1), hashlib.sha256(DATA).hexdigest())
    assert mine.holds("md_1", "a" * 64)


def test_without_locks_a_draft_goes_an_hour_after_its_last_byte(
    place: MediaOrigin, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(*_: object) -> None:
        raise OSError("no locks here")

    with monkeypatch.context() as lockless:
        lockless.setattr(held_files.fcntl, "flock", refusing)
        objects = media_objects(place)
        draft = objects.draft(len(DATA))
        objects.forget_left_drafts()
    assert drafts(place) == 1
    objects.forget_left_drafts()
    assert drafts(place) == 1, "it may be that of another machine"
    (left,) = (place.folder / "drafts").iterdir()
    os.utime(left, (left.stat().st_mtime - limits.MEDIA_DRAFT_S - 1,) * 2)
    objects.forget_left_drafts()
    assert drafts(place) == 0
    with draft:
        pass
