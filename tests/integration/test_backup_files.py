"""A backup and a home are there as a whole or not at all, whoever else writes, and nothing changed is restored."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compose.backup.draft import draft_of, need_room
from compose.backup.files import MANIFEST, TreeCopy, write_manifest
from compose.backup.restore import restore
from compose.settings.home_settings import HomeSettings
from compose.stack.errors import StackError
from compose.stack.home import Home
from tests.integration.operator_shell import Operator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    made = tmp_path / "backup"
    (made / "data" / "postgres").mkdir(parents=True)
    (made / "data" / "postgres" / "PG_VERSION").write_text("18")
    (made / "link").symlink_to("data/postgres")
    write_manifest(made, {"made_at": "then"})
    return made


def changed(folder: Path) -> None:
    (folder / "data" / "postgres" / "PG_VERSION").write_text("19")


def gone(folder: Path) -> None:
    (folder / "data" / "postgres" / "PG_VERSION").unlink()


def strange(folder: Path) -> None:
    (folder / "data" / "more").write_text("")


def led_elsewhere(folder: Path) -> None:
    (folder / "link").unlink()
    (folder / "link").symlink_to("data")


def without_manifest(folder: Path) -> None:
    (folder / MANIFEST).unlink()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (changed, "is not as it was"),
        (gone, "is missing"),
        (strange, "is not as it was"),
        (led_elsewhere, "is not as it was"),
        (without_manifest, "is no backup"),
    ],
)
def test_what_changed_went_or_came_is_not_restored(
    tmp_path: Path, backup: Path, spoil: Callable[[Path], None], said: str
) -> None:
    spoil(backup)
    with pytest.raises(StackError, match=said):
        restore(Home(tmp_path / "home"), backup)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup"]


def test_a_home_that_is_not_empty_is_left_as_it_is(tmp_path: Path, backup: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "mine").write_text("")
    with pytest.raises(StackError, match="not empty"):
        restore(Home(home), backup)
    assert [path.name for path in home.iterdir()] == ["mine"]


@contextmanager
def writing(target: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process in the middle of its draft."""
    code = (
        "import sys; from pathlib import Path; from compose.backup.draft import draft_of\n"
        f"with draft_of(Path({str(target)!r}), Path({str(Home(target).restoring)!r})) as draft:\n"
        "    (draft / 'half').write_text(''); print('begun', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"begun\n"
        try:
            yield process
        finally:
            process.kill()


def test_of_two_that_write_one_folder_the_second_is_refused_and_the_first_has_all_of_its_files(
    tmp_path: Path, backup: Path
) -> None:
    home = tmp_path / "home"
    with writing(home) as other:
        with pytest.raises(StackError, match="another process is writing"):
            restore(Home(home), backup)
        other.communicate()
    assert [path.name for path in home.iterdir()] == ["half"]


def test_what_a_kill_left_is_removed_by_the_next(tmp_path: Path, backup: Path) -> None:
    home = tmp_path / "home"
    with writing(home) as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
    assert not home.exists()
    with draft_of(home, Home(home).restoring) as draft:
        assert list(draft.iterdir()) == []
    restore(Home(home), backup)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "home"]
    assert sorted(path.name for path in home.iterdir()) == ["data", "link"]


def test_where_a_restore_has_not_ended_no_other_home_begins(tmp_path: Path, backup: Path) -> None:
    """While it is at work, and after it was killed; a new home would look like the old one that lost everything."""
    home = Home(tmp_path / "home")
    with writing(home.path) as other:
        for command in (["token", "--merchant", "m_1"], ["info"], ["up", "--detach"]):
            done = Operator(home.path, {}).run(*command)
            assert (done.returncode, "has not ended" in done.stderr) == (1, True), (command, done.stderr)
        other.send_signal(signal.SIGKILL)
        other.wait()
    assert "run it again, or remove" in Operator(home.path, {}).run("up", "--detach").stderr
    assert not home.path.exists()
    restore(home, backup)
    HomeSettings(home=home.path).the_home()


def test_a_home_that_a_link_leads_to_is_restored_where_it_leads(tmp_path: Path, backup: Path) -> None:
    (tmp_path / "disk" / "home").mkdir(parents=True)
    (tmp_path / "home").symlink_to("disk/home")
    restore(Home(tmp_path / "home"), backup)
    assert (tmp_path / "home").is_symlink()
    assert sorted(path.name for path in (tmp_path / "disk" / "home").iterdir()) == ["data", "link"]
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["home"]


def test_a_mount_point_is_refused_before_anything_is_copied(backup: Path) -> None:
    with pytest.raises(StackError, match="is a mount point"):
        restore(Home(Path("/proc")), backup)


def test_a_copy_that_somebody_takes_away_is_no_shorter_copy(tmp_path: Path, backup: Path) -> None:
    """Files of the source that go are passed over; where it is copied to is not to go."""
    for path in backup.rglob("*"):
        os.utime(path, (0, 0), follow_symlinks=False)  # a later pass copies only what changed
    copy = TreeCopy(backup, tmp_path / "copy")
    copy.copy()
    shutil.rmtree(tmp_path / "copy")
    with pytest.raises(FileNotFoundError):
        copy.copy()


def test_a_disk_that_is_too_small_is_told_before(tmp_path: Path) -> None:
    need_room(tmp_path, 1)
    with (
        pytest.raises(StackError, match="MiB are needed free"),
        draft_of(tmp_path / "backup", tmp_path / "draft") as draft,
    ):
        need_room(draft, shutil.disk_usage(tmp_path).free * 2)
    assert list(tmp_path.iterdir()) == []
