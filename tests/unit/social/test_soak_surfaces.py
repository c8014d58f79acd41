"""What the soak's judge makes of answers: a refusal is told as one, and a URL that ended while it was asked for is none."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest

from compose.proof.kit.patient_caller import NotInTime, PatientCaller
from compose.proof.social import surfaces
from compose.proof.social.client import SocialClient
from compose.proof.social.home_stream import HomeStream
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
            media = [{"renditions": [{"url": URL}]}]
            counts = self.model.counts("u_1", "po_1")
            shown = {"text": "", "counts": counts, "media": media, "labels": [], "label": None}
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


def test_a_labelled_post_is_among_those_that_are_looked_at() -> None:
    """One of hundreds, whoever looks; none that is deleted, which shows no label."""
    told = Told(httpx.Response(200))
    told.model.posts |= {f"po_{n}": Said("u_1", "public") for n in range(2, 300)}
    judge = Surfaces(cast("History", told))
    told.model.decide("po_7", "label", "satire", "mo_1", beside=True)
    told.model.decide("po_8", "label", "satire", "mo_2", beside=True)
    told.model.posts["po_8"].is_deleted = True
    for _ in range(30):
        drawn = judge._sample()
        assert ("po_7" in drawn, len(set(drawn))) == (True, surfaces.SAMPLED)
    told.model.decide("po_7", "none", "satire", "mo_3", beside=True)
    assert sum("po_7" in judge._sample() for _ in range(30)) < 30


class Streaming:
    """A server of one home's stream, as far as a reader hears it: a list for each connection, of lines or a status."""

    def __init__(self, *connections: list[str] | int) -> None:
        self._connections = list(connections)
        self.asked_after: list[str | None] = []

    def user(self) -> SocialClient:
        http = httpx.Client(transport=httpx.MockTransport(self._answer), base_url="http://api")
        user = SocialClient.__new__(SocialClient)
        PatientCaller.__init__(user, http, "token", persist_s=0.001, wait_s=0)
        return user

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked_after.append(request.headers.get("Last-Event-ID"))
        said = self._connections.pop(0)
        return (
            httpx.Response(said) if isinstance(said, int) else httpx.Response(200, text="\n".join(["retry: 1", *said]))
        )


def event(post_id: str) -> list[str]:
    return [f"id: at {post_id}", "event: post", f'data: {{"post_id": "{post_id}"}}', ""]


ALIVE = ["", ": alive", ""]


def test_a_reader_goes_on_behind_what_it_heard_whatever_cut_it_off() -> None:
    server = Streaming(["id: begun", *ALIVE], [*event("po_1"), *event("po_2")], 503, [], event("po_2"), ALIVE)
    stream = HomeStream(server.user())
    stream._user._persist_s = 60
    assert stream.look() == []
    assert stream.look() == ["po_1", "po_2"]
    assert server.asked_after == [None, "begun", "at po_1", "at po_1", "at po_1", "at po_2"]
    assert stream.told == {"po_1", "po_2"}


def test_a_stream_that_tells_what_is_hidden_or_tells_it_twice_differs() -> None:
    for told, differs in ((["po_1"], []), (["po_2"], ["po_2"]), (["po_1", "po_1"], [])):
        history = Told(httpx.Response(200))
        history.model.posts["po_2"] = Said("u_2", "private")
        surfaces = Surfaces(cast("History", history))
        found = surfaces._stream("u_1", Streaming(*map(event, told), ALIVE).user())
        assert found == ({} if told == ["po_1"] else {"u_1 stream": differs})


def test_a_stream_that_never_tells_the_last_posts_fails_the_run() -> None:
    told = Told(httpx.Response(200))
    told.users = {"u_1": Streaming(event("po_1"), ALIVE).user()}  # type: ignore[dict-item]
    Surfaces(cast("History", told)).await_told({"po_1", "po_of_others"} & {"po_1"})
    told.users = {"u_1": Streaming(ALIVE, ALIVE).user()}  # type: ignore[dict-item]
    with pytest.raises(NotInTime, match="po_1"):
        Surfaces(cast("History", told)).await_told({"po_1"})


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
