"""Bytes of media: a name is written once, with the declared bytes, or not at all."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from sinks.objects.media_objects import MediaObjects

if TYPE_CHECKING:
    from pathlib import Path


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def put(objects: MediaObjects, number: int, data: bytes, declared: bytes) -> bool:
    with objects.draft(len(declared)) as draft:
        is_whole = draft.write(data)
        return is_whole and draft.keep(objects.part("md_1", number), sha(declared))


@pytest.mark.parametrize("data", [b"", b"on", b"onee", b"One"])
def test_other_bytes_than_declared_leave_nothing(tmp_path: Path, data: bytes) -> None:
    objects = MediaObjects(tmp_path)
    assert not put(objects, 1, data, b"one")
    assert not objects.part("md_1", 1).exists()
    assert list((tmp_path / "drafts").iterdir()) == []


def test_a_part_comes_again_and_the_whole_is_put_together_once(tmp_path: Path) -> None:
    objects = MediaObjects(tmp_path)
    assert objects.assemble("md_1", 2, 6, sha(b"onetwo")) == "part_missing"
    assert all(put(objects, 1, b"one", b"one") for _ in range(2))
    assert objects.assemble("md_1", 2, 6, sha(b"onetwo")) == "part_missing"
    assert put(objects, 2, b"two", b"two")
    assert objects.assemble("md_1", 2, 6, sha(b"twoone")) == "checksum_mismatch"
    assert objects.assemble("md_1", 2, 5, sha(b"onetwo")) == "checksum_mismatch"
    assert objects.assemble("md_1", 2, 6, sha(b"onetwo")) == "ok"
    objects.forget_parts("md_1")
    assert objects.assemble("md_1", 2, 6, sha(b"onetwo")) == "ok"  # a retry finds what is there
    assert objects.source("md_1", sha(b"onetwo")).read_bytes() == b"onetwo"


def test_a_source_is_never_written_over_and_equal_bytes_of_another_stay(tmp_path: Path) -> None:
    objects = MediaObjects(tmp_path)
    for name in ("md_1", "md_2"):
        with objects.draft(3) as draft:
            draft.write(b"one")
            assert draft.keep(objects.source(name, sha(b"one")), sha(b"one"))
    objects.forget("md_1", sha(b"one"))
    assert not objects.holds("md_1", sha(b"one"))
    assert objects.source("md_2", sha(b"one")).read_bytes() == b"one"
    objects.forget("md_1", sha(b"one"))  # again


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "..", "a\0b", "é"])
def test_a_name_is_never_a_path(tmp_path: Path, name: str) -> None:
    objects = MediaObjects(tmp_path)
    for place in (lambda: objects.part(name, 1), lambda: objects.rendition("md_1", name)):
        with pytest.raises(ValueError, match="no part of a path"):
            place()
