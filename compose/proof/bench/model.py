"""The reference model of the benchmark: what the generated commands must have done, reckoned without our domain.

It knows the few rules that the generated mix exercises and shares no code with ``dataflows.payments.domain``: if owner
and model agree on every intent, account and count, nothing was lost, doubled or reordered.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

_PLATFORM_BPS: Final = 150
_PROCESSOR_BPS: Final = 60
_BPS: Final = 10_000


@dataclass(slots=True)
class ModelIntent:
    """One intent as the model sees it."""

    merchant: str
    amount: int
    currency: str
    manual: bool
    state: str = "requires_confirmation"
    version: int = 1
    capturable: int = 0
    received: int = 0
    attempts: list[tuple[str, int]] = field(default_factory=list)  # kind and amount

    def public(self) -> tuple[str, int, int, int, int]:
        """What is compared: state, version, amount capturable, amount received, attempts."""
        return self.state, self.version, self.capturable, self.received, len(self.attempts)


class Model:
    """Applies commands one by one; ``identities`` holds the first answer to each."""

    def __init__(self) -> None:
        self.intents: dict[str, ModelIntent] = {}
        self.balances: Counter[str] = Counter()  # account -> debits minus credits
        self.identities: dict[tuple[str, str], str] = {}
        self.transactions = 0

    def apply(self, command: dict[str, Any]) -> None:
        """One command in the order of its topic; a known identity changes nothing."""
        identity = (command["scope"], command["idempotency_key"])
        if identity in self.identities:
            return
        self.identities[identity] = "committed" if self._change(command) else "refused"

    def _change(self, command: dict[str, Any]) -> bool:
        key, operation, payload = command["aggregate_key"], command["operation"], command["payload"]
        if operation == "create_payment_intent":
            manual = payload["capture_method"] == "manual"
            self.intents[key] = ModelIntent(command["scope"], payload["amount"], payload["currency"], manual)
            return True
        intent = self.intents[key]
        expected = command["expected_version"]
        if expected is not None and expected != intent.version:
            return False
        if operation == "confirm_payment_intent":
            intent.attempts.append(("authorize" if intent.manual else "purchase", intent.amount))
            intent.state = "processing"
        elif operation == "capture_payment_intent":
            intent.attempts.append(("capture", intent.capturable))
            intent.state = "processing"
        else:
            kind, amount = intent.attempts[payload["attempt"] - 1]
            self._settle(intent, kind, amount, payload["status"])
        intent.version += 1
        return True

    def _settle(self, intent: ModelIntent, kind: str, amount: int, status: str) -> None:
        if status == "declined":
            intent.state = "requires_payment_method"
            return
        self.transactions += 1
        if kind == "authorize":
            intent.state, intent.capturable = "requires_capture", amount
            self._move("auth_hold:simulator", f"auth_obligation:{intent.merchant}", amount, intent.currency)
            return
        if kind == "capture":
            intent.capturable = 0
            self._move(f"auth_obligation:{intent.merchant}", "auth_hold:simulator", amount, intent.currency)
        intent.state = "succeeded"
        intent.received += amount
        pending, receivable = f"merchant_pending:{intent.merchant}", "processor_receivable:simulator"
        self._move(receivable, pending, amount, intent.currency)
        self._move(pending, "platform_fee_income", _half_up(amount * _PLATFORM_BPS), intent.currency)
        self._move("processor_fee_expense:simulator", receivable, _half_up(amount * _PROCESSOR_BPS), intent.currency)

    def _move(self, debit: str, credit: str, amount: int, currency: str) -> None:
        self.balances[f"{debit}:{currency}"] += amount
        self.balances[f"{credit}:{currency}"] -= amount


def _half_up(ten_thousandths: int) -> int:
    halves = ten_thousandths // (_BPS // 2)
    return (halves + 1) // 2
