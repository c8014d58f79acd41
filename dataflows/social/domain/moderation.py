"""Decides moderation. Pure. A decision is never changed, only superseded; an object's last one is in force."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct, structs

from schemas.records import Command, Rejection
from schemas.refusals import state_conflict
from schemas.renderer import timestamp
from schemas.social.moderation_operations import id_in_case

_PRIORITIES: Final = {"illegal": 100, "abuse": 10, "spam": 3, "other": 1}
FOUR_EYES: Final = Rejection("four_eyes_required", "Somebody else must decide: nobody decides about what is one's own.")
_IN_ITS_PLACE: Final = "Another decision is in force in its place; uphold this one, or decide about the object anew."
_NO_APPEAL: Final = Rejection("not_found", "No such object.")


class Target(Struct, frozen=True):
    """The object of a case, as far as moderation knows it."""

    object_id: str
    kind: str  # post, media, user
    author_id: str
    is_gone: bool = False  # deleted, left out by an edit, erased
    version: int | None = None  # the current one


class Current(Struct, frozen=True, kw_only=True):
    """The decision in force. Its version is the epoch of the object's URLs."""

    object_id: str
    effect: str
    decision_id: str
    version: int


class Case(Struct, frozen=True, kw_only=True):
    """The reports about one object, and its moderator."""

    object_id: str
    reports: int
    priority: int
    state: str
    assignee: str | None
    version: int
    opened_at: int
    updated_at: int


class Report(Struct, frozen=True, kw_only=True):
    """One user's report of one object; the first one counts."""

    object_id: str
    user_id: str
    report_id: str
    reason: str
    comment: str | None
    version: int
    created_at: int


class Ruling(Struct, frozen=True, kw_only=True):
    """A decision. ``version`` counts the decisions about its object, ``object_version`` is that of what was judged."""

    decision_id: str
    object_id: str
    author_id: str
    decision: str
    reason: str
    policy_version: int
    label: str | None
    expires_at: str | None
    supersedes: str | None
    moderator: str
    version: int
    created_at: int
    object_version: int | None = None  # of decisions from before it was noted
    beside: bool = False  # what was in force stays so


class Appeal(Struct, frozen=True, kw_only=True):
    """The one appeal against a decision."""

    appeal_id: str
    decision_id: str
    author_id: str
    text: str
    state: str
    decided_by: str | None
    version: int
    created_at: int
    updated_at: int


def reported(case: Case | None, report: Report, *, counts: bool) -> Case:
    """The case with one more report, if it counts; a decided case opens again."""
    weight = _PRIORITIES[report.reason] if counts else 0
    if case is None:
        return Case(
            object_id=report.object_id,
            reports=1,
            priority=weight,
            state="open",
            assignee=None,
            version=1,
            opened_at=report.created_at,
            updated_at=report.created_at,
        )
    if not counts:
        return case
    again = {"state": "open", "assignee": None} if case.state == "decided" else {}
    return structs.replace(
        case,
        reports=case.reports + 1,
        priority=case.priority + weight,
        version=case.version + 1,
        updated_at=report.created_at,
        **again,
    )


def assigned(case: Case | None, moderator: str, now: int) -> Case | Rejection:
    """The case with its moderator."""
    if case is None or case.state == "decided":
        return Rejection("not_found", "No such object.")
    if case.assignee not in (None, moderator):
        return state_conflict(case.state, "Another moderator has this case.")
    return structs.replace(case, assignee=moderator, state="assigned", version=case.version + 1, updated_at=now)


def closed(case: Case, now: int) -> Case:
    """The case after a decision."""
    return structs.replace(case, state="decided", version=case.version + 1, updated_at=now)


def is_decidable(target: Target, case: Case | None, decision: str) -> bool:
    """Whether there is anything to decide; of a gone object only that its open case is over."""
    return not target.is_gone or (decision == "none" and case is not None and case.state != "decided")


def ruled(
    target: Target,
    known: Current | None,
    supersedes: str | None,
    command: Command,
    moderator: str,
    now: int,
    said: dict[str, Any],
    *,
    beside: bool,
) -> Ruling:
    """The next decision about an object."""
    version = known.version + 1 if known else 1
    decision_id = id_in_case("mo", command.aggregate_key, command.scope, command.operation, command.idempotency_key)
    return Ruling(
        decision_id=decision_id,
        object_id=target.object_id,
        author_id=target.author_id,
        decision=said["decision"],
        reason=said["reason"],
        policy_version=said["policy_version"],
        label=said.get("label"),
        expires_at=said.get("expires_at"),
        supersedes=supersedes,
        moderator=moderator,
        version=version,
        created_at=now,
        object_version=target.version,
        beside=beside,
    )


def appealed(
    ruling: Ruling | None, known: Appeal | None, user_id: str, appeal_id: str, text: str, now: int
) -> Appeal | Rejection:
    """The appeal of the user whom the decision is about; for others there is no such decision."""
    if ruling is None or ruling.author_id != user_id:
        return _NO_APPEAL
    if known is not None:
        return state_conflict(known.state, "There has been an appeal against this decision.")
    return Appeal(
        appeal_id=appeal_id,
        decision_id=ruling.decision_id,
        author_id=user_id,
        text=text,
        state="open",
        decided_by=None,
        version=1,
        created_at=now,
        updated_at=now,
    )


def appeal_decided(
    appeal: Appeal | None, ruling: Ruling | None, moderator: str, outcome: str, now: int, *, is_reversible: bool
) -> Appeal | Rejection:
    """The end of an appeal, decided by a third person; where another decision has its place nothing is reversed."""
    if appeal is None or ruling is None:
        return _NO_APPEAL
    if moderator in (ruling.moderator, appeal.author_id):
        return FOUR_EYES
    if appeal.state != "open":
        return state_conflict(appeal.state, "The appeal is decided.")
    if outcome == "reversed" and not is_reversible:
        return state_conflict("superseded", _IN_ITS_PLACE)
    return structs.replace(appeal, state=outcome, decided_by=moderator, version=appeal.version + 1, updated_at=now)


def rendered_ruling(ruling: Ruling) -> dict[str, Any]:
    """A decision as moderators, and the author of its object, see it: not who made it."""
    return {
        "id": ruling.decision_id,
        "object": "moderation_decision",
        "decision_id": ruling.decision_id,
        "object_id": ruling.object_id,
        "object_version": ruling.object_version,
        "decision": ruling.decision,
        "reason": ruling.reason,
        "policy_version": ruling.policy_version,
        "label": ruling.label,
        "beside": ruling.beside,
        "expires_at": ruling.expires_at,
        "supersedes": ruling.supersedes,
        "created_at": timestamp(ruling.created_at),
        "version": ruling.version,
    }


def rendered_case(case: Case) -> dict[str, Any]:
    """A case as moderators see it."""
    return {
        "id": case.object_id,
        "object": "moderation_case",
        "object_id": case.object_id,
        "reports": case.reports,
        "priority": case.priority,
        "state": case.state,
        "assignee": case.assignee,
        "version": case.version,
    }


def rendered_appeal(appeal: Appeal) -> dict[str, Any]:
    """An appeal as its author sees it."""
    return {
        "id": appeal.appeal_id,
        "object": "moderation_appeal",
        "appeal_id": appeal.appeal_id,
        "decision_id": appeal.decision_id,
        "state": appeal.state,
        "version": appeal.version,
    }
