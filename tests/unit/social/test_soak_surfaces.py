"""What the soak's judge makes of answers: a refusal is told as one, and a URL that ended while it was asked for is none."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest

from compose.proof.social import surfaces
from compose.proof.social.reference import Reference, Said
from compose.proof.social.surfaces import Surfaces
from schemas import limits

if TYPE_CHECKING:
    from compose.proof.social.history import History

URL = "http://media/md_1/0/full.webp?expires=1"


class Told:
    """A history of one post with a medium; ``answer`` is what anybody is told after so many seconds."""

    def __init__(self, answer: httpx.Response, after_s: float = 0) -> None:
        self.model = Reference(posts={"po_1": Said("u_1", "public", has_media=True)})
        self.random = random.Random(1)
        self.users = {"u_1": self}
        self.names = ["u_1"]
        self.exports = {"u_1": "ex_1"}
        self.moderator = self
        self.now_s = 0.0
        self._answer, self._after_s = answer, after_s

    def get(self, path: str, **_: Any) -> httpx.Response:
        self.now_s += self._after_s
        if path == "/v1/posts/po_1":
            shown = {"text": "", "counts": self.model.counts("u_1", "po_1"), "media": [{"renditions": [{"url": URL}]}]}
            return httpx.Response(200, json=shown)
        return self._answer

    def ids(self, _: str) -> list[str]:
        return ["po_1"]

    def fetch(self, _: str) -> int:
        return self.get("").status_code


def judged(told: Told, monkeypatch: pytest.MonkeyPatch) -> Surfaces:
    monkeypatch.setattr(surfaces, "time", SimpleNamespace(monotonic=lambda: told.now_s))
    return Surfaces(cast("History", told))


def test_a_refused_export_is_told_with_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(httpx.Response(500, text="no JSON"))
    found = judged(told, monkeypatch)._export("u_1", cast("Any", told))
    assert found == {"u_1 export": [500, "no JSON"]}


@pytest.mark.parametrize(("waited_s", "differs"), [(1, True), (limits.MEDIA_VIEW_TTL_S, False)])
def test_a_url_that_ends_while_the_origin_is_away_was_no_good_one(
    monkeypatch: pytest.MonkeyPatch, waited_s: float, *, differs: bool
) -> None:
    judge = judged(Told(httpx.Response(404), after_s=waited_s), monkeypatch)
    judge.urls[URL] = ("po_1", 0, 0.0)
    assert bool(judge._media()) == differs
    assert (URL in judge.urls) == differs


def test_a_url_is_as_old_as_the_question_that_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = judged(Told(httpx.Response(200), after_s=5), monkeypatch)
    judge._one("u_1", cast("Any", judge.history), {"po_1"}, "po_1")
    assert judge.urls[URL][2] == 0
