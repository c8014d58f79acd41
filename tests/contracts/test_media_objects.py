"""Bytes of media, in a folder and in a bucket: a name stands for the declared bytes, whole, or for nothing. One suite for both."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import socket
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from schemas.social.limits import MEDIA_DISK_KEPT_BYTES
from schemas.social.media_origin import MediaOrigin
from sinks import limits
from sinks.objects.bucket_store import BucketAway, BucketStore
from sinks.objects.media_objects import MediaObjects, media_objects, part_key, rendition_key, source_key
from tests.worlds.media_bucket import bucket, there

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["bucket"]  # the fixture of this module
pytestmark = pytest.mark.servers
PLACE = partial(MediaOrigin, url="http://media", uploads_url="http://media", key=b"k" * 32)


def in_bucket(endpoint: str, folder: Path) -> MediaObjects:
    return media_objects(PLACE(folder=folder, bucket=there(endpoint)))


@pytest.fixture(params=["folder", "bucket"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> MediaObjects:
    if request.param == "bucket":
        return in_bucket(request.getfixturevalue("bucket"), tmp_path)
    return media_objects(PLACE(folder=tmp_path))


@pytest.fixture
def media_id() -> str:
    """Nobody has had it: the bucket is that of all tests."""
    return f"md_{os.urandom(8).hex()}"


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def put(objects: MediaObjects, key: str, data: bytes, declared: bytes) -> bool:
    with objects.draft(len(declared)) as draft:
        is_whole = draft.write(data)
        return is_whole and draft.keep(key, sha(declared))


@pytest.mark.parametrize("data", [b"", b"on", b"onee", b"One"])
def test_other_bytes_than_declared_leave_nothing(
    objects: MediaObjects, media_id: str, tmp_path: Path, data: bytes
) -> None:
    assert not put(objects, part_key(media_id, 1), data, b"one")
    assert not objects.holds(media_id, sha(b"one"))
    assert list((tmp_path / "drafts").iterdir()) == []


def test_a_part_comes_again_and_the_whole_is_put_together_once(
    objects: MediaObjects, media_id: str, tmp_path: Path
) -> None:
    assert objects.assemble(media_id, 2, 6, sha(b"onetwo")) == "part_missing"
    assert all(put(objects, part_key(media_id, 1), b"one", b"one") for _ in range(2))
    assert objects.assemble(media_id, 2, 6, sha(b"onetwo")) == "part_missing"
    assert put(objects, part_key(media_id, 2), b"two", b"two")
    assert objects.assemble(media_id, 2, 6, sha(b"twoone")) == "checksum_mismatch"
    assert objects.assemble(media_id, 2, 5, sha(b"onetwo")) == "checksum_mismatch"
    assert objects.assemble(media_id, 2, 6, sha(b"onetwo")) == "ok"
    objects.forget_parts(media_id)
    assert objects.assemble(media_id, 2, 6, sha(b"onetwo")) == "ok"  # a retry finds what is there
    assert objects.source_file(media_id, sha(b"onetwo"), tmp_path).read_bytes() == b"onetwo"


def test_what_is_kept_is_never_written_over_and_equal_bytes_of_another_stay(
    objects: MediaObjects, media_id: str, tmp_path: Path
) -> None:
    other = f"{media_id}x"
    for name in (media_id, other):
        assert put(objects, part_key(name, 1), b"one", b"one")
        assert objects.assemble(name, 1, 3, sha(b"one")) == "ok"
    made = tmp_path / "made"
    for data in (b"first", b"other"):
        made.write_bytes(data)
        assert objects.keep_rendition(media_id, "thumb.webp", made, len(data), sha(data))
    assert b"".join(objects.rendition_chunks(media_id, "thumb.webp")) == b"first"
    for start, stop in ((0, 5), (0, 1), (1, 3), (4, 5)):
        assert b"".join(objects.rendition_chunks(media_id, "thumb.webp", (start, stop))) == b"first"[start:stop]
    objects.forget(media_id, sha(b"one"))
    assert not objects.holds(media_id, sha(b"one"))
    assert objects.holds(other, sha(b"one"))  # whose name begins as that of what was forgotten
    assert objects.source_file(other, sha(b"one"), tmp_path / "drafts").read_bytes() == b"one"
    objects.forget(media_id, sha(b"one"))  # again
    with pytest.raises(FileNotFoundError):
        next(objects.rendition_chunks(media_id, "thumb.webp"))


def test_media_are_forgotten_many_at_once_by_the_names_that_are_known(
    objects: MediaObjects, media_id: str, tmp_path: Path
) -> None:
    ids = [f"{media_id}{n}" for n in range(3)]
    made = tmp_path / "made"
    made.write_bytes(b"one")
    for one in ids:
        assert put(objects, source_key(one, sha(b"one")), b"one", b"one")
        assert objects.keep_rendition(one, "thumb.webp", made, 3, sha(b"one"))
    assert put(objects, part_key(ids[1], 1), b"one", b"one")
    for _ in range(2):  # also where there is nothing any more
        objects.forget_named((one, sha(b"one"), ["thumb.webp"]) for one in ids[:2])
        assert [objects.holds(one, sha(b"one")) for one in ids] == [False, True, True]
    objects.forget_parts(ids[1])
    assert not objects.holds(ids[1], sha(b"one"))
    objects.forget_named([])


def test_what_is_long_is_the_same_in_pieces(objects: MediaObjects, media_id: str, tmp_path: Path) -> None:
    data = os.urandom(limits.BUCKET_PART_BYTES + 3)
    assert put(objects, part_key(media_id, 1), data, data)
    assert objects.assemble(media_id, 1, len(data), sha(data)) == "ok"
    assert sha(objects.source_file(media_id, sha(data), tmp_path).read_bytes()) == sha(data)


def test_what_was_changed_in_a_bucket_is_not_scanned(bucket: str, media_id: str, tmp_path: Path) -> None:
    objects = in_bucket(bucket, tmp_path)
    assert put(objects, part_key(media_id, 1), b"one", b"one")
    assert objects.assemble(media_id, 1, 3, sha(b"one")) == "ok"
    (tmp_path / "other").write_bytes(b"two")
    store, key = BucketStore(there(bucket)), source_key(media_id, sha(b"one"))
    store.delete(key)
    store.keep(key, tmp_path / "other")
    with pytest.raises(OSError, match="not what its name says"):
        objects.source_file(media_id, sha(b"one"), tmp_path)


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "..", "a\0b", "é"])
def test_a_name_is_never_a_path(objects: MediaObjects, name: str) -> None:
    for place in (lambda: part_key(name, 1), lambda: rendition_key("md_1", name), lambda: objects.forget_parts(name)):
        with pytest.raises(ValueError, match="no part of a key"):
            place()


def test_a_bucket_that_is_away_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither "there is none" nor "it is gone": whoever asks tries again."""
    monkeypatch.setattr(limits, "BUCKET_RETRIES_MAX", 0)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        objects = in_bucket(f"http://127.0.0.1:{nobody.getsockname()[1]}", tmp_path)
        for ask in (
            lambda: objects.holds("md_1", sha(b"")),
            lambda: objects.forget("md_1", sha(b"")),
            lambda: objects.assemble("md_1", 1, 3, sha(b"")),
            lambda: next(objects.rendition_chunks("md_1", "x")),
        ):
            with pytest.raises(BucketAway):
                ask()


def test_media_leave_room_on_the_disk_to_all_else(
    objects: MediaObjects, media_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that are under way together: what each of them has still to write is theirs."""
    room = SimpleNamespace(free=MEDIA_DISK_KEPT_BYTES + 10)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: room)
    with pytest.raises(OSError, match="too little room"):
        objects.draft(11)
    with objects.draft(6) as first:
        assert first.write(b"12")
        room.free -= 2
        with pytest.raises(OSError, match="too little room"), objects.draft(5):
            pass
        with objects.draft(4):
            pass
    assert put(objects, part_key(media_id, 1), b"12345678", b"12345678")
    room.free = 0
    with pytest.raises(OSError, match="too little room"):
        objects.assemble(media_id, 1, 8, sha(b"12345678"))
    assert list((tmp_path / "drafts").iterdir()) == []


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    """A file that may grow no further is refused its bytes as one on a full disk is, and again when it is closed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("piece", [3_000, 70_000])
def test_what_meets_a_full_disk_leaves_nothing_on_it(tmp_path: Path, piece: int) -> None:
    objects = media_objects(PLACE(folder=tmp_path))

    def fill() -> None:
        with objects.draft(1_000_000) as draft:
            while draft.write(b"x" * piece):
                pass

    with files_no_longer_than(50_000), pytest.raises(OSError, match="too large"):
        fill()
    assert list((tmp_path / "drafts").iterdir()) == []


def test_what_cannot_be_taken_away_is_not_said_to_be_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = media_objects(PLACE(folder=tmp_path))
    assert put(objects, part_key("md_1", 1), b"one", b"one")
    with monkeypatch.context() as broken:
        broken.setattr(os, "unlink", refusing)
        with pytest.raises(PermissionError):
            objects.forget_parts("md_1")
    assert objects.holds("md_1", sha(b"one"))
    objects.forget_parts("md_1")
    objects.forget_parts("md_1")  # again
    assert not objects.holds("md_1", sha(b"one"))


def refusing(*_: object, **__: object) -> None:
    raise PermissionError
