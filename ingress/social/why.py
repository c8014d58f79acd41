"""Why somebody sees a post, or does not: what is its own to know, and of everything else the same few words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ingress.http.store import Store

Json = dict[str, Any]
_DECIDED: Final = {"remove": "taken_down", "limit": "limited", "label": "labelled"}
_KEPT: Final = {"followers": "followers_only", "private": "only_you"}


class Why:
    """Reads of one process."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def of(self, viewer: str, post_id: str) -> Json:
        """Whether the viewer sees a post, whether its home has it, and the reasons.

        What is missing, hidden from it, behind a block, taken down or deleted by another one is one and the same
        answer. Of one's own post it is told who else sees it and why not, with what can be appealed against.
        """
        rows = await self._store.records("post_why", {"viewer": viewer, "id": post_id})
        if not rows:
            return _said(post_id, [{"reason": "not_available"}], is_seen=False, is_in_home=False)
        (row,) = rows
        if row["is_own"]:
            return await self._own(viewer, post_id, row)
        reasons = _of_another(row)
        return _said(post_id, reasons, is_seen=True, is_in_home=reasons[0]["reason"] in ("followed", "reposted"))

    async def _own(self, viewer: str, post_id: str, row: Json) -> Json:
        if row["state"] == "deleted":
            return _said(post_id, [{"reason": "deleted"}], is_seen=False, is_in_home=False)
        given = {"viewer": viewer, "id": post_id}
        reasons: list[Json] = [{"reason": "own", "user_id": viewer}]
        for object_id, decision, decision_id, appeal in await self._store.rows("post_why_decided", given):
            decided = {"reason": _DECIDED[decision], "object_id": object_id, "decision_id": decision_id}
            reasons.append(decided | {"appeal": appeal, "may_appeal": appeal is None})
        for media_id, state in await self._store.rows("post_why_media", given):
            reasons.append({"reason": "media_waits", "media_id": media_id, "scan_state": state})
        if kept := _KEPT.get(row["visibility"]) or ("private_account" if row["is_private"] else None):
            reasons.append({"reason": kept})
        is_shown = not row["is_suspended"]  # with its author it is shown to nobody, its author neither
        return _said(post_id, reasons, is_seen=is_shown, is_in_home=is_shown)


def _of_another(row: Json) -> list[Json]:
    """What brings it home, or what keeps it from there, all of it the viewer's own doing."""
    if row["is_muted"]:
        return [{"reason": "muted", "user_id": row["author_id"]}]
    if row["is_followed"]:
        return [{"reason": "followed", "user_id": row["author_id"]}]
    if row["reposted_by"]:
        return [{"reason": "reposted", "user_id": row["reposted_by"]}]
    return [{"reason": "not_followed", "user_id": row["author_id"]}]


def _said(post_id: str, reasons: list[Json], *, is_seen: bool, is_in_home: bool) -> Json:
    said = {"object": "post_why", "post_id": post_id, "is_seen": is_seen, "is_in_home": is_in_home}
    return said | {"reasons": reasons}
