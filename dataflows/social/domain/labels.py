"""Decides which labels an object has, and what is in force of it. Pure.

Decisions about an object are one chain, and each ends what was in force before it, but for those that are ``beside``:
a label beside others, the end of one label, a limit that leaves the labels.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from dataflows.social.domain.moderation import Current, Ruling
from schemas.records import Rejection
from schemas.refusals import wrong_value
from schemas.social import limits

_RESTRICTS: Final = ("limit", "remove")
_NOT_ON_IT: Final = wrong_value("payload.label", "must be one that the object has, to take it away")
_TOO_MANY: Final = wrong_value("payload.label", f"must be one of at most {limits.MODERATION_LABELS_MAX} of an object")


class Label(Struct, frozen=True):
    """One label of an object. ``version`` is that of the decision that gave it."""

    object_id: str
    label: str
    decision_id: str
    policy_version: int
    expires_at: str | None
    version: int


Labels = tuple[Label, ...]


def is_beside(said: dict[str, Any]) -> bool:
    """Whether a decision leaves what is in force: it says so, or takes away one label."""
    return bool(said.get("beside")) or (said["decision"] == "none" and said.get("label") is not None)


def why_not(said: dict[str, Any], labels: Labels) -> Rejection | None:
    """Why a decision cannot give or take its label."""
    names = {one.label for one in labels}
    if said["decision"] == "none" and said["label"] is not None and said["label"] not in names:
        return _NOT_ON_IT
    is_full = len(names - {said["label"]}) >= limits.MODERATION_LABELS_MAX
    return _TOO_MANY if said["decision"] == "label" and is_beside(said) and is_full else None


def superseded(said: dict[str, Any], before: Current | None, labels: Labels) -> str | None:
    """The decision that this one ends; None where it ends none."""
    if before is None:
        return None
    if not is_beside(said):
        return before.decision_id
    if said.get("label") is not None:
        return next((one.decision_id for one in labels if one.label == said["label"]), None)
    return before.decision_id if before.effect in _RESTRICTS else None


def after(ruling: Ruling, before: Current | None, labels: Labels) -> tuple[Current, Labels]:
    """What is in force with a decision: the effect with the decision that it is of, and the labels."""
    left = [one for one in labels if one.label != ruling.label] if ruling.beside else []
    if ruling.decision == "label" and ruling.label is not None:
        left.append(_label(ruling, ruling.label))
    effect, decision_id = ruling.decision, ruling.decision_id
    if ruling.beside and ruling.decision not in _RESTRICTS:
        lifts = ruling.decision == "none" and ruling.label is None
        if before is not None and before.effect in _RESTRICTS and not lifts:
            effect, decision_id = before.effect, before.decision_id
        elif left:
            effect, decision_id = "label", max(left, key=lambda one: one.version).decision_id
    current = Current(object_id=ruling.object_id, effect=effect, decision_id=decision_id, version=ruling.version)
    return current, tuple(left)


def undoing(ruling: Ruling, current: Current | None, labels: Labels) -> dict[str, Any] | None:
    """The decision that ends this one and nothing else; None where it is not in force."""
    if current is None:
        return None
    given = next((one for one in labels if one.decision_id == ruling.decision_id), None)
    if given is not None and (len(labels) > 1 or current.effect != "label"):
        return {"decision": "none", "label": given.label}
    if given is None and current.decision_id != ruling.decision_id:
        return None
    return {"decision": "none", "beside": given is None and bool(labels)}


def told_after_its_end(
    ruling: Ruling, current: Current | None, labels: Labels, *, is_over: bool
) -> dict[str, Any] | None:
    """The decision that tells of one which has ended that it was wrong, and changes nothing that others left.

    ``is_over``: its time has come. None where another decision has its place: that one has an appeal of its own.
    """
    if (current is None or current.effect == "none") and not labels:
        return {"decision": "none"}
    if not is_over:
        return None
    if ruling.label is not None:
        is_given_again = any(one.label == ruling.label for one in labels)
        return None if is_given_again else {"decision": "none", "label": ruling.label}
    is_restricted = current is not None and current.effect in _RESTRICTS
    return None if is_restricted else {"decision": "none", "beside": True}


def _label(ruling: Ruling, label: str) -> Label:
    return Label(
        object_id=ruling.object_id,
        label=label,
        decision_id=ruling.decision_id,
        policy_version=ruling.policy_version,
        expires_at=ruling.expires_at,
        version=ruling.version,
    )
