"""What payments promise, in plain dicts: written from the reference (3.1 to 3.5) without a look at the domain.

The owner's end state is compared with this. ``winners`` says which command got an identity that was used in two
partitions: that race has no order to predict, only a rule that there is one winner.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from tests.property.payments.model_evidence import Evidence
from tests.property.payments.model_holds import Holds
from tests.property.payments.model_parts import MONEY, NO, OPEN, UNDECIDED, part_id, share
from tests.property.payments.model_risk import Risks

if TYPE_CHECKING:
    from schemas.records import Command

Place = tuple[int, int]  # partition, offset
Answer = tuple[str, Any]  # "committed", intent or part as seen then | "refused", code | "expired", None
SUCCESS: Final = {"authorize": "authorized", "purchase": "captured", "capture": "captured", "void": "voided"} | {
    "refund": "refunded",
    "increment": "authorized",
    "evidence": "submitted",
}
RETRYABLE: Final = "insufficient_funds"  # what the rule of ``candidates`` lists


class Model(Holds, Evidence, Risks):
    """The whole system as one sequential program."""

    def __init__(self, winners: dict[tuple[str, str], Place] | None = None, candidates: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.winners = winners
        self.candidates = (
            candidates  # what published rules say: where charges go, one after another; () = no rule at all
        )
        self.intents: dict[str, dict[str, Any]] = {}
        self.answers: dict[tuple[str, str], tuple[bytes, Answer]] = {}
        self.events: dict[int, list[tuple[str, int]]] = defaultdict(list)  # partition -> (aggregate, version) in order

    def take(
        self, place: Place, c: Command, *, invalid: bool = False, misrouted: bool = False
    ) -> tuple[Answer, bool] | None:
        """The answer and whether it is a replay; None where two answers are right."""
        identity, late = (c.scope, c.idempotency_key), c.deadline_at == 1
        winner = (self.winners or {}).get(identity, place)
        if winner[0] != place[0]:  # decided over there, before or after this one was looked at
            return None if late or invalid or misrouted else (("refused", "key_reused"), False)
        if identity in self.answers:
            known_hash, answer = self.answers[identity]
            return (answer, True) if known_hash == c.request_hash else (("refused", "key_reused"), False)
        if late:
            return ("expired", None), False
        if invalid:
            return ("refused", "invalid_command"), False
        if misrouted:
            return ("refused", "misrouted"), False
        assert winner == place, f"{identity} was decided at {winner}, not at {place}"
        answer = self._decide(c)
        if answer[0] == "committed":
            self.events[place[0]].append((c.aggregate_key, self.version(c.aggregate_key)))
        self.answers[identity] = (c.request_hash, answer)
        return answer, False

    def version(self, key: str) -> int:
        """The version of an aggregate: of an intent, or the only one of a journal entry."""
        return int(self.intents[key]["version"]) if key in self.intents else 1

    def _decide(self, c: Command) -> Answer:
        intent, p = self.intents.get(c.aggregate_key), c.payload
        if c.operation == "create_payment_intent":
            return self._create(c) if intent is None else ("refused", "state_conflict")
        if c.operation == "post_journal":
            return self._journal(c)
        told_by = {"record_attempt_outcome": "processor:", "record_dispute": "processor:"}
        told_by |= {"record_settlement_line": "settlement:", "expire_authorization": "processor:"}
        speaker = told_by.get(c.operation)
        by_operator = c.operation == "review_payment_intent" and c.scope.startswith("operator:")
        if (
            intent is None
            or not (
                by_operator
                or c.scope
                in ([speaker + p for p in self._served_by(intent, c)] if speaker else [intent["merchant_id"]])
            )
            or (c.operation == "review_payment_intent" and not by_operator)
        ):
            return "refused", "not_found"
        if c.expected_version not in (None, intent["version"]):
            return "refused", "version_conflict"
        verb = {"confirm_payment_intent": self._confirm, "capture_payment_intent": self._capture}
        verb |= {"cancel_payment_intent": self._cancel, "record_attempt_outcome": self._fact}
        verb |= {"update_payment_intent": self._update, "increment_authorization": self._increment}
        verb |= {"expire_authorization": self._expire, "submit_dispute_evidence": self._evidence}
        verb |= {"review_payment_intent": self._review}
        verb |= {"create_refund": self._refund, "cancel_refund": self._cancel_refund}
        verb |= {"record_dispute": self._dispute, "record_settlement_line": self._line}
        refusal = verb[c.operation](intent, p, c)
        if refusal:
            return "refused", refusal
        intent["version"] += 1
        return "committed", dict(self._shown(intent, c))

    def _served_by(self, i: dict[str, Any], c: Command) -> set[str]:
        """Who may tell a fact: about an attempt its processor, about the payment each that tried it."""
        number, attempts = c.payload.get("attempt"), self.attempts[i["id"]]
        if number is None:
            return {i["processor"], *(a["processor"] for a in attempts)}
        return {attempts[number - 1]["processor"] if 1 <= number <= len(attempts) else i["processor"]}

    def _shown(self, intent: dict[str, Any], c: Command) -> dict[str, Any]:
        """What the caller gets to see: the part that it asked about, else the intent."""
        if c.operation == "create_refund":
            template = "POST /v1/refunds"
            return self.refunds[part_id("re", intent["id"], c.scope, template, c.idempotency_key)]
        if c.operation == "record_dispute":
            ref: Any = c.payload["provider_ref"]
            return self.disputes[part_id("dp", intent["id"], c.scope.partition(":")[2], ref)]
        if c.operation == "cancel_refund":
            refund: Any = c.payload["refund"]
            return self.refunds[refund]
        if c.operation == "submit_dispute_evidence":
            dispute: Any = c.payload["dispute"]
            return self.disputes[dispute]
        return intent

    def _create(self, c: Command) -> Answer:
        if c.expected_version not in (None, 0):
            return "refused", "version_conflict"
        p = c.payload
        self.intents[c.aggregate_key] = {
            "id": c.aggregate_key, "merchant_id": c.scope, "processor": "simulator", "version": 1, "latest_attempt": 0,
            "amount_capturable": 0, "amount_received": 0, "amount_refunded": 0, "amount_disputed": 0,
            "last_payment_error": None, "cancellation_reason": None, "amount_pending": 0, "next_action": None, **p,
            "state": "requires_confirmation" if p["payment_method"] else "requires_payment_method",
        }  # fmt: skip
        return "committed", dict(self.intents[c.aggregate_key])

    def _confirm(self, i: dict[str, Any], p: dict[str, Any], _: Command) -> str | None:
        method = p["payment_method"] or i["payment_method"]
        if i["state"] not in ("requires_payment_method", "requires_confirmation") or not method:
            return "state_conflict"
        i.update(payment_method=method, last_payment_error=None)
        if self.candidates and self._stopped(i, _charge_kind(i)):
            return None
        return self._charge(i)

    def _charge(self, i: dict[str, Any]) -> None:
        if self.candidates:
            i["processor"] = self.candidates[0]
        return self._attempt(i, _charge_kind(i), i["amount"])

    def _capture(self, i: dict[str, Any], p: dict[str, Any], _: Command) -> str | None:
        if i["state"] != "requires_capture":
            return "state_conflict"
        amount = p["amount"] or i["amount_capturable"]
        if amount > i["amount_capturable"]:
            return "amount_exceeds_capturable"
        return self._attempt(i, "capture", amount, final=p["final"] or amount == i["amount_capturable"])

    def _cancel(self, i: dict[str, Any], p: dict[str, Any], _: Command) -> str | None:
        if i["state"] in ("processing", "succeeded", "canceled"):
            return "state_conflict"
        i["cancellation_reason"] = p["cancellation_reason"]
        if i["state"] == "requires_capture":
            return self._attempt(i, "void", i["amount_capturable"])
        i.update(state="canceled", next_action=None)
        return None

    def _update(self, i: dict[str, Any], p: dict[str, Any], _: Command) -> str | None:
        given = {name: value for name, value in p.items() if value is not None}
        if i["state"] not in ("requires_payment_method", "requires_confirmation"):
            return "state_conflict"
        if not given:
            return "invalid_command"
        if i["latest_attempt"] and {"amount", "currency", "capture_method"} & given.keys():
            return "state_conflict"
        i.update(given)
        if "payment_method" in given:
            i["state"] = "requires_confirmation"
        return None

    def _fact(  # noqa: C901, PLR0911 - the rules of the reference, one after another
        self, i: dict[str, Any], p: dict[str, Any], c: Command
    ) -> str | None:
        n, status = p["attempt"], p["status"]
        if not 1 <= n <= i["latest_attempt"]:
            return "not_found"
        a = self.attempts[i["id"]][n - 1]
        if a["kind"] == "refund":
            return self._refund_fact(i, a, p, c)
        if a["kind"] == "evidence":
            return self._evidence_fact(i, a, p)
        if self._is_release(i, a, p):
            return self._released(i, a, p)
        true = status == SUCCESS[a["kind"]] and (p["amount"], p["currency"]) == (a["amount"], i["currency"])
        late = a["status"] not in OPEN
        if late and (status not in MONEY or status == a["status"]):
            is_news = true and status == a["status"] and p["provider_ref"] and not self.names.get((i["id"], n))
            return self._called(i, p) if is_news else "stale_fact"
        follows = a["status"] in NO and status == "captured" and a["kind"] in ("purchase", "capture")
        beyond = a["kind"] == "capture" and i["amount_received"] + a["amount"] > i["amount"]
        follows = follows and not beyond
        another = a["kind"] in ("authorize", "purchase") and self._charges(i["id"])
        vouched = c.idempotency_key.startswith(f"{p['operation_id']}:ao_")
        if late and (not true or not follows or (another and not vouched)):
            return "contradicts_attempt"
        if status in UNDECIDED or not (true or status in NO) or (true and beyond):
            return self._doubt(i, a, p) or self._called(i, p)
        self._called(i, p)
        if late and another:
            return self._twice(i, n, a)
        was, a["status"] = a["status"], status
        if status in NO:
            self._refused(i, a, p["error_code"] or status, was)
        else:
            i.update(last_payment_error=None, next_action=None)
            self._money(i, a, p, late=late)
            if a["status"] == "captured" and i["state"] == "canceled":  # nobody wants it
                self._given_back(i, n, "payment_canceled")
        return None

    def _called(self, i: dict[str, Any], p: dict[str, Any]) -> None:
        """A name that is known is not forgotten."""
        if p["provider_ref"] is not None:
            self.names[i["id"], p["attempt"]] = p["provider_ref"]

    def _twice(self, i: dict[str, Any], n: int, a: dict[str, Any]) -> None:
        """Taken beside a live charge, as two persons say: posted and on its way back, and nothing else changes."""
        a.update(status="captured", final=False)
        self._taken(i, a)
        self._given_back(i, n, "charged_twice")

    def _charges(self, intent_id: str) -> bool:
        charges = [a for a in self.attempts[intent_id] if a["kind"] in ("authorize", "purchase") and a["final"]]
        return any(a["status"] not in (*NO, "blocked") for a in charges)

    def _doubt(self, i: dict[str, Any], a: dict[str, Any], p: dict[str, Any]) -> str | None:
        if a["status"] in (p["status"], "manual_review") or (a["status"], p["status"]) == (
            "requires_action",
            "unknown",
        ):
            return "stale_fact"
        a["status"] = p["status"]
        if p["status"] not in UNDECIDED:  # a success that is not what was asked: people look at it
            wrong = "currency_mismatch" if p["currency"] != i["currency"] else "hold_exceeded"
            amount = "amount_mismatch" if p["amount"] != a["amount"] else wrong
            i["last_payment_error"] = amount if p["status"] == SUCCESS[a["kind"]] else "unexpected_status"
            a["status"] = "manual_review"
        if a["status"] == "requires_action" and a["kind"] in ("authorize", "purchase") and i["state"] == "processing":
            i.update(state="requires_action", next_action=p.get("next_action") or p.get("redirect_url"))
        elif i["state"] == "requires_action":
            i.update(state="processing", next_action=None)
        return None

    def _refused(self, i: dict[str, Any], a: dict[str, Any], code: str, was: str) -> None:
        further = self._after(a["processor"])
        is_final = a["status"] == "failed" or code == RETRYABLE
        is_charge, is_over = a["kind"] in ("authorize", "purchase"), i["state"] == "canceled"
        i["next_action"] = None
        waited = was in ("manual_review", "requires_action")  # people, or the payer, have had to do with it
        if further and is_final and not waited and is_charge and not is_over:
            i["processor"] = further
            return self._attempt(i, a["kind"], a["amount"])
        i["last_payment_error"] = code
        if is_over:
            return None
        if is_charge:
            i["state"] = "requires_payment_method"
        elif i["amount_capturable"]:
            i["state"] = "requires_capture"
        else:
            self._without_hold(i, "expired")
        if a["kind"] == "void" and i["state"] != "canceled":
            i["cancellation_reason"] = None
        return None

    def _after(self, processor: str) -> str | None:
        """The candidate after this one."""
        place = self.candidates.index(processor) + 1 if processor in self.candidates else len(self.candidates)
        return self.candidates[place] if place < len(self.candidates) else None

    def _money(self, i: dict[str, Any], a: dict[str, Any], p: dict[str, Any], *, late: bool) -> None:
        hold, held = (f"auth_hold:{i['processor']}", f"auth_obligation:{i['merchant_id']}"), i["amount_capturable"]
        if a["kind"] in ("authorize", "increment"):
            return self._held(i, a, p)
        if a["kind"] == "void":
            i["amount_capturable"] = 0
            self._without_hold(i, None)
            return self._post(i, *hold[::-1], held)
        i["processor"] = a["processor"]
        keeps_state = i["state"] == "canceled" or (late and a["kind"] == "capture" and i["state"] != "requires_capture")
        if a["kind"] == "capture":
            i["amount_capturable"] = 0 if a["final"] and not keeps_state else max(0, held - a["amount"])
            self._post(i, *hold[::-1], held - i["amount_capturable"])
        if not keeps_state:
            i["state"] = "requires_capture" if i["amount_capturable"] else "succeeded"
        return self._taken(i, a)

    def _taken(self, i: dict[str, Any], a: dict[str, Any]) -> None:
        i["amount_received"] += a["amount"]
        i["amount_pending"] += share(a["amount"])
        receivable, pending = f"processor_receivable:{a['processor']}", f"merchant_pending:{i['merchant_id']}"
        self._post(i, receivable, pending, a["amount"])
        self._post(i, pending, "platform_fee_income", (a["amount"] * 150 + 5_000) // 10_000)
        expense = f"processor_fee_expense:{a['processor']}"
        self._post(i, expense, receivable, (a["amount"] * 60 + 5_000) // 10_000)


def _charge_kind(i: dict[str, Any]) -> str:
    return "authorize" if i["capture_method"] == "manual" else "purchase"
