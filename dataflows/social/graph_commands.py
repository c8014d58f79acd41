"""Commands of the graph. Both users are locked before anything of them is read: a follow and a block cannot cross."""

from __future__ import annotations

from typing import Final

from dataflows.owner.service import Committed
from dataflows.social.asking import Asking
from dataflows.social.batch import Notice, SocialBatch
from dataflows.social.domain import edge_decisions, refusals
from dataflows.social.domain.records import Author, Edge, rendered_block, rendered_follow
from dataflows.social.handler import Handler, Payload, committed
from schemas.records import Command, Rejection
from schemas.refusals import stale


def _asks(asking: Asking, user: str, payload: Payload) -> None:
    other = str(payload.get("user_id"))
    asking.lock(user, other)
    asking.follows.update({(user, other), (other, user)})
    asking.blocks.update({(user, other), (other, user)})
    asking.mutes.add((user, other))


def _other(batch: SocialBatch, caller: Author, command: Command) -> Author | Rejection:
    """The other user, who must be there for the caller."""
    name = str(command.payload["user_id"])
    if name == caller.user_id:
        return refusals.ONESELF
    other = batch.authors.get(name)
    return other if other is not None and batch.have_met(caller.user_id, name) else refusals.NO_USER


def _stale(command: Command, edge: Edge | None) -> Rejection | None:
    return stale(command.expected_version, 0 if edge is None else edge.version)


def _follow(batch: SocialBatch, caller: Author, command: Command, now: int) -> Committed | Rejection:
    other = _other(batch, caller, command)
    if isinstance(other, Rejection):
        return other
    if caller.state != "active":
        return refusals.SUSPENDED
    before = batch.follows.get((caller.user_id, other.user_id))
    if refused := _stale(command, before):
        return refused
    after = edge_decisions.decide_follow(before, caller.user_id, other, now)
    if not batch.put_follow(after):
        return committed(rendered_follow(after), caller, "unchanged")
    kind = "follow" if after.state == "active" else "follow_request"
    batch.tell(Notice(other.user_id, kind, caller.user_id, "", now))
    return committed(rendered_follow(after), caller, "followed", target_id=other.user_id, state=after.state)


def _unfollow(batch: SocialBatch, caller: Author, command: Command, now: int) -> Committed | Rejection:
    other = _other(batch, caller, command)
    if isinstance(other, Rejection):
        return other
    before = batch.follows.get((caller.user_id, other.user_id))
    if refused := _stale(command, before):
        return refused
    after = edge_decisions.removed(before, now)
    if after is None:
        return committed(rendered_follow(edge_decisions.never(caller.user_id, other.user_id)), caller, "unchanged")
    if not batch.put_follow(after):
        return committed(rendered_follow(after), caller, "unchanged")
    return committed(rendered_follow(after), caller, "unfollowed", target_id=other.user_id, state=after.state)


def _answer(batch: SocialBatch, caller: Author, command: Command, now: int) -> Committed | Rejection:
    other = _other(batch, caller, command)
    if isinstance(other, Rejection):
        return other
    is_accepted = command.operation == "accept_follow"
    before = batch.follows.get((other.user_id, caller.user_id))
    after = edge_decisions.decide_answer(before, is_accepted=is_accepted, now=now)
    if isinstance(after, Rejection):
        return after
    if refused := _stale(command, before):
        return refused
    if not batch.put_follow(after):
        return committed(rendered_follow(after), caller, "unchanged")
    kind = "follow_accepted" if is_accepted else "follow_rejected"
    return committed(rendered_follow(after), caller, kind, target_id=other.user_id, state=after.state)


def _block(batch: SocialBatch, caller: Author, command: Command, now: int) -> Committed | Rejection:
    """Ends both edges in the same transaction. Blocked again it stays; whom somebody blocks cannot block it back."""
    name = str(command.payload["user_id"])
    before = batch.blocks.get((caller.user_id, name))
    if before is not None and before.state == "active":
        return _stale(command, before) or committed(rendered_block(before, "block"), caller, "unchanged")
    other = _other(batch, caller, command)
    if isinstance(other, Rejection):
        return other
    if refused := _stale(command, before):
        return refused
    after = edge_decisions.moved(before, caller.user_id, name, "active", now)
    batch.put_block(after)
    for pair in ((caller.user_id, name), (name, caller.user_id)):
        ended = edge_decisions.removed(batch.follows.get(pair), now)
        if ended is not None:
            batch.put_follow(ended)
    return committed(rendered_block(after, "block"), caller, "blocked", target_id=name, state=after.state)


def _end(batch: SocialBatch, caller: Author, command: Command, now: int) -> Committed | Rejection:
    """Ends a block of one's own, whatever became of the other, or a mute, unless a block stands between both."""
    word = command.operation.removeprefix("un")
    held = batch.blocks if word == "block" else batch.mutes
    name = str(command.payload["user_id"])
    between = (batch.blocks.get((caller.user_id, name)), batch.blocks.get((name, caller.user_id)))
    if word == "mute" and any(block is not None and block.state == "active" for block in between):
        return refusals.NO_USER
    before = held.get((caller.user_id, name))
    other = _other(batch, caller, command)
    if before is None and isinstance(other, Rejection):
        return other
    if refused := _stale(command, before):
        return refused
    after = edge_decisions.removed(before, now)
    if after is None:
        return committed(rendered_block(edge_decisions.never(caller.user_id, name), word), caller, "unchanged")
    if after == before:
        return committed(rendered_block(after, word), caller, "unchanged")
    if word == "block":
        batch.put_block(after)
    else:
        batch.mutes.put(after)
    return committed(rendered_block(after, word), caller, f"{word}_ended", target_id=name, state=after.state)


def _mute(batch: SocialBatch, caller: Author, command: Command, now: int) -> Committed | Rejection:
    other = _other(batch, caller, command)
    if isinstance(other, Rejection):
        return other
    before: Edge | None = batch.mutes.get((caller.user_id, other.user_id))
    if refused := _stale(command, before):
        return refused
    after = edge_decisions.moved(before, caller.user_id, other.user_id, "active", now)
    if after == before:
        return committed(rendered_block(after, "mute"), caller, "unchanged")
    batch.mutes.put(after)
    return committed(rendered_block(after, "mute"), caller, "muted", target_id=other.user_id, state=after.state)


HANDLERS: Final[dict[str, Handler]] = {
    "follow": Handler(_asks, _follow),
    "unfollow": Handler(_asks, _unfollow),
    "accept_follow": Handler(_asks, _answer),
    "reject_follow": Handler(_asks, _answer),
    "block": Handler(_asks, _block),
    "unblock": Handler(_asks, _end),
    "mute": Handler(_asks, _mute),
    "unmute": Handler(_asks, _end),
}
