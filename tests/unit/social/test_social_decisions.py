"""What becomes of posts and edges, by the pure decisions alone."""

from __future__ import annotations

from typing import Any

import pytest

from dataflows.owner.service import Committed
from dataflows.social.batch import Notice, SocialBatch
from dataflows.social.domain import edge_decisions, post_decisions, refusals
from dataflows.social.domain.post_decisions import Seen
from dataflows.social.domain.records import Author, Edge, Post, rendered_post
from dataflows.social.partition import HANDLERS
from schemas.operation import Named
from schemas.records import Command, Rejection
from schemas.refusals import version_conflict
from schemas.social import limits
from schemas.social.service import OPERATIONS, SERVICE
from tests.each import each

AUTHOR = Author(
    user_id="u_1",
    display_name="",
    state="active",
    is_private=False,
    followers=0,
    is_pulled=False,
    version=1,
    updated_at=0,
)
OPEN = Seen("po_1", "u_2", "po_root", "published", "public", is_private=False, is_followed=False)
CLOSED = Seen("po_2", "u_2", "po_2", "published", "followers", is_private=False, is_followed=True)


def command(operation: str, expected_version: int | None = None, **payload: Any) -> Command:
    declared = SERVICE.operation_by_name[operation]
    said, wrong = declared.normalize(payload)
    assert wrong == []
    return Command(
        operation=operation,
        request_id="r",
        idempotency_key="k",
        aggregate_key="user:u_1",
        expected_version=expected_version,
        scope="user:u_1",
        request_hash=bytes(32),
        trace_id="t",
        issued_at=1,
        deadline_at=0,
        reply_to=-1,
        reply_id=0,
        payload=said,
    )


def post(**changes: Any) -> Post:
    made = post_decisions.decide_publish(AUTHOR, command("publish_post", text="one"), 7, None, None)
    assert isinstance(made, Post)
    return Post(**{name: getattr(made, name) for name in Post.__struct_fields__} | changes)


def test_a_post_is_named_by_its_command_and_stands_in_the_thread_of_what_it_answers() -> None:
    said = command("publish_post", text="x", reply_to="po_1")
    one = post_decisions.decide_publish(AUTHOR, said, 7, OPEN, None)
    again = post_decisions.decide_publish(AUTHOR, said, 7, OPEN, None)
    assert one == again
    assert isinstance(one, Post)
    assert (one.root_id, one.version, one.is_pushed) == ("po_root", 1, True)
    assert post().root_id == post().post_id


@pytest.mark.parametrize(
    ("field", "seen"), [("reply_to", refusals.NO_POST), ("quote_of", refusals.DELETED), ("quote_of", CLOSED)]
)
def test_what_is_answered_or_quoted_must_be_there_and_a_quote_open(field: str, seen: Seen | Rejection) -> None:
    said = command("publish_post", text="x", **{field: "po_2"})
    parent, quoted = (seen, None) if field == "reply_to" else (None, seen)
    refused = post_decisions.decide_publish(AUTHOR, said, 7, parent, quoted)
    assert refused == (seen if isinstance(seen, Rejection) else refusals.not_public("payload.quote_of"))


def test_the_version_is_compared_before_all_else_of_ones_own_post() -> None:
    gone = post_decisions.deleted(post(), 9)
    assert post_decisions.why_not_changed(gone, "u_1", 1) == version_conflict(1, 2)
    assert post_decisions.why_not_changed(gone, "u_1", 2) is refusals.DELETED
    assert post_decisions.why_not_changed(gone, "u_2", 1) is refusals.NO_POST
    assert post_decisions.why_not_changed(post(), "u_1", 1) is None
    required = post_decisions.why_not_changed(post(), "u_1", None)
    assert isinstance(required, Rejection)
    assert required.code == "version_required"


def test_a_tombstone_holds_nothing_that_was_said() -> None:
    gone = post_decisions.deleted(post(text="secret", media_ids=("md_1",)), 9)
    assert (gone.text, gone.media_ids, gone.version) == ("", (), 2)
    assert rendered_post(gone).keys() == {"id", "object", "post_id", "state", "version"}


def test_an_edit_changes_what_it_says_and_keeps_the_rest() -> None:
    after = post_decisions.edited(post(media_ids=("md_1",)), command("edit_post", 1, post_id="po_1", text="two"), 9)
    assert (after.text, after.media_ids, after.visibility, after.version, after.edited_at) == (
        "two",
        ("md_1",),
        "public",
        2,
        9,
    )


def test_an_edit_leaves_media_or_a_text_in_which_something_can_be_seen() -> None:
    """What an earlier release published without either may be shown to fewer all the same."""
    blank, said, shown = post(text=" \n\u200b"), post(text="said"), post(text="", media_ids=("md_1",))
    edits = {
        "blank": (said, {"text": "\u3164"}),
        "without media": (shown, {"media_ids": []}),
        "other blanks": (blank, {"text": "\t"}),
        "said": (blank, {"text": "x"}),
        "blank beside media": (shown, {"text": " "}),
        "for fewer": (blank, {"visibility": "private"}),
    }
    refused = [
        name
        for name, (before, said) in edits.items()
        if post_decisions.shows_nothing(
            before, post_decisions.edited(before, command("edit_post", 1, post_id="po_1", **said), 9)
        )
    ]
    assert refused == ["blank", "without media", "other blanks"]


@each(("text", "is_refused"), [("", True), (" \n\u200b\u3164", True), ("x", False), ("\u200b\U0001f600", False)])
def test_a_post_without_media_says_something(text: str, *, is_refused: bool) -> None:
    publish = SERVICE.operation_by_name["publish_post"]
    _, wrong = publish.normalize({"text": text})
    assert [one["field"] for one in wrong] == ["payload.text"] * is_refused
    _, wrong = publish.normalize({"text": text, "media_ids": ["md_1"]})
    assert not wrong


def test_a_post_goes_into_homes_once_whatever_is_corrected_of_it_later() -> None:
    """It may be old, and its author by now somebody whom a hundred thousand follow."""
    seen = {visibility: post(visibility=visibility) for visibility in ("public", "followers", "private")}
    assert [post_decisions.comes_home(None, one) for one in seen.values()] == [True, True, False]
    opened = {
        (before, after): True
        for before in seen
        for after in seen
        if post_decisions.comes_home(seen[before], seen[after])
    }
    assert list(opened) == [("private", "public"), ("private", "followers")]
    assert not post_decisions.comes_home(seen["private"], post(is_pushed=False))


def test_mentions_are_bounded_and_never_of_the_author() -> None:
    many = " ".join(f"@u{n}" for n in range(50))
    assert len(post_decisions.mentioned(many, "u_1")) == limits.POST_MENTIONS_MAX
    assert post_decisions.mentioned("@u_1 a@u_3 (@u_2), @u_2 @u-4.", "u_1") == ["u_2", "u-4"]


def test_who_is_named_is_found_wherever_it_stands() -> None:
    many = " ".join(f"@u{n}" for n in range(50))
    assert post_decisions.named(f"{many} @u_2") == {"u_2", *(f"u{n}" for n in range(50))}
    assert post_decisions.named("@u_22, a@u_2 and (@u_3)") == {"u_22", "u_3"}


def test_an_edge_rises_by_one_with_each_change_and_stays_where_nothing_changes() -> None:
    other = Author(**{name: getattr(AUTHOR, name) for name in Author.__struct_fields__} | {"user_id": "u_2"})
    private = Author(**{name: getattr(other, name) for name in Author.__struct_fields__} | {"is_private": True})
    edge = edge_decisions.decide_follow(None, "u_1", private, 1)
    assert (edge.state, edge.version) == ("requested", 1)
    assert edge_decisions.decide_follow(edge, "u_1", private, 2) is edge
    accepted = edge_decisions.decide_answer(edge, is_accepted=True, now=3)
    assert isinstance(accepted, Edge)
    assert (accepted.state, accepted.version) == ("active", 2)
    assert edge_decisions.decide_follow(accepted, "u_1", private, 4) is accepted  # private later: followers stay
    assert edge_decisions.decide_answer(accepted, is_accepted=False, now=5) is refusals.NO_REQUEST
    ended = edge_decisions.removed(accepted, 6)
    assert ended is not None
    assert [edge_decisions.followers_added(*pair) for pair in ((None, edge), (edge, accepted), (accepted, ended))] == [
        0,
        1,
        -1,
    ]


@pytest.mark.parametrize(
    ("state", "block", "is_there"),
    [
        ("active", None, True),
        ("active", "removed", True),
        ("active", "active", False),
        ("suspended", "removed", False),
        ("deleting", "removed", False),
        ("deleted", None, False),
        ("deleted", "removed", False),
    ],
)
def test_who_is_suspended_or_erased_is_there_for_nobody_not_after_a_block_either(
    state: str, block: str | None, *, is_there: bool
) -> None:
    """Whoever of the two blocked the other, and lifted it."""
    other = ("u_2", "", state, False, 0, False, 1, 0)
    for pair in (("u_1", "u_2"), ("u_2", "u_1")):
        blocks = [] if block is None else [(*pair, block, 2, 1, 2)]
        batch = SocialBatch({"authors_read": [other], "blocks_read": blocks})
        assert batch.have_met("u_1", "u_2") is is_there


def test_what_an_owner_takes_back_leaves_room_within_a_batch_and_once() -> None:
    """And what a post of the same batch has is that post's; what was taken back is no post's."""
    ready = ("u_1", "image/png", 9, "ab" * 32, 1, 60, "ready", "{}", None, 1, 3, 1, 1)
    batch = SocialBatch({"media_room": [("u_1", 18, 20)], "media_read": [("md_1", *ready), ("md_2", *ready)]})

    def told(operation: str, **payload: Any) -> str:
        found = HANDLERS[operation].decide(batch, AUTHOR, command(operation, **payload), 7)
        return "done" if isinstance(found, Committed) else found.code

    upload = {"mime": "image/png", "bytes": 9, "sha256": "ab" * 32}
    assert told("initiate_upload", **upload) == "quota_exceeded"
    assert told("publish_post", text="x", media_ids=["md_2"]) == "done"
    assert [told("delete_upload", media_id=one) for one in ("md_2", "md_1", "md_1")] == [
        "state_conflict",
        "done",
        "state_conflict",
    ]
    assert told("publish_post", text="x", media_ids=["md_1"]) == "media_not_ready"
    assert told("initiate_upload", **upload) == "done"
    assert batch.room("u_1").held == 18


def test_a_user_is_told_once_of_the_same_thing() -> None:
    told = [Notice("u_2", "like", "u_1", "po_1", now) for now in (1, 2)]
    assert told[0].notification_id == told[1].notification_id
    assert told[0].notification_id != Notice("u_2", "repost", "u_1", "po_1", 1).notification_id


def test_every_command_of_a_user_lies_in_the_users_partition() -> None:
    """But what is said to moderation, which lies with the case that it is about."""
    asked = Named("po_1", {}, "user:u_1", "k")
    own = [one for one in OPERATIONS if one.scope == "posts:write" and "/moderation/" not in one.path]
    assert {operation.aggregate_key(asked) for operation in own} == {"user:u_1"}
