"""Erasures and decisions are looked after: by the URLs that media had, and so that none keeps the others waiting."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import psycopg
import pytest

from dataflows.social.erasure import erased_before
from dataflows.social.erasure.erased_before import ErasedBefore
from dataflows.social.erasure.eraser import SQL as ERASING
from dataflows.social.erasure.eraser import Eraser
from dataflows.social.media.origin_looks import urls_of
from dataflows.social.moderation.looks import Due
from dataflows.social.moderation.propagation import _ARRIVED_S, Propagation
from schemas.social import limits
from schemas.social.media_origin import MediaOrigin
from sinks.objects.media_objects import MediaObjects, media_objects, part_key, rendition_key, source_key

NAMES = ["full.webp", "thumb.webp"]
UNTIL = 4_000_000_000


class Taking(Eraser):
    """Takes things away as it is told, and never looks for them."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        self._erased, self._looked = SimpleNamespace(note=lambda _: True), {}  # type: ignore[assignment]

    def _take(self, *_: object) -> None:
        raise self._error


def test_an_erasure_whose_statement_takes_too_long_is_tried_again_after_the_others() -> None:
    connection, crawler = SimpleNamespace(), SimpleNamespace()
    given: tuple[Any, ...] = (connection, crawler, "u_1", "er_1")
    assert Taking(psycopg.errors.QueryCanceled())._erase(*given) is False
    with pytest.raises(psycopg.OperationalError):  # nobody answers any of them
        Taking(psycopg.OperationalError())._erase(*given)


class Finding(Eraser):
    """Finds nothing left of anybody, and certifies on paper."""

    def __init__(self, keys: Path) -> None:
        self._erased, self._looked = ErasedBefore(keys), {}
        self.certified: list[Any] = []
        self.left = [(0, None)]  # of media, turn by turn, and behind which one it goes on
        self.scans, self.taken = [0], 0
        self._homes = SimpleNamespace(drop=lambda _: None)  # type: ignore[assignment]

    def _take(self, *_: object) -> None:
        self.taken += 1

    def _count(self, _: object, step: str, __: object) -> int:  # type: ignore[override]
        assert step == "scans_left"
        return self.scans.pop(0)

    def _media_left(self, *given: Any) -> Any:
        self.asked_after = given[-1]
        return self.left.pop(0)

    def _certify(self, *of: Any) -> None:
        self.certified.append(of[1])


def test_no_erasure_is_certified_before_the_file_names_its_user(tmp_path: Path) -> None:
    """Else a database that is put back would have the user again, and nobody knew."""
    crawler: Any = SimpleNamespace(rest=lambda _: (0, {}))
    lost, eraser = Finding(tmp_path / "away"), Finding(tmp_path)
    for one in (lost, eraser):
        assert one._erase(None, crawler, "u_1", "er_1") is False  # type: ignore[arg-type]
    assert (lost.certified, eraser.certified) == ([], ["u_1"])
    assert (tmp_path / erased_before.NAME).read_text().split() == ["u_1"]


def test_who_has_many_media_is_certified_when_all_were_looked_for_and_nothing_came_meanwhile(tmp_path: Path) -> None:
    """What is taken away by statements is at the begin, and once more at the end, not in every turn."""
    in_tables = [1, 0]
    crawler: Any = SimpleNamespace(rest=lambda _: (in_tables.pop(0), {}))
    eraser = Finding(tmp_path)
    eraser.scans = [1, 0, 0]  # one goes on, and writes what nobody would look for again
    eraser.left = [(0, "md_1"), (2, "md_2"), (0, "md_2"), (0, None), (0, "md_1"), (0, None)]

    def turn() -> tuple[bool, int, list[Any]]:
        eraser.asked_after = "nothing"
        has_more = eraser._erase(None, crawler, "u_1", "er_1")  # type: ignore[arg-type]
        return has_more, eraser.taken, [eraser.asked_after, *eraser.certified]

    assert turn() == (False, 1, ["nothing"])
    assert turn() == (True, 2, [""])
    assert turn() == (False, 2, ["md_1"]), "these are looked for again"
    assert [turn() for _ in range(2)] == [(True, 2, ["md_1"]), (False, 3, ["md_2"])]
    assert turn() == (True, 4, [""]), "something came: from the first one"
    assert turn() == (False, 5, ["md_1", "u_1"])


def test_bytes_go_under_their_names_at_once_and_then_whatever_is_found(tmp_path: Path) -> None:
    objects = media_objects(MediaOrigin(url="", uploads_url="", key=b"k" * 32, folder=tmp_path))
    ids = {f"md_{n}": f"{n}" * 64 for n in range(3)}
    named = [
        key
        for media_id, sha256 in ids.items()
        for key in (source_key(media_id, sha256), rendition_key(media_id, "a.webp"))
    ]
    others = [part_key("md_1", 1), rendition_key("md_2", "of-a-scan-that-died.webp")]
    for key in (*named, *others):
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(b"x")
    found: list[list[str]] = []

    def left(*_: object) -> tuple[int, None]:
        found.append([key for key in (*named, *others) if (tmp_path / key).exists()])
        return sum(objects.holds(*one) for one in ids.items()), None

    eraser, rows = Removing(objects), [(media_id, sha256, ["a.webp"]) for media_id, sha256 in ids.items()]
    database: Any = SimpleNamespace(execute=lambda *_: SimpleNamespace(fetchall=lambda: rows))
    assert eraser._media_left(database, SimpleNamespace(media=left), "u_1", "") == (0, None)  # type: ignore[arg-type]
    assert found == [others, []]


class Removing(Eraser):
    """Takes bytes away, and nothing else."""

    def __init__(self, objects: MediaObjects) -> None:
        self._objects = objects


class Database:
    """One that knows of an erasure, and has users again that were erased; it notes who is asked for."""

    def __init__(self) -> None:
        self.again: list[list[str]] = []

    def execute(self, query: bytes | str, given: dict[str, Any] | None = None) -> Any:
        given = given or {"now": 1}
        if query == ERASING["erase_again"].encode():
            self.again.append(given["users"])
        pages = {"": [("u_2",), ("u_3",)]} if query == ERASING["erased"].encode() else {}
        found = pages.get(given.get("after", "now"), [])
        return SimpleNamespace(fetchall=lambda: found, fetchone=lambda: (1,), rowcount=0)


def test_who_was_erased_is_looked_for_with_each_connection_and_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has those that only the database knew from then on, and the other way round."""
    before, database = ErasedBefore(tmp_path), Database()
    assert before.note("u_1")
    connection: Any = database
    for _ in range(3):
        before.again(connection)
    assert database.again == [["u_1", "u_2", "u_3"]]
    before.connected()
    before.again(connection)
    assert len(database.again) == 2
    monkeypatch.setattr(limits, "ERASED_AGAIN_S", -1.0)
    before.connected()
    for _ in range(2):
        before.again(connection)
    assert len(database.again) == 4
    assert sorted((tmp_path / erased_before.NAME).read_text().split()) == ["u_1", "u_2", "u_3"]


class Looking(Propagation):
    """Looks once, and writes down what it saw."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        self.written: list[Any] = []

    def seen(self, _: Due) -> str:
        raise self._error

    def execute(self, _: str, given: dict[str, Any]) -> None:
        self.written.append((given["seen"], given["wait_s"]))


def test_a_decision_whose_look_takes_too_long_is_looked_at_again_after_the_others() -> None:
    due = Due("mo_1", "search", "po_1", "remove", attempts=2, is_superseded=False, author_id="u_1", age_s=1.0)
    for error in (psycopg.errors.QueryCanceled(), httpx.ReadTimeout("")):
        worker = Looking(error)
        worker._look(worker, worker, due)  # type: ignore[arg-type]
        assert worker.written == [("no answer", 2.0)]


def test_how_long_a_decision_took_is_told_of_each_consumer_once_it_has_arrived() -> None:
    due = Due("mo_1", "search", "po_1", "remove", attempts=2, is_superseded=False, author_id="u_1", age_s=7.0)

    def told(consumer: str) -> tuple[float, float]:
        (metric,) = _ARRIVED_S.collect()
        found = {one.name: one.value for one in metric.samples if one.labels == {"consumer": consumer}}
        return found.get(f"{metric.name}_count", 0.0), found.get(f"{metric.name}_sum", 0.0)

    before, worker = told("search"), Looking(httpx.ReadTimeout(""))
    worker._look(worker, worker, due)  # type: ignore[arg-type]
    assert told("search") == before
    arrived = SimpleNamespace(seen=lambda _: "")
    worker._look(worker, arrived, due)  # type: ignore[arg-type]
    assert (told("search"), told("homes")) == ((before[0] + 1, before[1] + 7.0), (0.0, 0.0))


def test_ends_that_take_too_long_to_find_keep_nothing_else_waiting() -> None:
    """A worker that begins again on a new connection each time would end no decision, and hide nothing, ever."""

    def execute(_: str, __: object) -> None:
        raise psycopg.errors.QueryCanceled

    worker = Looking(Exception())
    worker._end(SimpleNamespace(execute=execute))  # type: ignore[arg-type]
    with pytest.raises(psycopg.OperationalError):  # nobody answers
        worker._end(SimpleNamespace(execute=_away))  # type: ignore[arg-type]


def _away(_: str, __: object) -> None:
    raise psycopg.OperationalError


def asked(newest: int, *, is_every_one: bool) -> list[tuple[int, str, bool]]:
    """Version, name, and whether it is signed."""
    origin = MediaOrigin(url="http://m", uploads_url="", key=b"k" * 32, folder=Path())
    found = urls_of(origin, "md_1", newest, NAMES, UNTIL, is_every_one=is_every_one)
    return [(version, url.partition("?")[0].rpartition("/")[2], "?" in url) for version, url in found]


@pytest.mark.parametrize("newest", [1, 7])
def test_every_url_of_a_medium_is_asked_for(newest: int) -> None:
    versions = range(max(1, newest - limits.PROPAGATION_VERSIONS), newest + 1)
    every_one = {(version, name, signed) for version in versions for name in NAMES for signed in (True, False)}
    assert set(asked(newest=newest, is_every_one=True)) == every_one


def test_of_very_many_media_only_what_is_decided_apart_is_asked_for() -> None:
    """The origin decides by the medium alone; what caches have of its owner they say themselves."""
    assert asked(newest=7, is_every_one=False) == [(7, "full.webp", True)]
