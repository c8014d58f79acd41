"""Commands of posts, likes and reposts."""

from __future__ import annotations

from typing import Any, Final

from msgspec import structs

from dataflows.owner.service import Committed
from dataflows.social.asking import Asking
from dataflows.social.batch import Notice, SocialBatch
from dataflows.social.domain import post_decisions, refusals
from dataflows.social.domain.post_decisions import Seen
from dataflows.social.domain.records import Author, Post, rendered_post
from dataflows.social.handler import Handler, Payload, committed
from dataflows.social.media.commands import claim, release
from dataflows.social.tables import Reaction
from schemas.records import Command, Rejection
from schemas.refusals import stale


def _asks_publish(asking: Asking, user: str, payload: Payload) -> None:
    asking.authors.add(user)
    asking.media.update(_ids(payload))
    for post_id in (payload.get("reply_to"), payload.get("quote_of")):
        if isinstance(post_id, str):
            asking.seen.add((user, post_id))


def _publish(batch: SocialBatch, author: Author, command: Command, now: int) -> Committed | Rejection:
    if author.state != "active":
        return refusals.SUSPENDED
    if refused := stale(command.expected_version, 0):
        return refused
    said: dict[str, Any] = command.payload
    parent, quoted = (_answered(batch, author, said[field]) for field in ("reply_to", "quote_of"))
    post = post_decisions.decide_publish(author, command, now, parent, quoted)
    if isinstance(post, Rejection):
        return post
    if refused := claim(batch, author, post, (), now):
        return refused
    batch.put_post(post)
    _tell(batch, post, parent, quoted, now)
    pushed = post_decisions.comes_home(None, post)
    return committed(rendered_post(post), author, "post_published", post_id=post.post_id, pushed=pushed)


def _answered(batch: SocialBatch, author: Author, post_id: str | None) -> Seen | Rejection | None:
    return None if post_id is None else batch.seen(author.user_id, post_id)


def _tell(
    batch: SocialBatch, post: Post, parent: Seen | Rejection | None, quoted: Seen | Rejection | None, now: int
) -> None:
    told = [(seen.author_id, kind) for seen, kind in ((parent, "reply"), (quoted, "quote")) if isinstance(seen, Seen)]
    told += [(user, "mention") for user in post_decisions.mentioned(post.text, post.author_id)]
    for user, kind in told:
        batch.tell(Notice(user, kind, post.author_id, post.post_id, now))


def _asks_change(asking: Asking, user: str, payload: Payload) -> None:
    asking.authors.add(user)
    asking.posts.add(str(payload.get("post_id")))
    asking.media_of_posts.add(str(payload.get("post_id")))
    asking.media.update(_ids(payload))


def _asks_edit(asking: Asking, user: str, payload: Payload) -> None:
    _asks_change(asking, user, payload)
    asking.seen.add((user, str(payload.get("post_id"))))


def _ids(payload: Payload) -> list[str]:
    named = payload.get("media_ids")
    return [str(media_id) for media_id in named] if isinstance(named, list | tuple) else []


def _edit(batch: SocialBatch, author: Author, command: Command, now: int) -> Committed | Rejection:
    post = batch.posts.get(str(command.payload["post_id"]))
    if refused := post_decisions.why_not_changed(post, author.user_id, command.expected_version):
        return refused
    assert post is not None  # noqa: S101 - one that is none is refused
    if author.state != "active":
        return refusals.SUSPENDED
    after = post_decisions.edited(post, command, now)
    if post_decisions.shows_nothing(post, after):
        return refusals.NOTHING_LEFT
    if refused := claim(batch, author, after, post.media_ids, now):
        return refused
    batch.put_post(after)
    seen = batch.seen(author.user_id, after.post_id)
    if isinstance(seen, Seen) and not seen.is_removed:  # else a reversed decision would not bring all of it back
        batch.keep_mentions(after.post_id, post_decisions.named(after.text))
    for user in post_decisions.mentioned(after.text, author.user_id):
        batch.tell(Notice(user, "mention", author.user_id, after.post_id, now))
    pushed = post_decisions.comes_home(post, after)
    return committed(rendered_post(after), author, "post_edited", post_id=after.post_id, pushed=pushed)


def _delete(batch: SocialBatch, author: Author, command: Command, now: int) -> Committed | Rejection:
    post = batch.posts.get(str(command.payload["post_id"]))
    if refused := post_decisions.why_not_changed(post, author.user_id, command.expected_version):
        return refused
    assert post is not None  # noqa: S101 - one that is none is refused
    after = post_decisions.deleted(post, now)
    release(batch, post.media_ids, now)
    batch.put_post(after)
    return committed(rendered_post(after), author, "post_deleted", post_id=after.post_id)


def _asks_reaction(kind: str) -> Handler:
    def asks(asking: Asking, user: str, payload: Payload) -> None:
        post_id = str(payload.get("post_id"))
        asking.authors.add(user)
        asking.seen.add((user, post_id))
        asking.reactions.add((kind, user, post_id))

    def react(batch: SocialBatch, author: Author, command: Command, now: int) -> Committed | Rejection:
        return _react(batch, author, command, now, kind)

    return Handler(asks, react)


def _react(batch: SocialBatch, author: Author, command: Command, now: int, kind: str) -> Committed | Rejection:
    """One of each kind per user; taken back and given again it is the same one, a version later."""
    seen = batch.seen(author.user_id, str(command.payload["post_id"]))
    if isinstance(seen, Rejection):
        return seen
    is_given = not command.operation.startswith("un")
    before = batch.reactions.get((kind, author.user_id, seen.post_id))
    if refused := _why_no_reaction(author, command, kind, seen, 0 if before is None else before.version):
        return refused
    state = "active" if is_given else "removed"
    is_pushed = not author.is_pulled
    if before is None:
        before = Reaction(
            kind=kind,
            user_id=author.user_id,
            post_id=seen.post_id,
            state="removed",
            is_pushed=is_pushed,
            version=0,
            created_at=now,
            updated_at=now,
        )
    if before.state == state:  # what was never given is not written down either
        return committed(_rendered(before), author, "unchanged")
    after = structs.replace(before, state=state, is_pushed=is_pushed, version=before.version + 1, updated_at=now)
    batch.reactions.put(after)
    if is_given:
        batch.tell(Notice(seen.author_id, kind, author.user_id, seen.post_id, now))
    kinds = {"like": ("post_liked", "post_unliked"), "repost": ("post_reposted", "post_unreposted")}
    happened = kinds[kind][0 if is_given else 1]
    pushed = happened == "post_reposted" and is_pushed
    return committed(_rendered(after), author, happened, post_id=seen.post_id, state=state, pushed=pushed)


def _why_no_reaction(author: Author, command: Command, kind: str, seen: Seen, current: int) -> Rejection | None:
    is_given = not command.operation.startswith("un")
    if is_given and author.state != "active":
        return refusals.SUSPENDED
    if is_given and kind == "repost" and seen.is_removed:
        return refusals.TAKEN_DOWN
    if is_given and kind == "repost" and not seen.is_open:
        return refusals.not_public("post_id")
    return stale(command.expected_version, current)


def _rendered(reaction: Reaction) -> dict[str, object]:
    return {
        "id": f"{reaction.user_id}:{reaction.post_id}",
        "object": reaction.kind,
        "user_id": reaction.user_id,
        "post_id": reaction.post_id,
        "state": reaction.state,
        "version": reaction.version,
    }


HANDLERS: Final[dict[str, Handler]] = {
    "publish_post": Handler(_asks_publish, _publish),
    "edit_post": Handler(_asks_edit, _edit),
    "delete_post": Handler(_asks_change, _delete),
    "like_post": _asks_reaction("like"),
    "unlike_post": _asks_reaction("like"),
    "repost_post": _asks_reaction("repost"),
    "unrepost_post": _asks_reaction("repost"),
}
