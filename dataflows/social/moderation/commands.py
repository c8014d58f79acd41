"""Commands of moderation. Their aggregate is the case of an object, so decisions about one object have one order."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from dataflows.owner.service import Committed, NewEvent
from dataflows.social.asking import Asking
from dataflows.social.batch import Notice, SocialBatch
from dataflows.social.domain import labels, moderation, refusals
from dataflows.social.domain.moderation import Report, Ruling, Target
from dataflows.social.domain.records import Author
from dataflows.social.handler import Handler, Payload, WorkerHandler
from schemas import identity
from schemas.records import Command, Rejection
from schemas.refusals import stale, version_conflict, wrong_value
from schemas.social.moderation_operations import case_named, id_in_case

_NO_OBJECT: Final = Rejection("not_found", "No such object.")
_OVER: Final = wrong_value("payload.expires_at", "must be in the future")
_NOT_OVER: Final = Rejection("state_conflict", "Another decision is in force, or its time is not over.")
_S_US: Final = 1_000_000


def _asks_report(asking: Asking, user: str, payload: Payload) -> None:
    object_id = str(payload.get("object_id"))
    asking.authors.add(user)
    asking.reportable.add((user, object_id))
    asking.reports.add((object_id, user))
    asking.cases.add(object_id)


def _report(batch: SocialBatch, caller: Author, command: Command, now: int) -> Committed | Rejection:
    """What a user cannot see is not there to be reported, and one report of each user counts."""
    docket, object_id = batch.docket, str(command.payload["object_id"])
    if (caller.user_id, object_id) not in docket.reportable or object_id == caller.user_id:
        return _NO_OBJECT
    if refused := stale(command.expected_version, 0):
        return refused
    known = docket.reports.get((object_id, caller.user_id))
    comment = command.payload["comment"]
    report = known or Report(
        object_id=object_id,
        user_id=caller.user_id,
        report_id=identity.derived_id("rp", command.scope, command.operation, command.idempotency_key),
        reason=str(command.payload["reason"]),
        comment=comment if isinstance(comment, str) else None,
        version=1,
        created_at=now,
    )
    if known is None:
        docket.reports.put(report)
        docket.cases.put(moderation.reported(docket.cases.get(object_id), report, counts=True))
    result = {"id": report.report_id, "report_id": report.report_id, "object_id": object_id, "version": 1}
    return _committed(result, command.scope, "object_reported", None, report.report_id, "reported")


def _asks_case(asking: Asking, user: str, payload: Payload) -> None:
    asking.authors.add(user)
    asking.cases.add(str(payload.get("object_id")))


def _assign(batch: SocialBatch, caller: Author, command: Command, now: int) -> Committed | Rejection:
    if caller.state != "active":
        return refusals.SUSPENDED
    known = batch.docket.cases.get(str(command.payload["object_id"]))
    after = moderation.assigned(known, caller.user_id, now)
    if isinstance(after, Rejection):
        return after
    if refused := stale(command.expected_version, known.version if known else 0):
        return refused
    batch.docket.cases.put(after)
    result = moderation.rendered_case(after)
    return _committed(result, command.scope, "case_assigned", None, after.object_id, after.state)


def _asks_decision(asking: Asking, user: str, payload: Payload) -> None:
    object_id = str(payload.get("object_id"))
    asking.authors.add(user)
    asking.locked.add(object_id)  # a user: its row before those of its posts, as in all batches
    asking.targets.add(object_id)
    asking.cases.add(object_id)


def _is_over(expires_at: str, now: int) -> bool:
    return datetime.fromisoformat(expires_at).timestamp() * _S_US <= now


def _decide(batch: SocialBatch, caller: Author, command: Command, now: int) -> Committed | Rejection:
    if caller.state != "active":
        return refusals.SUSPENDED
    object_id = str(command.payload["object_id"])
    target, case = batch.target(object_id), batch.docket.cases.get(object_id)
    if target is None or not moderation.is_decidable(target, case, str(command.payload["decision"])):
        return _NO_OBJECT
    if target.author_id == caller.user_id:
        return moderation.FOUR_EYES
    current = batch.docket.currents.get(object_id)
    if refused := stale(command.expected_version, current.version if current else 0):
        return refused
    if refused := _why_not_said(batch, target, command.payload, now):
        return refused
    ruling = _rule(batch, target, command, caller.user_id, now, command.payload)
    return _ruled(target, ruling)


def _why_not_said(batch: SocialBatch, target: Target, said: Payload, now: int) -> Rejection | None:
    """The refusal of a decision about what is not there any more, that is over, or whose label cannot be."""
    judged, expires_at = said["object_version"], said["expires_at"]
    if judged is not None and judged != target.version:
        return version_conflict(int(str(judged)), target.version or 0)
    if expires_at is not None and _is_over(str(expires_at), now):
        return _OVER
    return labels.why_not(said, batch.docket.labels(target.object_id))


def _rule(batch: SocialBatch, target: Target, command: Command, moderator: str, now: int, said: Payload) -> Ruling:
    """The next decision about an object: in force, told to its author, on its way to whatever shows the object."""
    docket = batch.docket
    known, beside = docket.currents.get(target.object_id), labels.is_beside(said)
    supersedes = labels.superseded(said, known, docket.labels(target.object_id))
    ruling = moderation.ruled(target, known, supersedes, command, moderator, now, said, beside=beside)
    docket.rule(target, ruling)
    if case := docket.cases.get(target.object_id):
        docket.cases.put(moderation.closed(case, now))
    post_id = target.object_id if target.kind == "post" else ""
    if not target.is_gone:
        batch.tell(Notice(target.author_id, "moderation", "", post_id, now, ruling.decision_id))
    return ruling


def _ruled(target: Target, ruling: Ruling) -> Committed:
    post_id = target.object_id if target.kind == "post" else None
    scope = f"user:{target.author_id}"
    result = moderation.rendered_ruling(ruling)
    return _committed(result, scope, "moderation_decided", post_id, ruling.decision_id, ruling.decision)


def _asks_appeal(asking: Asking, user: str, payload: Payload) -> None:
    asking.authors.add(user)
    asking.rulings.add((str(payload.get("decision_id")), ""))


def _appeal(batch: SocialBatch, caller: Author, command: Command, now: int) -> Committed | Rejection:
    docket, decision_id = batch.docket, str(command.payload["decision_id"])
    said = (command.scope, command.operation, command.idempotency_key)
    appeal_id = id_in_case("ap", command.aggregate_key, *said)
    known, text = docket.appeals.get(decision_id), str(command.payload["text"])
    after = moderation.appealed(docket.rulings.get(decision_id), known, caller.user_id, appeal_id, text, now)
    if isinstance(after, Rejection):
        return after
    if refused := stale(command.expected_version, 0):
        return refused
    docket.appeals.put(after)
    result = moderation.rendered_appeal(after)
    return _committed(result, command.scope, "decision_appealed", None, appeal_id, after.state)


def _asks_verdict(asking: Asking, user: str, payload: Payload) -> None:
    asking.authors.add(user)
    asking.rulings.add(("", str(payload.get("appeal_id"))))


def _decide_appeal(batch: SocialBatch, caller: Author, command: Command, now: int) -> Committed | Rejection:
    """Upheld, the decision stays. Reversed, a new one says none, also of what has ended: nothing decided is changed."""
    if caller.state != "active":
        return refusals.SUSPENDED
    docket, said = batch.docket, command.payload
    known = next((one for one in docket.appeals.values() if one.appeal_id == said["appeal_id"]), None)
    ruling = docket.rulings.get(known.decision_id) if known else None
    undoing = _undoing(batch, ruling) or _told_after_its_end(batch, ruling, now)
    outcome, is_reversible = str(said["outcome"]), undoing is not None
    after = moderation.appeal_decided(known, ruling, caller.user_id, outcome, now, is_reversible=is_reversible)
    if isinstance(after, Rejection):
        return after
    assert known is not None and ruling is not None  # noqa: S101, PT018 - an appeal without them is refused
    if refused := stale(command.expected_version, known.version):
        return refused
    docket.appeals.put(after)
    result, state = moderation.rendered_appeal(after), after.state
    if state == "reversed" and undoing is not None:
        reversing = undoing | {"reason": said["reason"], "policy_version": said["policy_version"]}
        made = _rule(batch, _target(batch, ruling), command, caller.user_id, now, reversing)
        result["reversed_by"] = made.decision_id
    return _committed(result, f"user:{ruling.author_id}", "appeal_decided", _post_of(ruling), after.appeal_id, state)


def _asks_end(asking: Asking, payload: Payload) -> None:
    asking.rulings.add((str(payload.get("decision_id")), ""))


def _expire(batch: SocialBatch, command: Command, now: int) -> Committed | Rejection:
    """The end of a decision whose time is over, unless another one has ended it by then."""
    ruling = batch.docket.rulings.get(str(command.payload["decision_id"]))
    undoing = _undoing(batch, ruling)
    if command.aggregate_key != case_named(command.payload["decision_id"]):
        return _NO_OBJECT
    if ruling is None or undoing is None or not _has_ended(ruling, now):
        return _NOT_OVER
    said = undoing | {"reason": "expired", "policy_version": ruling.policy_version}
    target = _target(batch, ruling)
    return _ruled(target, _rule(batch, target, command, command.scope, now, said))


def _undoing(batch: SocialBatch, ruling: Ruling | None) -> Payload | None:
    """What ends this decision alone; None where it is not in force."""
    if ruling is None:
        return None
    current = batch.docket.currents.get(ruling.object_id)
    return labels.undoing(ruling, current, batch.docket.labels(ruling.object_id))


def _told_after_its_end(batch: SocialBatch, ruling: Ruling | None, now: int) -> Payload | None:
    if ruling is None:
        return None
    current, is_over = batch.docket.currents.get(ruling.object_id), _has_ended(ruling, now)
    return labels.told_after_its_end(ruling, current, batch.docket.labels(ruling.object_id), is_over=is_over)


def _has_ended(ruling: Ruling, now: int) -> bool:
    return ruling.expires_at is not None and _is_over(ruling.expires_at, now)


def _target(batch: SocialBatch, ruling: Ruling) -> Target:
    """What a decision is about: its id says what it is; whose it is, it is told, also of what is gone."""
    found = batch.target(ruling.object_id)
    return Target(ruling.object_id, _kind(ruling), ruling.author_id, version=found.version if found else None)


def _kind(ruling: Ruling) -> str:
    if ruling.object_id == ruling.author_id:
        return "user"
    return "media" if ruling.object_id.startswith("md_") else "post"


def _post_of(ruling: Ruling) -> str | None:
    return ruling.object_id if _kind(ruling) == "post" else None


def _committed(result: Payload, scope: str, kind: str, post_id: str | None, target_id: str, state: str) -> Committed:
    body = {"kind": kind, "post_id": post_id, "target_id": target_id, "state": state, "pushed": False}
    return Committed(result, (NewEvent(int(result["version"]), scope, body),))


HANDLERS: Final[dict[str, Handler]] = {
    "report_object": Handler(_asks_report, _report),
    "assign_case": Handler(_asks_case, _assign),
    "decide_case": Handler(_asks_decision, _decide),
    "appeal_decision": Handler(_asks_appeal, _appeal),
    "decide_appeal": Handler(_asks_verdict, _decide_appeal),
}
WORKER_HANDLERS: Final[dict[str, WorkerHandler]] = {"expire_decision": WorkerHandler(_asks_end, _expire)}
