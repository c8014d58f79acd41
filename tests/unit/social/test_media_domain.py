"""Media and moderation decide as their state machines say."""

from __future__ import annotations

from typing import Any

import pytest

from dataflows.social.domain import labels, media, moderation
from dataflows.social.domain.labels import Label
from dataflows.social.domain.media import ENDED, Media
from dataflows.social.domain.moderation import Appeal, Case, Current, Ruling, Target
from schemas.records import Denial, Rejection
from schemas.social import limits
from schemas.social.moderation_operations import TIME, case_named, case_of, id_in_case
from tests.each import each

DAY_US = limits.MEDIA_ORPHAN_S * 1_000_000
PAYLOAD: dict[str, Any] = {"mime": "image/png", "bytes": 9, "sha256": "ab" * 32, "parts": None, "expires_in_s": 60}


def medium(**changes: Any) -> Media:
    from msgspec import structs  # noqa: PLC0415

    return structs.replace(media.initiated("md_1", "u_1", PAYLOAD, 1), **changes)


def code(found: object) -> str | None:
    """The code of a refusal; where the state is why, the refusal says it."""
    if not isinstance(found, Rejection):
        return None
    assert found.code != "state_conflict" or found.extra["current_state"]
    return found.code


@pytest.mark.parametrize(("said", "state"), [("ok", "scanning"), ("checksum_mismatch", "checksum_failed")])
def test_an_upload_ends_with_its_bytes_or_without(said: str, state: str) -> None:
    after = media.completed(medium(), "u_1", said, 5)
    assert isinstance(after, Media)
    assert (after.scan_state, after.version, after.updated_at) == (state, 2, 5)
    assert code(media.completed(after, "u_1", "ok", 6)) == "state_conflict"


@pytest.mark.parametrize("said", ["part_missing", "", "anything"])
def test_what_the_ingress_does_not_vouch_for_is_not_complete(said: str) -> None:
    assert code(media.completed(medium(), "u_1", said, 5)) == "state_conflict"
    assert code(media.completed(medium(), "u_2", "ok", 5)) == "not_found"
    assert code(media.completed(None, "u_1", "ok", 5)) == "not_found"


@pytest.mark.parametrize(("quota", "has_room"), [(None, True), (30, True), (29, False), (0, False)])
def test_nobody_holds_more_of_media_than_it_may(quota: int | None, has_room: bool) -> None:
    """Uploads of one batch count, too; the refusal is not stored, so there may be room for the same call later."""
    room = media.Room(held=12, quota=quota).with_more(9)
    refused = media.why_no_room(room, 9)
    assert (refused is None) is has_room
    if refused is not None:
        assert isinstance(refused, Denial)
        assert refused.extra == {"dimension": "media_bytes", "limit": quota, "used": 21}


@pytest.mark.parametrize("state", sorted({"initiated", "ready", *ENDED}))
def test_only_what_waits_is_scanned_and_only_once(state: str) -> None:
    assert code(media.scanned(medium(scan_state=state), "ready", "{}", 5)) == "state_conflict"


def test_only_a_clean_medium_has_renditions() -> None:
    for outcome in ("infected", "rejected"):
        found = media.scanned(medium(scan_state="scanning"), outcome, "{}", 5)
        assert isinstance(found, Media)
        assert (found.scan_state, found.manifest) == (outcome, None)


def test_an_orphan_ends_after_a_day_and_what_is_in_a_post_never() -> None:
    assert code(media.expired(medium(), DAY_US)) == "state_conflict"
    ended = media.expired(medium(), DAY_US + 1)
    assert isinstance(ended, Media)
    assert ended.scan_state == "expired"
    kept = medium(scan_state="ready", attached_post_id="po_1")
    assert code(media.expired(kept, 2 * DAY_US)) == "state_conflict"


@pytest.mark.parametrize("state", ["initiated", "scanning", "ready"])
def test_an_owner_takes_back_what_no_post_has(state: str) -> None:
    ended = media.taken_back(medium(scan_state=state, manifest="{}"), "u_1", 5)
    assert isinstance(ended, Media)
    assert (ended.scan_state, ended.manifest, ended.access_version, ended.version) == ("deleted", None, 2, 2)
    assert code(media.taken_back(medium(scan_state=state), "u_2", 5)) == "not_found"
    assert code(media.taken_back(None, "u_1", 5)) == "not_found"
    assert code(media.taken_back(medium(scan_state=state, attached_post_id="po_1"), "u_1", 5)) == "state_conflict"
    assert {code(media.taken_back(medium(scan_state=one), "u_1", 5)) for one in ENDED} == {"state_conflict"}


def test_a_post_takes_all_of_its_media_or_is_told_which_it_may_not() -> None:
    ready = medium(scan_state="ready", manifest="{}")
    known = {
        "free": ready,
        "taken": medium(scan_state="ready", attached_post_id="po_2"),
        "own": medium(scan_state="ready", attached_post_id="po_1"),
        "foreign": medium(scan_state="ready", owner_id="u_2"),
        "young": medium(),
    }
    assert media.not_ready(["free", "own"], "u_1", "po_1", known) is None
    assert code(media.not_ready(["free", "own"], "u_1", "po_1", known, {"free", "own"})) == "media_not_ready"
    refused = media.not_ready(["free", "taken", "own", "foreign", "young", "none"], "u_1", "po_1", known)
    assert refused is not None
    assert refused.extra == {"media_ids": ["taken", "foreign", "young", "none"]}


def test_a_post_takes_a_medium_under_new_urls_and_once() -> None:
    taken = media.attached(medium(scan_state="ready"), "po_1", 5)
    assert (taken.attached_post_id, taken.access_version, taken.version) == ("po_1", 2, 2)
    assert media.attached(taken, "po_1", 6) == taken


def test_ids_of_decisions_lead_to_their_case() -> None:
    case = case_of("po_1")
    assert case_named(id_in_case("mo", case, "user:u_1", "decide_case", "k")) == case
    assert case_of("po_2") != case
    for text in ("", "mo_", "mo_x_y", None, 5, "mo_" + "a" * 20):
        assert case_named(text) == "mc_none"


@each(
    "text",
    ["2030-01-01", "2030-01-01T00:00:00", "2030-W01-1T00:00:00Z", "20300101T000000Z", "2030-01-01 00:00:00Z"]
    + ["2030-02-30T00:00:00Z", "2030-01-01T00:00:00+25:00", "2030-01-01T00:00:00Z\n", "", 5],
)
def test_a_decision_ends_at_a_time_as_rfc_3339_has_it(text: object) -> None:
    assert TIME.check("2030-01-01T00:00:00.5+01:00") is None
    assert TIME.check(text)


def ruling(**changes: Any) -> Ruling:
    said = {"decision": "remove", "reason": "abuse", "policy_version": 3, "label": None, "expires_at": None}
    said |= {"decision_id": "mo_1", "object_id": "po_1", "author_id": "u_1", "supersedes": None, "moderator": "u_m"}
    return Ruling(**(said | {"version": 1, "created_at": 1} | changes))


def test_an_appeal_is_its_author_s_once_and_another_moderator_s_to_decide() -> None:
    appeal = moderation.appealed(ruling(), None, "u_1", "ap_1", "no", 5)
    assert isinstance(appeal, Appeal)
    assert code(moderation.appealed(ruling(), None, "u_2", "ap_1", "no", 5)) == "not_found"
    assert code(moderation.appealed(ruling(), appeal, "u_1", "ap_2", "no", 5)) == "state_conflict"
    for one in ("u_m", "u_1"):  # who decided, and who appeals
        assert (
            code(moderation.appeal_decided(appeal, ruling(), one, "upheld", 6, is_reversible=True))
            == "four_eyes_required"
        )
    done = moderation.appeal_decided(appeal, ruling(), "u_n", "reversed", 6, is_reversible=True)
    assert isinstance(done, Appeal)
    assert code(moderation.appeal_decided(done, ruling(), "u_n", "upheld", 7, is_reversible=True)) == "state_conflict"


@pytest.mark.parametrize("state", [None, "open", "assigned", "decided"])
def test_of_what_is_gone_it_is_decided_that_its_case_is_over_and_nothing_else(state: str | None) -> None:
    said = {"object_id": "po_1", "reports": 1, "priority": 1, "assignee": None, "version": 1}
    case = Case(**said, state=state, opened_at=1, updated_at=1) if state else None
    there, gone = Target("po_1", "post", "u_1"), Target("po_1", "post", "u_1", is_gone=True)
    for decision in ("none", "label", "limit", "remove"):
        assert moderation.is_decidable(there, case, decision)
        assert moderation.is_decidable(gone, case, decision) == (decision == "none" and state in ("open", "assigned"))


def test_an_appeal_never_undoes_a_later_decision() -> None:
    appeal = moderation.appealed(ruling(), None, "u_1", "ap_1", "no", 5)
    assert isinstance(appeal, Appeal)
    assert (
        code(moderation.appeal_decided(appeal, ruling(), "u_n", "reversed", 6, is_reversible=False)) == "state_conflict"
    )
    assert not isinstance(
        moderation.appeal_decided(appeal, ruling(), "u_n", "upheld", 6, is_reversible=False), Rejection
    )


@pytest.mark.parametrize(
    ("label", "effect", "names", "is_over", "said"),
    [
        (None, "none", "", False, {"decision": "none"}),  # somebody has lifted it
        ("x", "none", "", True, {"decision": "none"}),
        ("x", "label", "y", True, {"decision": "none", "label": "x"}),
        ("x", "remove", "y", True, {"decision": "none", "label": "x"}),
        ("x", "label", "x", True, None),  # given again: that one has an appeal of its own
        ("x", "label", "y", False, None),  # superseded before its time
        (None, "label", "y", True, {"decision": "none", "beside": True}),
        (None, "remove", "", True, None),
        (None, "limit", "y", True, None),
    ],
)
def test_the_reversal_of_what_has_ended_takes_nothing_away(
    label: str | None, effect: str, names: str, is_over: bool, said: dict[str, Any] | None
) -> None:
    """Whatever others have decided meanwhile stays in force, with its labels."""
    given = tuple(Label("po_1", name, "mo_2", 3, None, 2) for name in names)
    before = Current(object_id="po_1", effect=effect, decision_id="mo_2", version=3)
    against = ruling(decision="label" if label else "limit", label=label)
    found = labels.told_after_its_end(against, before, given, is_over=is_over)
    assert found == said
    if found:
        made = ruling(**({"label": None} | found | {"version": 4, "beside": labels.is_beside(found)}))
        current, left = labels.after(made, before, given)
        assert (current.effect, left) == (effect, given)
