"""Decides what becomes of a medium. Pure. A medium only goes forward, and belongs to one post for ever.

initiated -> scanning -> ready -> deleted: with its post, or by its owner before it is in one. Ends are checksum_failed,
infected, rejected and expired, too.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from msgspec import Struct, structs

from schemas.records import Denial, Rejection
from schemas.refusals import state_conflict
from schemas.social import limits

#: final states, in which no byte of the medium is kept
ENDED: Final = frozenset({"checksum_failed", "infected", "rejected", "expired", "deleted"})
_S_US: Final = 1_000_000
_NOT_READY: Final = (
    "Some media are not ready for this post; see media_ids. None was taken: send it when they are, or without them,"
    " with a new key."
)
_NO_SUCH: Final = Rejection("not_found", "No such object.")


class Media(Struct, frozen=True, kw_only=True):
    """One upload and the medium that it becomes."""

    media_id: str
    owner_id: str
    mime: str
    size: int
    sha256: str
    parts: int
    expires_in_s: int
    scan_state: str
    manifest: str | None
    attached_post_id: str | None
    access_version: int
    version: int
    created_at: int
    updated_at: int


class Room(Struct, frozen=True):
    """How many bytes of media a user holds, and how many it may; None: however many."""

    held: int
    quota: int | None

    def with_more(self, size: int) -> Room:
        """With one upload more; with one less, where the size is negative."""
        return structs.replace(self, held=self.held + size)


def why_no_room(room: Room, size: int) -> Denial | None:
    """Rule: the quota is decided in the commit. Not stored: when media have ended, the same identity may ask again."""
    if room.quota is None or room.held + size <= room.quota:
        return None
    numbers: dict[str, object] = {"dimension": "media_bytes", "limit": room.quota, "used": room.held}
    return Denial(
        "quota_exceeded", "The user holds as many bytes of media as it may; delete media, or posts with them.", numbers
    )


def rendered(media: Media) -> dict[str, Any]:
    """The medium as its owner sees it; parts and URLs are added where they are known."""
    return {
        "id": media.media_id,
        "media_id": media.media_id,
        "object": "media",
        "owner_id": media.owner_id,
        "mime": media.mime,
        "bytes": media.size,
        "sha256": media.sha256,
        "scan_state": media.scan_state,
        "created_at_us": media.created_at,
        "expires_in_s": media.expires_in_s,
        "rendition_manifest": None,
        "version": media.version,
    }


def initiated(media_id: str, owner_id: str, payload: dict[str, Any], now: int) -> Media:
    """A new upload, without any bytes."""
    return Media(
        media_id=media_id,
        owner_id=owner_id,
        mime=payload["mime"],
        size=payload["bytes"],
        sha256=payload["sha256"],
        parts=len(payload["parts"] or (1,)),
        expires_in_s=payload["expires_in_s"],
        scan_state="initiated",
        manifest=None,
        attached_post_id=None,
        access_version=1,
        version=1,
        created_at=now,
        updated_at=now,
    )


def completed(known: Media | None, owner_id: str, said: str, now: int) -> Media | Rejection:
    """The upload with all its bytes. ``said``: the result of putting them together (``MediaObjects.assemble``)."""
    if known is None or known.owner_id != owner_id:
        return _NO_SUCH
    if known.scan_state != "initiated":
        return _ended(known)
    if said == "ok":
        return _moved(known, now, scan_state="scanning")
    if said == "checksum_mismatch":
        return _moved(known, now, scan_state="checksum_failed")
    return state_conflict(known.scan_state, "A part has not been received.")


def _ended(known: Media) -> Rejection:
    return state_conflict(known.scan_state, "The upload has been completed, or has ended.")


def scanned(known: Media | None, outcome: str, manifest: str | None, now: int) -> Media | Rejection:
    """The medium after its scan. Only a clean one has renditions."""
    if known is None:
        return _NO_SUCH
    if known.scan_state != "scanning":
        return _ended(known)
    return _moved(known, now, scan_state=outcome, manifest=manifest if outcome == "ready" else None)


def expired(known: Media | None, now: int) -> Media | Rejection:
    """The end of an upload that no post took in time."""
    if known is None:
        return _NO_SUCH
    is_orphan = known.attached_post_id is None and known.scan_state not in ENDED
    if not is_orphan or now < known.created_at + limits.MEDIA_ORPHAN_S * _S_US:
        return state_conflict(known.scan_state, "The medium is in a post, has ended, or may still get a post.")
    return _moved(known, now, scan_state="expired", manifest=None)


def taken_back(known: Media | None, owner_id: str, now: int) -> Media | Rejection:
    """The end of a medium by its owner. What a post has is that post's: it ends with it, or by an edit."""
    if known is None or known.owner_id != owner_id:
        return _NO_SUCH
    if known.scan_state in ENDED:
        return state_conflict(known.scan_state, "The medium has ended.")
    if known.attached_post_id is not None:
        return state_conflict(known.scan_state, "The medium is in a post; edit or delete that.")
    return deleted(known, now)


def not_ready(
    wanted: Collection[str], owner_id: str, post_id: str, known: dict[str, Media], refused: Collection[str] = ()
) -> Rejection | None:
    """The refusal if a post may not have these media: not ready, not its author's, unknown, in another, ``refused``."""

    def is_ready(media_id: str) -> bool:
        media = known.get(media_id)
        if media is None or media.owner_id != owner_id or media.scan_state != "ready":
            return False
        return media.attached_post_id == post_id or (media.attached_post_id is None and media_id not in refused)

    unready = [media_id for media_id in wanted if not is_ready(media_id)]
    if not unready:
        return None
    return Rejection("media_not_ready", _NOT_READY, {"media_ids": unready})


def attached(media: Media, post_id: str, now: int) -> Media:
    """The medium as part of its post, under new URLs: a cache may remember that an old URL led nowhere."""
    if media.attached_post_id == post_id:
        return media
    return _moved(media, now, attached_post_id=post_id, access_version=media.access_version + 1)


def deleted(media: Media, now: int) -> Media:
    """The end of a medium, with its post, by an edit or by its owner; its old URLs lead nowhere."""
    if media.scan_state in ENDED:
        return media
    return _moved(media, now, scan_state="deleted", manifest=None, access_version=media.access_version + 1)


def _moved(media: Media, now: int, **changes: Any) -> Media:
    return structs.replace(media, version=media.version + 1, updated_at=now, **changes)
