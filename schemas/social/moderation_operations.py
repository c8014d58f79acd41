"""Reports, decisions, appeals. Each command is of one object, and lies in the partition of that object's case.

Ids of decisions and appeals name their case, so that whatever follows them finds its owner without a look-up.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Final

from schemas import identity, limits, senders
from schemas.fields.validation import Field, ValueType
from schemas.fields.value_types import BOOLEAN, ID, choice, free_text, said_text, whole
from schemas.operation import Named, Operation
from schemas.senders import of_worker
from schemas.social import limits as social_limits
from schemas.social.sealed_texts import TRAVELS
from schemas.social.value_types import OBJECT_ID, USER_ID

MODERATOR: Final = "moderator"
PROPAGATION: Final = "social_propagation"
WRITE: Final = "posts:write"
_CASE_CHARACTERS: Final = 20
_LAST_CHARACTERS: Final = 10
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)
_NOT_A_TIME: Final = "must be an RFC 3339 time with its zone, such as 2026-01-02T03:04:05Z"
_OF_CASE: Final = re.compile(r"[a-z]{2}_(?P<case>[a-z2-7]{20})_[a-z2-7]{10}")


def case_of(object_id: str) -> str:
    """The case of an object: the aggregate of all that moderation does to it."""
    return identity.derived_id("mc", object_id, "moderation_case", "")[: len("mc_") + _CASE_CHARACTERS]


def id_in_case(prefix: str, case: str, scope: str, operation: str, idempotency_key: str) -> str:
    """The id of a decision or an appeal; it names its case."""
    last = identity.derived_id(prefix, scope, operation, idempotency_key).rpartition("_")[2][:_LAST_CHARACTERS]
    return f"{prefix}_{case.removeprefix('mc_')}_{last}"


def case_named(text: object) -> str:
    """The case that an id of ``id_in_case`` names; for any other text a case that nothing has."""
    found = _OF_CASE.fullmatch(text) if isinstance(text, str) else None
    return f"mc_{found['case']}" if found else "mc_none"


def _of_object(named: Named) -> str:
    return case_of(str(named.payload.get("object_id")))


def _of_decision(named: Named) -> str:
    return case_named(named.payload.get("decision_id"))


def _of_appeal(named: Named) -> str:
    return case_named(named.payload.get("appeal_id"))


def _time(value: object) -> str | None:
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        return _NOT_A_TIME
    try:
        datetime.fromisoformat(value)
    except ValueError:  # a 30th of February
        return _NOT_A_TIME
    return None


def _fit(payload: dict[str, Any]) -> list[dict[str, str]]:
    """A label has its text, and none may name the one that it takes away; only what restricts ends by itself."""
    wrong = []
    is_of_label = payload["decision"] in ("label", "none")
    if (payload["label"] is not None and not is_of_label) or (
        payload["label"] is None and payload["decision"] == "label"
    ):
        wrong.append(
            {"field": "payload.label", "reason": "must be said for a label, may be for none, and for nothing else"}
        )
    if payload["decision"] == "none" and payload["expires_at"] is not None:
        wrong.append({"field": "payload.expires_at", "reason": "must not be said for none"})
    return wrong


TIME: Final = ValueType(_time, "string", {"type": "string", "format": "date-time"})
DECISIONS: Final = ("none", "label", "limit", "remove")
APPEAL_STATES: Final = ("open", "upheld", "reversed")
_POLICY: Final = Field(whole(1, 2**31 - 1), "the version of the policy that it follows")
_REASON: Final = Field(said_text(limits.TEXT_LENGTH_MAX), "why")
_LABEL: Final = said_text(social_limits.DISPLAY_NAME_LENGTH_MAX)
_VERSION: Final = whole(1, 2**53 - 1)
_OBJECT: Final = Field(OBJECT_ID, "a post, a medium or a user")


def _moderators(name: str, record: str, path: str, payload: dict[str, Field], **others: Any) -> Operation:
    return Operation(
        name=name,
        service="social",
        method="POST",
        path=path,
        record=record,
        payload=payload,
        result="CommittedModeration",
        scope=MODERATOR,
        **others,
    )


OPERATIONS: Final = (
    Operation(
        name="report_object",
        service="social",
        method="POST",
        path="/v1/moderation/reports",
        record="ReportObject",
        signals=TRAVELS,
        payload={
            "object_id": _OBJECT,
            "reason": Field(choice("spam", "abuse", "illegal", "other"), "what is wrong with it"),
            "comment": Field(free_text(limits.TEXT_LENGTH_MAX), "more of it", default=None, nullable=True),
        },
        summary="Report a post, a medium or a user; one report per user counts",
        result="CommittedReport",
        scope=WRITE,
        outside=senders.USER,
        refusals=("forbidden", "gone", "not_found"),
        creates="rp",
        read_at="",
        aggregate=_of_object,
    ),
    _moderators(
        "assign_case",
        "AssignCase",
        "/v1/moderation/queue/{id}/assign",
        {"object_id": _OBJECT},
        summary="Take a case of the queue",
        refusals=("gone", "state_conflict"),
        id_name="object_id",
        id_form=USER_ID,
        path_field="object_id",
        aggregate=_of_object,
    ),
    _moderators(
        "decide_case",
        "DecideCase",
        "/v1/moderation/decisions",
        {
            "object_id": _OBJECT,
            "decision": Field(choice(*DECISIONS), "limit: not in public and search; remove: its author's alone"),
            "reason": _REASON,
            "policy_version": _POLICY,
            "label": Field(_LABEL, "what readers are told", default=None, nullable=True),
            "expires_at": Field(TIME, "when it ends by itself", default=None, nullable=True),
            "object_version": Field(_VERSION, "the version judged; null: the current one", None, True, since=2),
            "beside": Field(
                BOOLEAN, "whether labels stay; for label and none also what restricts", None, True, since=3
            ),
        },
        summary="Decide about what is not one's own; only another decision ends it",
        refusals=("four_eyes_required", "gone", "not_found"),
        creates="mo",
        aggregate=_of_object,
        together=_fit,
    ),
    Operation(
        name="appeal_decision",
        service="social",
        method="POST",
        path="/v1/moderation/appeals",
        record="AppealDecision",
        signals=TRAVELS,
        payload={
            "decision_id": Field(ID, "the decision, which is about something of the caller's"),
            "text": Field(said_text(limits.TEXT_LENGTH_MAX), "why it is wrong"),
        },
        summary="Appeal against a decision, once",
        result="CommittedModeration",
        scope=WRITE,
        outside=senders.USER,
        refusals=("forbidden", "gone", "not_found", "state_conflict"),
        creates="ap",
        read_at="",
        aggregate=_of_decision,
    ),
    _moderators(
        "decide_appeal",
        "DecideAppeal",
        "/v1/moderation/appeals/{id}/decide",
        {
            "appeal_id": Field(ID, "the appeal, from the path"),
            "outcome": Field(choice("upheld", "reversed"), "whether the decision stays"),
            "reason": _REASON,
            "policy_version": _POLICY,
        },
        summary="Decide an appeal against another moderator's decision",
        refusals=("gone", "state_conflict", "four_eyes_required"),
        id_name="appeal_id",
        path_field="appeal_id",
        aggregate=_of_appeal,
    ),
    Operation(
        name="expire_decision",
        service="social",
        method="POST",
        path="/v1/moderation/decisions/{id}/expire",
        record="ExpireDecision",
        payload={"decision_id": Field(ID, "the decision whose time is over")},
        summary="End a decision whose time is over, by a decision of its own",
        refusals=("state_conflict",),
        senders=(of_worker(PROPAGATION),),
    ),
)
