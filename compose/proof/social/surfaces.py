"""The surfaces that show posts, each compared with the reference, for every viewer.

1 home, 2 user, 3 public, 4 thread, 5 search, 6 quote, 7 reply's parent, 8 notification, 9 count, 10 export, 11 the
stream of a home, 12 the URLs of media; and beside them a post by itself, its versions, and the pages at /app.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from compose.proof.social.home_stream import HomeStream
from schemas import limits

if TYPE_CHECKING:
    from compose.proof.social.client import SocialClient
    from compose.proof.social.history import History

SAMPLED: Final = 3  # posts that each viewer asks for by themselves, after every step
Json = dict[str, Any]
_MARGIN_S: Final = 60
_POLL_S: Final = 0.2
_FOUND, _MISSING, _GONE = 200, 404, 410


@dataclass
class Surfaces:
    """Compares; it remembers the URLs of media that it was given."""

    history: History
    cached_s: float = 0.0  # for how long a cache may show a medium that is hidden by now
    urls: dict[str, tuple[str, int, float]] = field(default_factory=dict)  # the post, its access, and when asked for
    streams: dict[str, HomeStream] = field(default_factory=dict)  # by viewer, from the first look at it on

    def differ(self) -> Json:
        """What any surface shows otherwise than the reference."""
        found: Json = {}
        for viewer, user in self.history.users.items():
            seen = self.history.model.seen(viewer)
            found |= self._lists(viewer, user, seen)
            found |= self._stream(viewer, user)
            found |= self._told(viewer, user, seen)
            found |= self._export(viewer, user)
            for post_id in self._sample():
                found |= self._one(viewer, user, seen, post_id)
        return found | self._media()

    def _sample(self) -> list[str]:
        """Posts drawn for one viewer; one that is seen with labels is among them, as soon as there is any."""
        model, draw = self.history.model, self.history.random
        posts = sorted(model.posts)
        drawn = draw.sample(posts, min(SAMPLED, len(posts)))
        labelled = [one for one in posts if model.labels.get(one) and not model.posts[one].is_deleted]
        if labelled and not set(labelled) & set(drawn):
            drawn[-1] = draw.choice(labelled)
        return drawn

    def _lists(self, viewer: str, user: SocialClient, seen: set[str]) -> Json:
        """Home, users, public, search. What fan-out has not brought home yet may be missing there, and nothing else."""
        model = self.history.model
        wanted: dict[str, set[str]] = {
            "/v1/timelines/public": {p for p in model.listed(viewer) if model.is_open(p)},
            "/v1/search": model.listed(viewer),
        }
        for author in self.history.names:
            wanted[f"/v1/timelines/user/{author}"] = {p for p in seen if model.posts[p].author == author}
        shown = {
            path: self._ids(user, path, **({"q": self.history.word} if "search" in path else {})) for path in wanted
        }
        found = {f"{viewer} {path}": shown[path] for path in wanted if sorted(shown[path]) != sorted(wanted[path])}
        home, own = user.walk("/v1/timelines/home"), {p for p in seen if model.posts[p].author == viewer}
        ids = [post["post_id"] for post in home]
        by = {post["reposted_by"] for post in home if "reposted_by" in post}
        if not own <= set(ids) <= model.home(viewer) or len(ids) != len(set(ids)) or by & model.suspended:
            found[f"{viewer} home"] = ids
        return found

    def _ids(self, user: SocialClient, path: str, **params: str) -> list[str]:
        """Those of this history: others may go on beside it."""
        return [post["post_id"] for post in user.walk(path, **params) if post["author_id"] in self.history.users]

    def _stream(self, viewer: str, user: SocialClient) -> Json:
        """What a home's stream tells from where it was cut off: it may be late, and only of what may be at home now."""
        told = self.streams.setdefault(viewer, HomeStream(user)).look()
        wrong = [post_id for post_id in told if post_id not in self.history.model.home(viewer)]
        return {f"{viewer} stream": wrong} if wrong or len(told) != len(set(told)) else {}

    def await_told(self, posts: set[str]) -> None:
        """Until every stream has told those of these posts that belong into its home. Raises NotInTime."""
        for viewer, user in self.history.users.items():
            stream, wanted = self.streams.setdefault(viewer, HomeStream(user)), posts & self.history.model.home(viewer)
            left = partial(_left, stream, wanted)
            user.becomes(f"what the stream of {viewer} has not told", left, set())

    def _told(self, viewer: str, user: SocialClient, seen: set[str]) -> Json:
        """Notifications: about what may be seen, of who is there and not muted; of decisions, its author."""
        model, told = self.history.model, user.walk("/v1/notifications")
        decided = {one["post_id"] for one in told if one["kind"] == "moderation"} - {None}
        posts = {one["post_id"] for one in told if one["kind"] != "moderation"} - {None}
        posts |= {post_id for post_id in decided if model.posts[post_id].author != viewer}
        actors, gone = {one["actor_id"] for one in told} - {None}, model.suspended | model.erased
        wrong = {a for a in actors if model.blocked(viewer, a) or a in gone or (viewer, a) in model.mutes}
        return {f"{viewer} told": [posts - seen, wrong]} if posts - seen or wrong else {}

    def _export(self, viewer: str, user: SocialClient) -> Json:
        """An export has one's own, as it is now, and no word of anybody else."""
        if viewer in self.history.model.suspended:
            return {}
        model, answer = self.history.model, user.get(f"/v1/me/exports/{self.history.exports[viewer]}/content")
        if answer.is_error:
            return {f"{viewer} export": [answer.status_code, answer.text]}
        lines = [json.loads(line) for line in answer.text.splitlines()]
        texts = {line["post_id"]: line["text"] for line in lines if line["object"] == "post"}
        reactions = {(line["object"], line["post_id"]) for line in lines if line["object"] in {"like", "repost"}}
        wanted = {("like", p) for u, p in model.likes if u == viewer} | {
            ("repost", p) for u, p in model.reposts if u == viewer
        }
        own = {post_id: model.posts[post_id].text for post_id in model.own(viewer)}
        return {} if texts == own and reactions == wanted else {f"{viewer} export": [texts, reactions ^ wanted]}

    def _one(self, viewer: str, user: SocialClient, seen: set[str], post_id: str) -> Json:
        """A post by itself: the answer, its versions, counts, quote, parent, thread, and the URLs of its media."""
        model, post = self.history.model, self.history.model.posts[post_id]
        found: Json = {}
        asked_at = time.monotonic()
        answer = user.get(f"/v1/posts/{post_id}")
        status = self._status(viewer, seen, post_id)
        if {answer.status_code, user.get(f"/v1/posts/{post_id}/versions").status_code} != {status}:
            found[f"{viewer} {post_id}"] = [status, answer.text]
        if status != _FOUND or answer.status_code != _FOUND:
            return found
        shown = answer.json()
        found |= self._labels(viewer, post_id, shown)
        if shown["text"] != post.text or shown["counts"] != model.counts(viewer, post_id):
            found[f"{viewer} counts of {post_id}"] = [shown["counts"], model.counts(viewer, post_id)]
        if post.quote_of and shown["quote"].get("unavailable", False) == (post.quote_of in seen):
            found[f"{viewer} quote of {post_id}"] = shown["quote"]
        if post.reply_to:
            parent = user.get(f"/v1/posts/{post.reply_to}").status_code
            if parent != self._status(viewer, seen, post.reply_to):
                found[f"{viewer} parent of {post_id}"] = parent
        if sorted(user.ids(f"/v1/timelines/thread/{post_id}")) != sorted(model.thread(viewer, post_id)):
            found[f"{viewer} thread of {post_id}"] = model.thread(viewer, post_id)
        answers = model.replies(viewer, post_id)
        if answers is not None and sorted(user.ids(f"/v1/posts/{post_id}/replies")) != sorted(answers):
            found[f"{viewer} replies to {post_id}"] = sorted(answers)
        urls = [rendition["url"] for one in shown["media"] for rendition in one["renditions"]]
        if bool(urls) != model.is_served(post_id):
            found[f"{viewer} media of {post_id}"] = shown["media"]
        self.urls |= dict.fromkeys(urls, (post_id, model.access(post_id), asked_at))
        return found

    def _labels(self, viewer: str, post_id: str, shown: Json) -> Json:
        """All who see a post are told its labels, the last one first."""
        wanted: list[str | None] = [*reversed(self.history.model.labels.get(post_id, {}))]
        told = [one["label"] for one in shown["labels"]], shown["label"]
        return {} if told == (wanted, [*wanted, None][0]) else {f"{viewer} labels of {post_id}": [told, wanted]}

    def _status(self, viewer: str, seen: set[str], post_id: str) -> int:
        """A deleted one is gone for its author, and like any hidden one for others."""
        post = self.history.model.posts[post_id]
        if post_id in seen:
            return _FOUND
        return _GONE if post.is_deleted and post.author == viewer else _MISSING

    def _media(self) -> Json:
        """Every URL that anybody was given is good until its post is hidden from anybody, and never again."""
        model = self.history.model
        found: Json = {}
        for url, (post_id, access, given_at) in list(self.urls.items()):
            is_good = model.is_served(post_id) and access == model.access(post_id)
            wanted = _FOUND if is_good else _MISSING
            status = None if _ends(given_at) else self._fetched(url, wanted)
            is_over = _ends(given_at)  # asked again: while the origin was away, one that is signed ended by itself
            if status not in (wanted, None) and not (is_over and status == _MISSING):
                found[f"{post_id} {url}"] = [status, is_good]
            if is_over or not is_good:
                del self.urls[url]  # looked at once after it ended
        return found

    def _fetched(self, url: str, wanted: int) -> int:
        """The status of a URL; where there is a cache, that of when its copies have ended."""
        until = time.monotonic() + self.cached_s
        while (status := self.history.moderator.fetch(url)) != wanted and time.monotonic() < until:
            time.sleep(_POLL_S)
        return status


def _left(stream: HomeStream, wanted: set[str]) -> set[str]:
    """What of these a stream has not told, after one more look."""
    stream.look()
    return wanted - stream.told


def _ends(given_at: float) -> bool:
    """A URL that is signed may end any moment, or has ended."""
    return time.monotonic() - given_at > limits.MEDIA_VIEW_TTL_S - _MARGIN_S
