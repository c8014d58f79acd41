"""A private file is whole, private, and the first one's."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sinks import private_file


def test_of_many_at_once_one_is_first_and_its_text_counts(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "secret.json"
    with ThreadPoolExecutor(8) as pool:
        was_first = list(pool.map(lambda n: private_file.write_once(path, str(n) * 1_000), range(8)))
    assert was_first.count(True) == 1
    assert path.read_text() == str(was_first.index(True)) * 1_000
    assert not private_file.write_once(path, "another")
    assert [one.name for one in path.parent.iterdir()] == ["secret.json"], "a draft was left"


def test_nobody_else_may_read_it_or_look_into_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "secret.json"
    private_file.write_once(path, "one")
    private_file.replace(path, "two")
    assert path.read_text() == "two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_what_cannot_be_written_leaves_the_old_file_and_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret.json"
    private_file.write_once(path, "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        private_file.replace(path, "new")
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["secret.json"]
