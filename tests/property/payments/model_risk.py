"""Risk in the reference model: what is above a bound is blocked or has to be looked at, by its currency."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from tests.property.payments.model_parts import Parts

if TYPE_CHECKING:
    from schemas.records import Command

BOUND: Final = 3_000
STOPPED: Final = {"JPY": "block", "KWD": "review"}  # currency -> what becomes of more than the bound


class Risks(Parts):
    """The rules of ``history.published``, in plain words."""

    def __init__(self) -> None:
        super().__init__()
        self.reviews: Counter[str] = Counter()  # how often a payment had to be looked at
        self.assessments: list[tuple[str, int, bool, str]] = []  # payment, attempt, by a person, outcome

    def _said(self, i: dict[str, Any], outcome: str, *, by_person: bool = False) -> None:
        self.assessments.append((i["id"], i["latest_attempt"] + 1, by_person, outcome))

    def _stopped(self, i: dict[str, Any], kind: str) -> bool:
        """Whether the rules keep a confirm from being sent."""
        outcome = STOPPED.get(i["currency"]) if i["amount"] > BOUND else None
        self._said(i, outcome or "allow")
        if outcome == "block":
            self._attempt(i, kind, i["amount"], state="requires_payment_method")
            self.attempts[i["id"]][-1]["status"] = "blocked"
            i["last_payment_error"] = "blocked_by_risk"
        elif outcome == "review":
            i["state"] = "requires_merchant_action"
            self.reviews[i["id"]] += 1
        return outcome is not None

    def _review(self, i: dict[str, Any], p: dict[str, Any], _: Command) -> str | None:
        if i["state"] != "requires_merchant_action":
            return "state_conflict"
        self._said(i, "block" if p["decision"] == "reject" else "allow", by_person=True)
        if p["decision"] == "reject":
            i.update(state="canceled", cancellation_reason="fraudulent")
            return None
        return self._charge(i)

    def _attempt(self, i: dict[str, Any], kind: str, amount: int, *, final: bool = True, state: str = "") -> None:
        raise NotImplementedError

    def _charge(self, i: dict[str, Any]) -> None:
        raise NotImplementedError
