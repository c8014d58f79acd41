"""Random histories: what merchants, processors and a hostile network may put into the command topic, in any order.

A history is made of small integers read against a scratch model, so that most facts fit the payment they are about.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import structs

from dataflows.payments.domain.policies.in_force import Policies
from dataflows.payments.domain.policies.risk import read_policy
from dataflows.payments.policies import PolicyBook
from schemas import identity, topics
from schemas.fields import validation
from schemas.payments import limits
from schemas.payments.facts import RECONCILIATION_SCOPE
from schemas.payments.operations import OPERATIONS
from schemas.payments.policies import kinds
from schemas.payments.policies.routing import Candidate, RoutingPolicy, RoutingRule
from schemas.records import Command
from tests.property.owner_history import Step
from tests.property.payments.model import NO, RETRYABLE, SUCCESS, Model
from tests.property.payments.model_risk import BOUND, STOPPED

Roll = tuple[int, int, int, int]  # what, about which payment, and two choices
KINDS: Final = 42
AGGREGATES: Final = 24
_CURRENCIES: Final = ("USD", "JPY", "KWD")
_TOLD_BY_PROCESSORS_ALONE = frozenset({"redirect_url", "pending_reason", "authorized_until"})
_STATUSES: Final = (
    *("pending", "unknown", "declined", "failed", "captured", "authorized", "voided", "manual_review", "refunded"),
    *("requires_action", "requires_action", "submitted"),
)
_DISPUTED: Final = (
    *(("needs_response", "none"), ("needs_response", "withdrawn"), ("under_review", "withdrawn")),
    *(("won", "reinstated"), ("lost", "withdrawn"), ("warning_needs_response", "none"), ("won", "withdrawn")),
    ("lost", "reinstated"),
    ("appeal_needs_response", "withdrawn"),
)


@dataclass
class History:
    """Steps in the order in which they are produced, for a number of partitions."""

    partitions: int
    name: str = "pi_h"
    candidates: tuple[str, ...] = ()  # of the routing rule that the owners know
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._scratch = Model(candidates=self.candidates)

    def add(self, roll: Roll) -> None:
        """Turns a roll into a step."""
        what, who, a, b = roll
        who %= AGGREGATES
        earlier = [s for s in self.steps if s.command is not None]
        if 18 <= what < 24 and earlier:
            self._again(what, earlier[(a * 31 + b * 7) % len(earlier)], who, b)
        elif what == 17:
            key = f"{self.name}{who}"
            partition = topics.partition_for(key, self.partitions)
            self.steps.append(Step(len(self.steps), partition, None, garbage=b"\x00\x00\x00\x00\x01broken%d" % a))
        elif what == 16 and b >= 5:
            self._command("create_payment_intent", who, self._creation(a, b), misrouted=True)
        elif what == 16:
            self._command("create_payment_intent", who, {**self._creation(a, b), "amount": -a}, invalid=True)
        elif what >= 24 and (intent := self._scratch.intents.get(f"{self.name}{who}")):
            self._part(what, who, intent, a, b)
        else:
            self._fresh(what, who, a, b)

    def _fresh(self, what: int, who: int, a: int, b: int) -> None:
        intent = self._scratch.intents.get(f"{self.name}{who}")
        state = intent["state"] if intent else ""
        if what <= 6 and b < 6:  # mostly what makes sense next
            what = {"processing": 10, "requires_capture": 6 if a == 7 else 4}.get(state, what)
        if what >= 10 and not self._scratch.attempts[f"{self.name}{who}"]:
            what = 1
        if intent is None or what == 0:
            self._command("create_payment_intent", who, self._creation(a, b))
        elif what <= 3:
            self._command("confirm_payment_intent", who, {"payment_method": f"tok_sim_{a}" if b % 2 else None})
        elif what <= 5:
            amount = None if a % 3 == 0 else 1 + intent["amount"] * a // 9
            self._command("capture_payment_intent", who, {"amount": amount, "final": b % 2 == 0})
        elif what == 6:
            reason = (None, "duplicate", "abandoned")[a % 3]
            self._command("cancel_payment_intent", who, {"cancellation_reason": reason})
        elif what == 7:
            version = intent["version"] + (a % 3 - 1)
            self._command("confirm_payment_intent", who, {"payment_method": None}, expected_version=max(0, version))
        elif what == 8:
            self._command("confirm_payment_intent", who, {"payment_method": "tok_sim_x"}, scope=f"m_{who + 1}")
        elif what == 9:
            self._command("cancel_payment_intent", who, {"cancellation_reason": None}, deadline_at=1)
        else:
            self._fact(who, intent, a, b, truthful=what <= 14)

    def _part(self, what: int, who: int, intent: dict[str, Any], a: int, b: int) -> None:
        """Refunds, disputes, settlement lines and entries of the journal, fitting and not."""
        attempts = self._scratch.attempts[intent["id"]]
        if what <= 26:
            amount = (None, 1 + intent["amount"] * b // 7)[a % 3 != 0]
            payload = {"payment_intent": intent["id"], "amount": amount, "reason": (None, "duplicate")[b % 2]}
            self._command("create_refund", who, {**payload, "metadata": {"k": "é"} if a % 2 else {}})
        elif what == 27:
            mine = [r for r in self._scratch.refunds.values() if r["intent_id"] == intent["id"]]
            self._command("cancel_refund", who, {"refund": mine[a % len(mine)]["id"] if mine else "re_none"})
        elif what == 28 and attempts:
            self._failed_later(who, intent, a, b)
        elif what <= 30:
            status, funds = _DISPUTED[(a * 8 + b) % len(_DISPUTED)]
            amount = 1 + intent["amount"] * (a % 2) // 2
            payload = {"provider_ref": f"dis_{intent['id']}_{a % 2}", "status": status, "funds": funds}
            payload |= {"amount": amount + (a == 7), "currency": intent["currency"], "fee": 15 * (a % 3)}
            payload |= {"evidence_due_by": 1_000 + a if b % 2 else None}
            self._command(
                "record_dispute", who, {**payload, "reason": None}, scope=f"processor:{self._teller(intent, 0)}"
            )
        elif what <= 32:
            self._line(who, intent, a, b)
        elif what == 33:
            self._journal(who, a, b)
        else:
            self._machine(what, who, intent, a, b)

    def _machine(self, what: int, who: int, intent: dict[str, Any], a: int, b: int) -> None:
        """What is agreed on anew, holds that grow and end, evidence; fitting and not."""
        attempts = self._scratch.attempts[intent["id"]]
        if what == 34:
            given = {
                "amount": 5 + a,
                "payment_method": "tok_sim_new",
                "capture_method": "manual",
                "metadata": {"n": "1"},
            }
            self._command("update_payment_intent", who, {n: v for n, v in given.items() if (a + b) % (1 + len(n) % 3)})
        elif what == 35:
            self._command("increment_authorization", who, {"amount": max(1, intent["amount"] + 10 * a - 10)})
        elif what <= 37:
            holds = [n for n, x in enumerate(attempts, 1) if x["kind"] == "authorize"] or [1]
            operation = identity.operation_id(intent["id"], holds[-1])
            until = self._scratch.until[intent["id"]] or a
            processor = f"processor:{self._teller(intent, holds[-1])}"
            if what == 36 and b < 6:
                payload = {"operation_id": operation, "authorized_until": until}
                self._command("expire_authorization", who, payload, scope=processor)
            else:
                amount = attempts[holds[-1] - 1]["amount"] if len(attempts) >= holds[-1] else 1
                payload = {"operation_id": operation, "attempt": holds[-1], "status": "voided", "amount": amount}
                payload |= {"currency": intent["currency"], "error_code": "expired" if a % 4 else None}
                self._command("record_attempt_outcome", who, {**payload, "provider_ref": None}, scope=processor)
        elif what >= 40:
            payload = {"decision": "approve" if a % 3 else "reject", "note": None, "reviewer": "merchant:ann"}
            self._command(
                "review_payment_intent", who, payload, scope="operator:by_ann" if b else intent["merchant_id"]
            )
        else:
            mine = [d for d in self._scratch.disputes.values() if d["intent_id"] == intent["id"]]
            dispute = mine[a % len(mine)]["id"] if mine else "dp_none"
            evidence = {f"kind_{n}": f"text {a}" for n in range(b % 3)}
            payload = {"dispute": dispute, "evidence": evidence, "submit": a % 2 == 0}
            self._command("submit_dispute_evidence", who, payload)

    def _failed_later(self, who: int, intent: dict[str, Any], a: int, b: int) -> None:
        attempts = self._scratch.attempts[intent["id"]]
        numbers = [n for n, x in enumerate(attempts, 1) if x["kind"] == "refund"] or [len(attempts)]
        number = numbers[a % len(numbers)]
        operation = identity.operation_id(intent["id"], number)
        payload = {"operation_id": operation, "attempt": number, "status": "failed", "provider_ref": None}
        payload |= {"amount": None, "currency": None, "error_code": "declined" if b % 2 else None}
        key = {"idempotency_key": f"{operation}:failed_later"}
        self._command("record_attempt_outcome", who, payload, scope=f"processor:{self._teller(intent, number)}", **key)

    def _line(self, who: int, intent: dict[str, Any], a: int, b: int) -> None:
        attempts = self._scratch.attempts[intent["id"]]
        number = 1 + b % (len(attempts) + 1)
        finding = ("matched", "matched", "short", "over", "duplicate")[a % 5]
        payload = {"line_id": f"line_{len(self.steps)}", "attempt": number, "finding": finding, "gross": a - 4}
        payload |= {"operation_id": identity.operation_id(intent["id"], number), "fee": b * 7 - 7}
        payload |= {"difference": 0 if finding == "matched" else b, "currency": intent["currency"]}
        self._command("record_settlement_line", who, payload, scope=f"settlement:{self._teller(intent, number)}")

    def _journal(self, who: int, a: int, b: int) -> None:
        reference = f"payout:{self.name}{who}"
        entries = [
            {"account_id": "payout_in_transit:simulator:USD", "debit": 1 + a, "credit": 0, "currency": "USD"},
            {"account_id": "cash:bank:USD", "debit": 0, "credit": 1 + a + (b == 0), "currency": "USD"},
        ]
        payload = {"reference": reference, "kind": "payout", "entries": entries, "note": "x" if b % 2 else None}
        key = identity.derived_id("jr", "ledger", "post_journal", reference)
        self._command(
            "post_journal",
            who,
            payload,
            scope="ledger:other" if a % 8 == 1 else RECONCILIATION_SCOPE,
            aggregate_key=key,
        )

    def _fact(self, who: int, intent: dict[str, Any], a: int, b: int, *, truthful: bool) -> None:
        attempts = self._scratch.attempts[intent["id"]]
        number = len(attempts) if a % 4 else b % (len(attempts) + 2)
        refused = [n for n, x in enumerate(attempts, 1) if x["status"] in NO]
        if refused and a % 2:  # money that moved after all
            number, truthful, b = refused[b % len(refused)], True, 1
        attempt = attempts[number - 1] if 1 <= number <= len(attempts) else {"kind": "void", "amount": 1}
        status = SUCCESS[attempt["kind"]] if truthful and b % 3 else _STATUSES[(a + b) % len(_STATUSES)]
        payload = {
            "operation_id": identity.operation_id(intent["id"], number),
            "attempt": number,
            "status": status,
            "provider_ref": f"pr_{number}" if b % 2 else None,
            "amount": attempt["amount"] + (0 if truthful else b % 2),
            "currency": intent["currency"] if truthful or a % 5 else None,
            "error_code": "insufficient_funds" if a % 2 else None,
        }
        if status == "requires_action" and b % 2:
            payload["redirect_url"] = f"https://acs.example/{number}"
        if status == "pending" and b % 2:
            payload["pending_reason"] = ("processing", "insufficient_funds", "charge_pending")[a % 3]
        if status == "authorized" and a % 2:
            payload["authorized_until"] = 1_000 + b
        teller = "other" if not truthful and b == 7 else self._teller(intent, number)
        if a != 7:
            self._command("record_attempt_outcome", who, payload, scope=f"processor:{teller}")
            return
        said = {name: value for name, value in payload.items() if name not in _TOLD_BY_PROCESSORS_ALONE}
        key = {"idempotency_key": f"{payload['operation_id']}:ao_{len(self.steps)}"}  # two persons vouch for it
        self._command("record_attempt_outcome", who, said, scope=f"processor:{teller}", **key)

    def _teller(self, intent: dict[str, Any], number: int) -> str:
        """The processor of an attempt; of none, the one that has the payment now."""
        attempts = self._scratch.attempts[intent["id"]]
        return str(attempts[number - 1]["processor"] if 1 <= number <= len(attempts) else intent["processor"])

    def _creation(self, a: int, b: int) -> dict[str, Any]:
        return {
            "amount": 1 + 997 * a + 31 * b,
            "currency": _CURRENCIES[b % 3],
            "payment_method": None if a % 4 == 0 else "tok_sim_a",
            "capture_method": "manual" if b % 2 else "automatic",
            "metadata": {'quote " slash \\': "comma , brace {} é \U0001f4b3"} if a % 2 else {},
        }

    def _command(
        self,
        operation: str,
        who: int,
        payload: dict[str, Any],
        *,
        invalid: bool = False,
        misrouted: bool = False,
        **envelope: Any,
    ) -> None:
        number = len(self.steps)
        key = envelope.pop("aggregate_key", f"{self.name}{who}")
        normal, _ = validation.normalize(OPERATIONS[operation].payload, payload)
        command = Command(
            operation=operation,
            request_id=f"req_{number}",
            idempotency_key=envelope.pop("idempotency_key", f"key {number}"),
            aggregate_key=key,
            request_hash=identity.request_hash(OPERATIONS[operation].template, key, normal),
            trace_id=f"{number:032x}",
            issued_at=number,
            reply_to=0,
            reply_id=number,
            payload=payload,
            **{"scope": f"m_{who}", "expected_version": None, "deadline_at": 0, **envelope},
        )
        self._append(command, invalid=invalid, misrouted=misrouted)

    def _again(self, what: int, earlier: Step, who: int, b: int) -> None:
        """A retry: the same, late, or with the identity of another command (its caller's, maybe in another partition)."""
        command = earlier.command
        assert command is not None
        number = len(self.steps)
        if what <= 21:
            deadline = 1 if b == 0 else command.deadline_at
            again = structs.replace(command, request_id=f"req_{number}", reply_id=number, deadline_at=deadline)
            self._append(again, invalid=earlier.invalid, misrouted=earlier.misrouted)
            return
        self._command("create_payment_intent", who, self._creation(b, what), scope=command.scope)
        stolen = self.steps[-1].command
        assert stolen is not None
        stolen.idempotency_key = command.idempotency_key

    def _append(self, command: Command, *, invalid: bool, misrouted: bool) -> None:
        owner = topics.partition_for(command.aggregate_key, self.partitions)
        partition = (owner + 1) % self.partitions if misrouted else owner
        number = len(self.steps)
        self.steps.append(Step(number, partition, command, invalid=invalid, misrouted=misrouted))
        self._scratch.take((partition, number), command, invalid=invalid, misrouted=misrouted)


def published(candidates: tuple[str, ...]) -> PolicyBook:
    """What owners decide such a history by: these candidates in order for every charge, and bounds; without any, nothing."""
    rule = RoutingRule(
        name="all", candidates=tuple(Candidate(name) for name in candidates), retryable_declines=(RETRYABLE,)
    )
    policy = RoutingPolicy(version=1, rules=(rule,), failovers_max=limits.ROUTING_FAILOVERS_MAX)
    bounds = [
        {"name": outcome, "when": [{"type": "amount_above", "currency": currency, "amount": BOUND}], "outcome": outcome}
        for currency, outcome in STOPPED.items()
    ]
    risk = read_policy(1, kinds.canonical("risk", {"rules": bounds}, ()))
    return PolicyBook(Policies(routing=policy, risk=risk)) if candidates else PolicyBook()


def random_history(seed: int, steps: int, partitions: int, name: str, candidates: tuple[str, ...] = ()) -> History:
    """The history of a seed: print the seed, and it can be had again."""
    source = random.Random(seed)
    history = History(partitions, name, candidates)
    for _ in range(steps):
        history.add(tuple(source.randrange(n) for n in (KINDS, AGGREGATES, 8, 8)))  # type: ignore[arg-type]
    return history
