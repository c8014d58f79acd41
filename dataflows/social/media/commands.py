"""Commands of media: those of their owner, those of the scanner, and what a post does to the media that it takes.

All of them lie in the owner's partition, so a claim needs no lock: whoever comes second finds the medium taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dataflows.owner.service import Committed, NewEvent
from dataflows.social.asking import Asking
from dataflows.social.batch import SocialBatch
from dataflows.social.domain import media, refusals
from dataflows.social.domain.media import Media
from dataflows.social.domain.records import Author, Post
from dataflows.social.handler import Handler, Payload, WorkerHandler
from schemas import identity
from schemas.records import Command, Rejection
from schemas.refusals import stale

_TEMPLATE: Final = "POST /v1/media/uploads"
_MISMATCH: Final = Rejection("checksum_mismatch", "The bytes are not those that were declared; begin a new upload.")


def _asks_room(asking: Asking, user: str, payload: Payload) -> None:
    del payload
    asking.authors.add(user)
    asking.media_room.add(user)


def _asks_one(asking: Asking, user: str, payload: Payload) -> None:
    asking.authors.add(user)
    asking.media.add(str(payload.get("media_id")))


def _asks_of_worker(asking: Asking, payload: Payload) -> None:
    asking.media.add(str(payload.get("media_id")))


def _initiate(batch: SocialBatch, author: Author, command: Command, now: int) -> Committed | Rejection:
    if author.state != "active":
        return refusals.SUSPENDED
    if refused := stale(command.expected_version, 0):
        return refused
    media_id = identity.derived_id("md", command.scope, _TEMPLATE, command.idempotency_key)
    new = media.initiated(media_id, author.user_id, command.payload, now)
    if refused := media.why_no_room(batch.room(author.user_id), new.size):
        return refused
    parts = command.payload["parts"] or [{"bytes": new.size, "sha256": new.sha256}]
    batch.begin_upload(new, [(part["bytes"], part["sha256"]) for part in parts])  # type: ignore[attr-defined] # validated
    return _committed(new, "media_initiated")


def _complete(batch: SocialBatch, author: Author, command: Command, now: int) -> Committed | Rejection:
    """Only the ingress, which put the parts together, knows whether they are the whole: it is in the signals."""
    known = batch.media.get(str(command.payload["media_id"]))
    after = media.completed(known, author.user_id, (command.signals or {}).get("assembled", ""), now)
    if isinstance(after, Rejection):
        return after
    if known is not None and (refused := stale(command.expected_version, known.version)):
        return refused
    batch.media.put(after)
    # The refusal is the answer, and the end of the upload is in the same commit.
    return _MISMATCH if after.scan_state == "checksum_failed" else _committed(after, "media_completed")


def _delete(batch: SocialBatch, author: Author, command: Command, now: int) -> Committed | Rejection:
    """Also by who is suspended: nothing of it is shown."""
    known = batch.media.get(str(command.payload["media_id"]))
    after = media.taken_back(known, author.user_id, now)
    if isinstance(after, Rejection):
        return after
    if known is not None and (refused := stale(command.expected_version, known.version)):
        return refused
    batch.end_upload(after)
    return _committed(after, "media_deleted")


def _record_scan(batch: SocialBatch, command: Command, now: int) -> Committed | Rejection:
    """What was found; a content that operators have blocked since its scan began is refused like one of before."""
    known, said = _named(batch, command), command.payload
    manifest = said["manifest"] if isinstance(said["manifest"], str) else None
    outcome = str(said["outcome"]) if manifest is not None or said["outcome"] != "ready" else "rejected"
    if outcome == "ready" and known is not None and known.media_id in batch.media_blocked:
        outcome = "infected"
    return _changed(batch, media.scanned(known, outcome, manifest, now))


def _expire(batch: SocialBatch, command: Command, now: int) -> Committed | Rejection:
    return _changed(batch, media.expired(_named(batch, command), now))


def _named(batch: SocialBatch, command: Command) -> Media | None:
    """The medium, where the command lies with its owner's."""
    found = batch.media.get(str(command.payload["media_id"]))
    return found if found is not None and command.aggregate_key == f"user:{found.owner_id}" else None


def _changed(batch: SocialBatch, after: Media | Rejection) -> Committed | Rejection:
    if isinstance(after, Rejection):
        return after
    batch.media.put(after)
    return _committed(after, f"media_{after.scan_state}")


def _committed(after: Media, kind: str) -> Committed:
    body = {"kind": kind, "target_id": after.media_id, "state": after.scan_state, "post_id": None, "pushed": False}
    return Committed(media.rendered(after), (NewEvent(after.version, f"user:{after.owner_id}", body),))


def claim(batch: SocialBatch, author: Author, post: Post, before: Iterable[str], now: int) -> Rejection | None:
    """Takes all media of a post, or none of them; those that it had before and has no more come to their end."""
    found, hidden = known(batch, post.media_ids), batch.media_removed | batch.media_blocked
    if refused := media.not_ready(post.media_ids, author.user_id, post.post_id, found, hidden):
        return refused
    for media_id in post.media_ids:
        batch.media.put(media.attached(found[media_id], post.post_id, now))
    release(batch, [media_id for media_id in before if media_id not in post.media_ids], now)
    return None


def release(batch: SocialBatch, media_ids: Iterable[str], now: int) -> None:
    """The end of media that their post has no more."""
    for one in known(batch, media_ids).values():
        batch.media.put(media.deleted(one, now))


def known(batch: SocialBatch, media_ids: Iterable[str]) -> dict[str, Media]:
    """Those of them that there are."""
    found = ((media_id, batch.media.get(media_id)) for media_id in media_ids)
    return {media_id: one for media_id, one in found if one is not None}


HANDLERS: Final[dict[str, Handler]] = {
    "initiate_upload": Handler(_asks_room, _initiate),
    "complete_upload": Handler(_asks_one, _complete),
    "delete_upload": Handler(_asks_one, _delete),
}
WORKER_HANDLERS: Final[dict[str, WorkerHandler]] = {
    "record_scan": WorkerHandler(_asks_of_worker, _record_scan),
    "expire_upload": WorkerHandler(_asks_of_worker, _expire),
}
