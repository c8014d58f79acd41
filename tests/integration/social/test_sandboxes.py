"""Media that one sandbox decodes one after the other: whatever one of them does, it does to no other, and to no file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from dataflows.social.media import sandboxes as warm
from dataflows.social.media.rendering import is_refused
from dataflows.social.media.sandbox import UNDECODABLE, Order
from dataflows.social.media.sandboxes import Killed, Sandboxes, Undecided
from schemas.social import limits
from tests.eventually import eventually
from tests.unit.social.hostile_media import png

if TYPE_CHECKING:
    from collections.abc import Iterator

#: a sandbox whose decoder was taken over: it does what its medium says
_TAKEN_OVER: Final = """
import os, signal, sys
from pathlib import Path
from dataflows.social.media import images, sandbox
rightly = images.renditions
def renditions(source, folder, mime):
    text = source.read_bytes()
    return rightly(source, folder, mime) if text.startswith(b"\\x89PNG") else [{"said": str(eval(text))}]
images.renditions = renditions
sandbox.main()
"""
linux = pytest.mark.skipif(sys.platform != "linux", reason="filters of system calls and Landlock are Linux's")


def pid_of(sandboxes: Sandboxes) -> int:
    (one,) = sandboxes._idle
    return one._process.pid


class Media:
    """Media of one folder, decoded by one sandbox."""

    def __init__(self, sandboxes: Sandboxes, folder: Path) -> None:
        self.sandboxes, self.folder = sandboxes, folder
        (folder / "work").mkdir()

    def asks(self, data: bytes, wait_s: float = 60, is_wanted: Any = lambda: True) -> Any:
        source = self.folder / "source"
        source.write_bytes(data)
        return self.sandboxes.run(Order(str(source), str(self.folder / "work"), "image/png"), wait_s, is_wanted)

    def is_decoded(self) -> bool:
        return not is_refused(self.asks(png(16, 16)).status)


@pytest.fixture
def media(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Media]:
    monkeypatch.setattr(warm, "_COMMAND", (sys.executable, "-c", _TAKEN_OVER))
    with Sandboxes() as sandboxes:
        yield Media(sandboxes, tmp_path)


@linux
@pytest.mark.parametrize(
    "does",
    [
        "os.fork()",
        "os.posix_spawn('/bin/true', ['true'], {})",
        "os.execv('/bin/true', ['true'])",
        "os.kill(os.getppid(), signal.SIGKILL)",
        "os.pidfd_open(os.getppid()) and signal.pidfd_send_signal(os.pidfd_open(os.getppid()), signal.SIGSTOP)",
        "__import__('resource').prlimit(os.getppid(), 0, (1, 1))",
        "Path(f'/proc/{os.getppid()}/mem').open('r+b')",
        "Path(f'/proc/{os.getppid()}/fd/1').open('wb')",
        "Path(source.parent / 'other').write_bytes(b'mine')",
        "(source.parent / 'kept').read_bytes()",
        "(source.parent / 'kept').unlink()",
        "source.write_bytes(b'mine')",
        "__import__('socket').socket()",
    ],
)
def test_a_decoder_that_is_taken_over_reaches_nothing_but_its_own_folder(media: Media, does: str) -> None:
    (media.folder / "kept").write_bytes(b"a key")
    assert media.is_decoded()
    before = pid_of(media.sandboxes)
    answer = media.asks(does.encode())
    assert answer.status != 0, answer.said
    assert (media.folder / "kept").read_bytes() == b"a key"
    assert not (media.folder / "other").exists()
    assert media.is_decoded()
    assert pid_of(media.sandboxes) == before, "the same one goes on"


@pytest.mark.parametrize(
    "does", ["os._exit(0)", "os.write(1, b'{}')", "os.abort()", "os.close(0)", "print('x' * 10**6, flush=True)"]
)
def test_what_one_medium_does_is_not_heard_as_the_answer_for_the_next(media: Media, does: str) -> None:
    media.asks(does.encode())
    assert media.is_decoded()


def test_what_tells_without_end_is_ended(media: Media) -> None:
    assert is_refused(media.asks(b"'x' * 10**6").status)
    assert media.is_decoded()


def test_one_that_says_no_more_and_never_ends_is_killed_with_its_sandbox(media: Media) -> None:
    """It closes the line that it answers by; nobody would hear of it any more."""
    assert media.is_decoded()
    before = pid_of(media.sandboxes)
    endless = b"[os.closerange(3, 32), (source.parent / 'work' / str(os.getpid())).touch(), signal.pause()]"
    with pytest.raises(Undecided):
        media.asks(endless, wait_s=2)
    (child,) = [int(path.name) for path in (media.folder / "work").iterdir() if path.name.isdigit()]
    eventually(lambda: not Path(f"/proc/{child}").exists() and not Path(f"/proc/{before}").exists())
    assert media.is_decoded()


@linux
def test_a_decoder_is_the_first_that_a_kernel_without_memory_ends_and_its_sandbox_goes_on(media: Media) -> None:
    assert media.is_decoded()
    before, work = pid_of(media.sandboxes), media.folder / "work"
    waits = b"[(source.parent / 'work' / str(os.getpid())).touch(), signal.pause()]"
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(media.asks, waits)
        eventually(lambda: any(path.name.isdigit() for path in work.iterdir()), what="the decoder waits")
        (child,) = [path.name for path in work.iterdir() if path.name.isdigit()]
        assert Path(f"/proc/{child}/oom_score_adj").read_text() == "1000\n"
        os.kill(int(child), signal.SIGKILL)
        with pytest.raises(Killed):
            is_refused(answer.result().status)
    assert media.is_decoded()
    assert pid_of(media.sandboxes) == before, "the same one goes on"


def test_a_sandbox_that_somebody_killed_is_replaced(media: Media) -> None:
    assert media.is_decoded()
    before = pid_of(media.sandboxes)
    os.kill(before, 9)
    eventually(lambda: not media.sandboxes._idle[0].is_there)
    assert media.is_decoded()
    assert pid_of(media.sandboxes) != before


def test_a_sandbox_takes_so_many_media_and_is_replaced(media: Media, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MEDIA_SANDBOX_MEDIA_MAX", 2)
    assert media.is_decoded()
    first = pid_of(media.sandboxes)
    assert media.is_decoded()
    assert not Path(f"/proc/{first}").exists()
    assert media.is_decoded()
    assert pid_of(media.sandboxes) != first


def test_a_sandbox_ends_with_who_asks(tmp_path: Path) -> None:
    """Whatever kills a scanner; nothing is left that decodes for nobody."""
    asks = "import os, sys\nfrom dataflows.social.media.sandboxes import _Sandbox\nprint(_Sandbox()._process.pid)\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{asks}sys.stdout.flush()\nos.kill(os.getpid(), 9)"], capture_output=True, check=False
    )
    eventually(lambda: not Path(f"/proc/{int(done.stdout)}").exists())


def test_what_is_no_picture_is_refused_and_no_fault_of_the_machine(media: Media) -> None:
    assert media.asks(png(64, 64)[:60]).status == UNDECODABLE
