"""Refunds, disputes and settlement lines as the reference model sees them (reference 3.3 to 3.5), in plain dicts."""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from schemas.records import Command

OPEN: Final = ("created", "pending", "unknown", "requires_action", "manual_review")
UNDECIDED: Final = OPEN[1:]
MONEY: Final = ("authorized", "captured", "voided", "refunded")
NO: Final = ("declined", "failed")
ACTIVE: Final = ("pending", "requires_action", "succeeded")
STATES: Final = (
    *("warning_needs_response", "warning_under_review", "warning_closed", "needs_response", "under_review"),
    *("prevented", "won", "lost", "appeal_needs_response", "appeal_under_review"),
)
FUNDS: Final = ("none", "withdrawn", "reinstated")
REASONS: Final = {"insufficient_funds": "insufficient_funds", "declined": "declined"}


def part_id(prefix: str, intent_id: str, *identity: str) -> str:
    """The documented id of a refund or dispute."""
    digest = hashlib.sha256("\x1f".join(identity).encode()).digest()
    return f"{prefix}_{intent_id.removeprefix('pi_')}_{base64.b32encode(digest)[:10].decode().lower()}"


def share(amount: int) -> int:
    """What the merchant gets of a captured amount."""
    return amount - (amount * 150 + 5_000) // 10_000


class Parts:
    """The parts of a payment beside its charges. ``accounts`` holds debits, credits and lines of every account."""

    def __init__(self) -> None:
        self.attempts: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.accounts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        self.refunds: dict[str, dict[str, Any]] = {}
        self.disputes: dict[str, dict[str, Any]] = {}
        self.journals: dict[str, str] = {}
        self.banks: dict[str, str] = {}  # of disputes, the processor that told of them
        self.names: dict[tuple[str, int], str | None] = {}  # of attempts, the processor's own
        self.parents: dict[str, tuple[str, str | None]] = {}  # of refunds, the processor and its name of the capture

    def _post(self, i: dict[str, Any], debit: str, credit: str, amount: int) -> None:
        for side, account in enumerate((debit, credit) if amount else ()):
            self.accounts[f"{account}:{i['currency']}"][side] += amount
            self.accounts[f"{account}:{i['currency']}"][2] += 1

    # -- refunds -----------------------------------------------------------------------------------------------
    def _active(self, i: dict[str, Any]) -> int:
        return sum(r["amount"] for r in self.refunds.values() if r["intent_id"] == i["id"] and r["state"] in ACTIVE)

    def _refundable(self, i: dict[str, Any]) -> int:
        return max(0, i["amount_received"] - self._active(i) - i["amount_disputed"])

    def _refund(self, i: dict[str, Any], p: dict[str, Any], c: Command) -> str | None:
        if not i["amount_received"]:
            return "state_conflict"
        amount = self._refundable(i) if p["amount"] is None else p["amount"]
        room = self._room(i)
        parent = next((name for name, left in room.items() if left >= amount), None)
        if not 0 < amount <= self._refundable(i) or parent is None:
            return "amount_exceeds_refundable"
        refund_id = part_id("re", i["id"], c.scope, "POST /v1/refunds", c.idempotency_key)
        self._start_refund(i, refund_id, amount, p["reason"], parent)
        return None

    def _given_back(self, i: dict[str, Any], number: int, reason: str) -> None:
        """Money that nobody wants, by itself; no more of it than the payer has not got back already."""
        a = self.attempts[i["id"]][number - 1]
        if amount := min(a["amount"], self._refundable(i)):
            refund_id = part_id("re", i["id"], reason, f"op_{i['id'].removeprefix('pi_')}_{number}")
            self._start_refund(i, refund_id, amount, reason, self._name(i, number))

    def _start_refund(
        self, i: dict[str, Any], refund_id: str, amount: int, reason: str | None, parent: tuple[str, str | None]
    ) -> None:
        i["latest_attempt"] += 1
        taken = min(amount, i["amount_pending"])
        i["amount_pending"] -= taken
        self.attempts[i["id"]].append(
            {"kind": "refund", "status": "created", "amount": amount, "final": False, "settled_line": None,
             "processor": parent[0]}
        )  # fmt: skip
        self.refunds[refund_id] = {
            "id": refund_id, "intent_id": i["id"], "merchant_id": i["merchant_id"], "attempt": i["latest_attempt"],
            "amount": amount, "currency": i["currency"], "state": "pending", "reason": reason, "failure_reason": None,
            "from_pending": taken, "version": 1, "pending_reason": "processing",
        }  # fmt: skip
        self.parents[refund_id] = parent
        self._from_merchant(i, f"refund_in_flight:{parent[0]}", amount, taken)

    def _name(self, i: dict[str, Any], number: int) -> tuple[str, str | None]:
        return self.attempts[i["id"]][number - 1]["processor"], self.names.get((i["id"], number))

    def _room(self, i: dict[str, Any]) -> dict[tuple[str, str | None], int]:
        """What is left of each capture; those of one name are one."""
        room: dict[tuple[str, str | None], int] = defaultdict(int)
        for number, a in enumerate(self.attempts[i["id"]], 1):
            if a["status"] == "captured":
                room[self._name(i, number)] += a["amount"]
        for r in self.refunds.values():
            if r["intent_id"] == i["id"] and r["state"] in ACTIVE and self.parents[r["id"]] in room:
                room[self.parents[r["id"]]] -= r["amount"]
        return room

    def _cancel_refund(self, i: dict[str, Any], p: dict[str, Any], _: Command) -> str | None:
        refund = self.refunds.get(p["refund"])
        if not refund or refund["intent_id"] != i["id"]:
            return "not_found"
        if refund["state"] != "requires_action":
            return "state_conflict"
        self.attempts[i["id"]][refund["attempt"] - 1]["status"] = "failed"
        self._moved(refund, "canceled", None)
        self._to_merchant(i, refund, f"refund_in_flight:{self.attempts[i['id']][refund['attempt'] - 1]['processor']}")
        return None

    def _refund_fact(  # noqa: C901, PLR0911, PLR0912 - the rules of the reference, one after another
        self, i: dict[str, Any], a: dict[str, Any], p: dict[str, Any], c: Command
    ) -> str | None:
        refund = next(r for r in self.refunds.values() if (r["intent_id"], r["attempt"]) == (i["id"], p["attempt"]))
        says, was = p["status"], a["status"]
        true = says == "refunded" and (p["amount"], p["currency"]) == (a["amount"], i["currency"])
        if says in MONEY and says != "refunded" and was not in OPEN:
            return "contradicts_attempt"
        if was == "failed" and a["final"]:
            return "stale_fact"
        if says == "failed" and (was == "refunded" or c.idempotency_key.endswith(":failed_later")):
            return self._came_back(i, a, refund, p["error_code"] or "unknown")
        if was == "refunded" or (was in NO and says in (*OPEN, *NO)):
            return "stale_fact"
        if was in NO:
            if not true or self._active(i) + a["amount"] > i["amount_received"]:
                return "contradicts_attempt"
            taken = min(a["amount"], i["amount_pending"])
            i["amount_pending"] -= taken
            refund["from_pending"] = taken
            self._from_merchant(i, f"processor_receivable:{a['processor']}", a["amount"], taken)
        elif says in NO:
            a["status"] = says
            self._moved(refund, "failed", REASONS.get(p["error_code"] or says, "unknown"))
            self._to_merchant(i, refund, f"refund_in_flight:{a['processor']}")
            return None
        elif not true:
            why = p.get("pending_reason") if says == "pending" else None
            is_old = c.idempotency_key.endswith(f":pending:{why or 'no_reason'}")
            if was == "requires_action" and (says == "unknown" or (is_old and says in OPEN)):
                return "stale_fact"
            if was == says == "pending" and why not in (None, refund["pending_reason"]):
                self._moved(refund, "pending", None, why)
                return None
            if was in (says, "manual_review"):
                return "stale_fact"
            a["status"] = says if says in OPEN else "manual_review"
            state = "requires_action" if says == "requires_action" else "pending"
            if refund["state"] != state or why not in (None, refund["pending_reason"]):
                self._moved(refund, state, None, why)
            return None
        else:
            self._paid_back(i, a)
        a["status"] = "refunded"
        i["amount_refunded"] += a["amount"]
        self._moved(refund, "succeeded", None)
        return None

    def _came_back(self, i: dict[str, Any], a: dict[str, Any], refund: dict[str, Any], code: str) -> None:
        was, a["status"], a["final"] = a["status"], "failed", True
        if was in NO:
            return
        if was == "refunded":
            i["amount_refunded"] -= a["amount"]
        else:
            self._paid_back(i, a)
        self._moved(refund, "failed", REASONS.get(code, "unknown"))
        self._to_merchant(i, refund, f"processor_receivable:{a['processor']}")

    def _paid_back(self, i: dict[str, Any], a: dict[str, Any]) -> None:
        self._post(i, f"refund_in_flight:{a['processor']}", f"processor_receivable:{a['processor']}", a["amount"])

    @staticmethod
    def _moved(part: dict[str, Any], state: str, reason: str | None, why: str | None = None) -> None:
        part["pending_reason"] = (why or part["pending_reason"] or "processing") if state == "pending" else None
        part.update(state=state, failure_reason=reason, version=part["version"] + 1)

    def _from_merchant(self, i: dict[str, Any], credit: str, amount: int, taken: int) -> None:
        self._post(i, f"merchant_pending:{i['merchant_id']}", credit, taken)
        self._post(i, f"merchant_available:{i['merchant_id']}", credit, amount - taken)

    def _to_merchant(self, i: dict[str, Any], refund: dict[str, Any], debit: str) -> None:
        """Back where it came from, but no more than a later settlement can mature."""
        back = max(0, min(refund["from_pending"], sum(map(share, self._unsettled(i))) - i["amount_pending"]))
        i["amount_pending"] += back
        self._post(i, debit, f"merchant_pending:{i['merchant_id']}", back)
        self._post(i, debit, f"merchant_available:{i['merchant_id']}", refund["amount"] - back)

    def _unsettled(self, i: dict[str, Any]) -> list[int]:
        return [a["amount"] for a in self.attempts[i["id"]] if a["status"] == "captured" and a["settled_line"] is None]

    # -- disputes ----------------------------------------------------------------------------------------------
    def _dispute(self, i: dict[str, Any], p: dict[str, Any], c: Command) -> str | None:
        processor = c.scope.partition(":")[2]
        if not i["latest_attempt"] or p["currency"] != i["currency"]:
            return "contradicts_payment"
        dispute_id = part_id("dp", i["id"], processor, p["provider_ref"])
        d = self.disputes.get(dispute_id)
        if d and d["amount"] != p["amount"]:
            return "contradicts_dispute"
        state, funds = p["status"], p["funds"]
        if d:
            state = max(d["state"], state, key=STATES.index)
            funds = max(d["funds"], funds, key=FUNDS.index)
            state = "won" if _is_back(state, funds) else state
            if (state, funds, _due(d, p, state)) == (d["state"], d["funds"], d["evidence_due_by"]):
                is_after_the_win = STATES.index(p["status"]) > STATES.index("won")
                is_again = is_after_the_win and (p["funds"], d["funds"]) == ("withdrawn", "reinstated")
                return "contradicts_dispute" if is_again else "stale_fact"
        was_state, was_funds = (d["state"], d["funds"]) if d else ("", "none")
        d = self.disputes.setdefault(
            dispute_id,
            {"id": dispute_id, "intent_id": i["id"], "merchant_id": i["merchant_id"], "amount": p["amount"],
             "currency": i["currency"], "fee": p["fee"], "reason": p["reason"], "version": 0, "evidence_state": None,
             "state": "", "evidence_due_by": None},
        )  # fmt: skip
        self.banks[dispute_id] = processor
        state = "won" if _is_back(state, funds) else state
        if state.endswith("needs_response") and state != was_state and d["evidence_state"]:
            d["evidence_state"] = "draft"
        d.update(evidence_due_by=_due(d, p, state))
        d.update(state=state, funds=funds, version=d["version"] + 1, reason=d["reason"] or p["reason"])
        if was_funds == "none":
            d["fee"] = p["fee"]
        self._dispute_money(i, d, (was_state, was_funds), processor)
        mine = [x for x in self.disputes.values() if x["intent_id"] == i["id"]]
        i["amount_disputed"] = sum(x["amount"] for x in mine if _counts(x))
        return None

    def _dispute_money(self, i: dict[str, Any], d: dict[str, Any], was: tuple[str, str], processor: str) -> None:
        claim, hold = f"dispute_receivable:{processor}", f"merchant_dispute_hold:{i['merchant_id']}"
        available, receivable = f"merchant_available:{i['merchant_id']}", f"processor_receivable:{processor}"
        was_cleared, was_funds = was == ("lost", "withdrawn"), was[1]
        if was_funds == "none" != d["funds"]:
            self._post(i, claim, receivable, d["amount"])
            self._post(i, available, hold, d["amount"])
            self._post(i, f"dispute_fee_expense:{processor}", receivable, d["fee"])
        if was_funds != "reinstated" == d["funds"]:
            for debit, credit in (
                ((receivable, available),) if was_cleared else ((receivable, claim), (hold, available))
            ):
                self._post(i, debit, credit, d["amount"])
        if (d["state"], d["funds"]) == ("lost", "withdrawn") and not was_cleared:
            self._post(i, hold, claim, d["amount"])
        if was_cleared and d["state"] != "lost" and d["funds"] == "withdrawn":
            self._post(i, claim, hold, d["amount"])

    # -- settlement lines and the journal ------------------------------------------------------------------------
    def _line(  # noqa: PLR0911 - the rules of the reference, one after another
        self, i: dict[str, Any], p: dict[str, Any], _: Command
    ) -> str | None:
        if not 1 <= p["attempt"] <= i["latest_attempt"]:
            return "not_found"
        a = self.attempts[i["id"]][p["attempt"] - 1]
        if a["status"] not in ("captured", "refunded") and not (a["kind"] == "refund" and a["final"]):
            return "contradicts_attempt"
        if p["currency"] != i["currency"]:
            return "contradicts_attempt"
        finding, processor = p["finding"], a["processor"]
        receivable, suspense = f"processor_receivable:{processor}", f"recon_suspense:{processor}"
        if (finding == "matched") == (p["difference"] > 0):
            return "invalid_command"
        if finding != "duplicate" and a["settled_line"]:
            return "stale_fact"
        if finding != "matched":
            gain = finding == "over" or (finding == "duplicate" and p["gross"] > 0)
            self._post(i, *((receivable, suspense) if gain else (suspense, receivable)), p["difference"])
        expense = f"processor_fee_expense:{processor}"
        if finding == "duplicate" or a["status"] != "captured":
            self._post(i, *((expense, receivable) if p["fee"] > 0 else (receivable, expense)), abs(p["fee"]))
        if finding == "duplicate":
            return None
        if a["status"] == "captured":
            alone = len(self._unsettled(i)) == 1
            matured = i["amount_pending"] if alone else min(share(a["amount"]), i["amount_pending"])
            i["amount_pending"] -= matured
            self._post(i, f"merchant_pending:{i['merchant_id']}", f"merchant_available:{i['merchant_id']}", matured)
            more = p["fee"] - (a["amount"] * 60 + 5_000) // 10_000
            self._post(i, *((expense, receivable) if more > 0 else (receivable, expense)), abs(more))
        a["settled_line"] = p["line_id"]
        return None

    def _journal(self, c: Command) -> tuple[str, Any]:
        entries = c.payload["entries"]
        if c.scope != "ledger:reconciliation":
            return "refused", "not_found"
        if c.aggregate_key in self.journals:
            return "refused", "state_conflict"
        if sum(e["debit"] for e in entries) != sum(e["credit"] for e in entries):
            return "refused", "invalid_command"
        self.journals[c.aggregate_key] = c.payload["reference"]
        for e in entries:
            for side, amount in enumerate((e["debit"], e["credit"], 1)):
                self.accounts[e["account_id"]][side] += amount
        return "committed", {"id": c.aggregate_key, "object": "journal_entry", "reference": c.payload["reference"]}


def _is_back(state: str, funds: str) -> bool:
    """Decided, and the money is here again."""
    return funds == "reinstated" and STATES.index(state) >= STATES.index("won")


def _counts(d: dict[str, Any]) -> bool:
    """Open or lost, and no mere inquiry."""
    if d["state"] in ("needs_response", "under_review", "appeal_needs_response", "appeal_under_review", "lost"):
        return True
    return d["funds"] == "withdrawn" and d["state"] in ("warning_needs_response", "warning_under_review")


def _due(d: dict[str, Any], p: dict[str, Any], state: str) -> int | None:
    """The last moment that anybody named while the dispute asked for this."""
    named = [x["evidence_due_by"] for x, of in ((d, d["state"]), (p, p["status"])) if of == state]
    asks = state in ("warning_needs_response", "needs_response", "appeal_needs_response")
    return max((due for due in named if due is not None), default=None) if asks else None
