"""The tables of moderation, row by row. They lie in the partition of their case."""

from __future__ import annotations

from typing import Final

from dataflows.social.domain.moderation import Appeal, Case, Current, Report, Ruling
from dataflows.social.rows import FLAGS, NULLABLE, NUMBERS, TEXTS, RowsOf, optional_bigints

CURRENTS: Final[RowsOf[Current, str]] = RowsOf(
    record=Current,
    key=lambda current: current.object_id,
    insert="currents_insert",
    update="currents_update",
    columns={"object_id": TEXTS, "effect": TEXTS, "decision_id": TEXTS, "version": NUMBERS},
    changing=("object_id", "effect", "decision_id", "version"),
)
CASES: Final[RowsOf[Case, str]] = RowsOf(
    record=Case,
    key=lambda case: case.object_id,
    insert="cases_insert",
    update="cases_update",
    columns={"object_id": TEXTS, "reports": NUMBERS, "priority": NUMBERS, "state": TEXTS, "assignee": NULLABLE}
    | {"version": NUMBERS, "opened_at": NUMBERS, "updated_at": NUMBERS},
    changing=("object_id", "reports", "priority", "state", "assignee", "version", "updated_at"),
)
REPORTS: Final[RowsOf[Report, tuple[str, str]]] = RowsOf(
    record=Report,
    key=lambda report: (report.object_id, report.user_id),
    insert="reports_insert",
    update="reports_update",
    columns={"object_id": TEXTS, "user_id": TEXTS, "report_id": TEXTS, "reason": TEXTS, "comment": NULLABLE}
    | {"version": NUMBERS, "created_at": NUMBERS},
    changing=("object_id",),
)
RULINGS: Final[RowsOf[Ruling, str]] = RowsOf(
    record=Ruling,
    key=lambda ruling: ruling.decision_id,
    insert="rulings_insert",
    update="rulings_update",
    columns={"decision_id": TEXTS, "object_id": TEXTS, "author_id": TEXTS, "decision": TEXTS, "reason": TEXTS}
    | {"policy_version": NUMBERS, "label": NULLABLE, "expires_at": NULLABLE, "supersedes": NULLABLE}
    | {"moderator": TEXTS, "version": NUMBERS, "created_at": NUMBERS, "object_version": optional_bigints}
    | {"beside": FLAGS},
    changing=("decision_id",),
)
APPEALS: Final[RowsOf[Appeal, str]] = RowsOf(
    record=Appeal,
    key=lambda appeal: appeal.decision_id,
    insert="appeals_insert",
    update="appeals_update",
    columns={"appeal_id": TEXTS, "decision_id": TEXTS, "author_id": TEXTS, "text": TEXTS, "state": TEXTS}
    | {"decided_by": NULLABLE, "version": NUMBERS, "created_at": NUMBERS, "updated_at": NUMBERS},
    changing=("decision_id", "state", "decided_by", "version", "updated_at"),
)
