"""A command is decided after those before it, in one batch too: what they hid of a post is hidden."""

from __future__ import annotations

from typing import Any, Final

from dataflows.owner.service import Committed
from dataflows.social.batch import SocialBatch
from dataflows.social.domain.moderation import Current
from dataflows.social.partition import HANDLERS
from dataflows.social.rows import SQL
from schemas.records import Rejection
from tests.each import each
from tests.unit.social.test_social_decisions import AUTHOR, command

_POST: Final = "po_1"
#: what u_1 does to the post of u_2
_ACTS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "like": ("like_post", {"post_id": _POST}),
    "repost": ("repost_post", {"post_id": _POST}),
    "reply": ("publish_post", {"text": "x", "reply_to": _POST}),
    "quote": ("publish_post", {"text": "x", "quote_of": _POST}),
}


def _batch(owner: str = "u_2", visibility: str = "public", *, is_followed: bool = True, state: str = "active") -> Any:
    """A batch of u_1 that has read a post which u_1 may see."""
    users = [(name, "", state if name == "u_2" else "active", False, 0, False, 1, 0) for name in ("u_1", "u_2")]
    post = (_POST, owner, visibility, "x", 1, "published", (), None, _POST, None, True, 1, None)
    return SocialBatch(
        {
            "authors_read": users,
            "posts_seen": [("u_1", _POST, owner, _POST, "published", visibility, False, is_followed)],
            "posts_read": [post] if owner == "u_1" else [],
            "follows_read": [("u_1", "u_2", "active", 1, 1, 1)] if is_followed else [],
        }
    )


def _told(batch: SocialBatch, operation: str, version: int | None = None, **payload: Any) -> str:
    caller = batch.authors.get("u_1") or AUTHOR
    found = HANDLERS[operation].decide(batch, caller, command(operation, version, **payload), 7)
    return "done" if isinstance(found, Committed) else found.code


def _acts(batch: SocialBatch) -> dict[str, str]:
    return {name: _told(batch, operation, **payload) for name, (operation, payload) in _ACTS.items()}


def test_after_a_block_nothing_of_the_other_is_answered_quoted_or_liked() -> None:
    batch = _batch()
    assert set(_acts(batch).values()) == {"done"}
    assert _told(batch, "block", user_id="u_2") == "done"
    assert set(_acts(batch).values()) == {"not_found"}


def test_after_the_end_of_an_edge_what_followers_see_is_not_there() -> None:
    batch = _batch(visibility="followers")
    assert _acts(batch) == {"like": "done", "repost": "invalid_command", "reply": "done", "quote": "invalid_command"}
    assert _told(batch, "unfollow", user_id="u_2") == "done"
    assert set(_acts(batch).values()) == {"not_found"}


def test_ones_own_post_that_is_for_fewer_now_is_neither_reposted_nor_quoted() -> None:
    batch = _batch("u_1", is_followed=False)
    assert set(_acts(batch).values()) == {"done"}
    assert _told(batch, "edit_post", 1, post_id=_POST, visibility="private") == "done"
    assert _acts(batch) == {"like": "done", "repost": "invalid_command", "reply": "done", "quote": "invalid_command"}
    assert _told(batch, "delete_post", 2, post_id=_POST) == "done"
    assert set(_acts(batch).values()) == {"gone"}


def test_the_author_turns_private_is_suspended_or_has_its_post_removed() -> None:
    """Where all lies in one partition: by commands that were put between."""

    def turned_private(*, is_followed: bool) -> dict[str, str]:
        batch = _batch(is_followed=is_followed)
        other = batch.authors.get("u_2")
        said = command("change_profile", is_private=True)
        assert isinstance(HANDLERS["change_profile"].decide(batch, other, said, 7), Committed)
        return _acts(batch)

    assert set(turned_private(is_followed=False).values()) == {"not_found"}
    assert turned_private(is_followed=True) == {
        "like": "done",
        "repost": "invalid_command",
        "reply": "done",
        "quote": "invalid_command",
    }
    assert set(_acts(_batch(state="suspended")).values()) == {"not_found"}
    removed = _batch()
    removed.docket.currents.put(Current(object_id=_POST, effect="remove", decision_id="mo_1", version=1))
    assert set(_acts(removed).values()) == {"not_found"}


def test_ones_own_post_that_was_taken_down_is_not_shown_again_by_another_of_ones_own() -> None:
    """Answered, quoted or reposted, it would be; a like of it shows nothing. Taken down in the batch, or before it."""
    before = SocialBatch({"posts_seen": [("u_1", _POST, "u_1", _POST, "published", "public", False, False, True)]})
    before.authors.put(_batch("u_1", is_followed=False).authors.get("u_1"))
    within = _batch("u_1", is_followed=False)
    within.docket.currents.put(Current(object_id=_POST, effect="remove", decision_id="mo_1", version=1))
    for batch in (before, within):
        refused = "state_conflict"
        assert _acts(batch) == {"like": "done", "repost": refused, "reply": refused, "quote": refused}
    within.docket.currents.put(Current(object_id=_POST, effect="none", decision_id="mo_2", version=2))
    assert set(_acts(within).values()) == {"done"}


def test_of_edits_in_one_batch_the_last_says_who_is_told_of_a_mention() -> None:
    """What was told before is withdrawn first: so who is named again is told anew. Nothing is, of what is removed."""
    said = {True: "for @u_2", False: "for nobody"}

    def written(*texts: bool, is_removed: bool = False) -> tuple[list[str] | None, bool]:
        batch = _batch("u_1", is_followed=False)
        if is_removed:
            batch.docket.currents.put(Current(object_id=_POST, effect="remove", decision_id="mo_1", version=1))
        for version, is_named in enumerate(texts, 1):
            assert _told(batch, "edit_post", version, post_id=_POST, text=said[is_named]) == "done"
        found = dict(batch.writes())
        kept = found.get(SQL["mentions_delete"])
        return list(kept[2].values) if kept else None, SQL["notifications_insert"] in found

    assert written(True) == (["u_2"], True)
    assert written(False) == ([], False)
    assert written(True, False) == ([], False)
    assert written(True, False, True) == ([], True)
    assert written(True, True) == (["u_2"], True)
    assert written(False, is_removed=True) == (None, False)


@each(("author", "code"), [("u_1", "gone"), ("u_2", "not_found")])
def test_a_tombstone_is_gone_for_its_author_alone(author: str, code: str) -> None:
    row = ("u_1", _POST, author, _POST, "deleted", "public", False, False)
    found = SocialBatch({"posts_seen": [row]}).seen("u_1", _POST)
    assert isinstance(found, Rejection)
    assert found.code == code
