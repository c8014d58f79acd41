"""What moderation reads and changes in one batch: cases, decisions, appeals, and what a decision has to reach."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dataflows.owner.batch import Statement
from dataflows.social.case_tables import APPEALS, CASES, CURRENTS, REPORTS, RULINGS
from dataflows.social.domain.labels import Label, Labels, after
from dataflows.social.domain.moderation import Ruling, Target
from dataflows.social.rows import SQL, Held
from sinks.postgres.arrays import Bigints, OptionalTexts, Texts

#: what shows posts and media, each looked at for every decision (``moderation/looks.py``)
CONSUMERS: Final = ("homes", "media_origin", "notifications", "posts", "search")


class Docket:
    """The rows of moderation that a batch holds."""

    def __init__(self, read: Callable[[str], list[tuple[Any, ...]]]) -> None:
        self.targets = {row[0]: Target(*row) for row in [*read("objects_of_rulings"), *read("objects_read")]}
        self.reportable = {(viewer, object_id) for viewer, object_id in read("reportable_read")}
        self.currents = Held(CURRENTS, [*read("currents_read"), *read("cases_of_rulings")])
        self.cases = Held(CASES, read("cases_read"))
        self.reports = Held(REPORTS, read("reports_read"))
        self.rulings = Held(RULINGS, read("rulings_read"))
        self.appeals = Held(APPEALS, read("appeals_read"))
        self._labels: dict[str, Labels] = {}
        for label in (Label(*row) for row in dict.fromkeys([*read("labels_read"), *read("labels_of_rulings")])):
            self._labels[label.object_id] = (*self.labels(label.object_id), label)
        self._made: list[Ruling] = []
        self._states: dict[str, tuple[str, int]] = {}

    def labels(self, object_id: str) -> Labels:
        """The labels of an object, as the commands before left them."""
        return self._labels.get(object_id, ())

    def rule(self, target: Target, ruling: Ruling) -> None:
        """A decision, in force from this commit on; one about a user suspends it, or ends that."""
        current, labels = after(ruling, self.currents.get(target.object_id), self.labels(target.object_id))
        self.rulings.put(ruling)
        self.currents.put(current)
        self._labels[target.object_id] = labels
        self._made.append(ruling)
        if target.kind == "user":
            state = "suspended" if current.effect == "remove" else "active"
            self._states[target.object_id] = (state, ruling.created_at)

    def writes(self) -> list[Statement]:
        """Everything that changed, always in this order."""
        return [
            *self.cases.writes(),
            *self.reports.writes(),
            *self.rulings.writes(),
            *self.currents.writes(),
            *self._labelled(),
            *self.appeals.writes(),
            *self._reach(),
            *self._suspended(),
        ]

    def _labelled(self) -> list[Statement]:
        decided = sorted({ruling.object_id for ruling in self._made})
        if not decided:
            return []
        found: list[Statement] = [(SQL["labels_delete"], (Texts(decided),))]
        if labels := [label for object_id in decided for label in self.labels(object_id)]:
            columns = (
                Texts([label.object_id for label in labels]),
                Texts([label.label for label in labels]),
                Texts([label.decision_id for label in labels]),
                Bigints([label.policy_version for label in labels]),
                OptionalTexts([label.expires_at for label in labels]),
                Bigints([label.version for label in labels]),
            )
            found.append((SQL["labels_insert"], columns))
        return found

    def _reach(self) -> list[Statement]:
        if not self._made:
            return []
        columns = (
            Texts([ruling.decision_id for ruling in self._made]),
            Texts([ruling.object_id for ruling in self._made]),
            Texts([ruling.decision for ruling in self._made]),
        )
        # The consumers are a text, not a column: statements of several partitions are joined by their columns.
        return [(SQL["propagation_insert"], (*columns, "{" + ",".join(CONSUMERS) + "}"))]

    def _suspended(self) -> list[Statement]:
        if not self._states:
            return []
        users = sorted(self._states)
        columns = (
            Texts(users),
            Texts([self._states[user][0] for user in users]),
            Bigints([self._states[user][1] for user in users]),
        )
        return [(SQL["authors_suspend"], columns)]
