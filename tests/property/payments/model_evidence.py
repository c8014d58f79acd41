"""Evidence against disputes as the reference model sees it, in plain dicts."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tests.property.payments.model_parts import NO, OPEN, UNDECIDED, Parts

if TYPE_CHECKING:
    from schemas.records import Command


class Evidence(Parts):
    """Drafts, and the one submission of each dispute that a processor takes."""

    def __init__(self) -> None:
        super().__init__()
        self.evidence: dict[str, dict[str, str]] = defaultdict(dict)
        self.about: dict[int, str] = {}  # id() of the attempt to the dispute

    def _evidence(self, i: dict[str, Any], p: dict[str, Any], _: Command) -> str | None:
        d = self.disputes.get(p["dispute"])
        if d is None or d["intent_id"] != i["id"]:
            return "not_found"
        on_its_way = any(a["status"] in OPEN and self.about.get(id(a)) == d["id"] for a in self.attempts[i["id"]])
        due = d["state"] in ("warning_needs_response", "needs_response", "appeal_needs_response")
        if not due or on_its_way or d["evidence_state"] == "submitted":
            return "state_conflict"
        all_of_it = {**self.evidence[d["id"]], **p["evidence"]}
        if not all_of_it or len(all_of_it) > 20:
            return "invalid_command"
        if p["submit"] and sum(self.about.get(id(a)) == d["id"] for a in self.attempts[i["id"]]) >= 20:
            return "too_many_attempts"
        self.evidence[d["id"]] = all_of_it
        d.update(evidence_state="draft", version=d["version"] + 1)
        if p["submit"]:
            i["latest_attempt"] += 1
            a = {"kind": "evidence", "status": "created", "amount": d["amount"], "final": True, "settled_line": None,
                 "processor": self.banks[d["id"]]}  # fmt: skip
            self.attempts[i["id"]].append(a)
            self.about[id(a)] = d["id"]
        return None

    def _evidence_fact(self, i: dict[str, Any], a: dict[str, Any], p: dict[str, Any]) -> str | None:
        says, was = p["status"], a["status"]
        if was not in OPEN or says not in (*UNDECIDED, *NO, "submitted"):
            return "stale_fact"
        if says in UNDECIDED and (was in (says, "manual_review") or (was, says) == ("requires_action", "unknown")):
            return "stale_fact"
        a["status"] = says
        if says == "submitted":
            d = self.disputes[self.about[id(a)]]
            d.update(evidence_state="submitted", version=d["version"] + 1)
        return None
