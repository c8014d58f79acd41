"""The payment-core mix: a seeded stream of commands as merchants and processors send them, and what it must lead to.

Most payments are created, confirmed and settled by one fact; some are authorized and captured later; some are declined.
About one command in a hundred is a duplicate of an earlier one, about one in two hundred names a stale version. The
steps of a payment lie ``open_payments`` commands apart, as far as a caller and a processor need to answer at full
rate: a batch seldom holds two steps of one payment, so every step is a write of its own.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from compose.proof.bench.model import Model
from schemas import identity, records, topics
from schemas.avro import codec
from schemas.payments import operations
from schemas.payments import topics as payments_topics
from schemas.senders import Headers
from sinks.kafka.connection import KafkaConnection

_MERCHANTS: Final = 500
_CURRENCIES: Final = ("USD", "EUR", "JPY", "GBP")
_MANUAL_SHARE: Final = 0.15
_DECLINED_SHARE: Final = 0.05
_DUPLICATE_SHARE: Final = 0.01
_STALE_SHARE: Final = 0.005
_REMEMBERED_MAX: Final = 5_000  # recent commands that a duplicate may repeat
_PROCESSOR_SCOPE: Final = "processor:simulator"
_NOW_US: Final = 1_790_000_000_000_000


@dataclass(slots=True)
class _Payment:
    """One payment on its way: what is known to its caller and its processor."""

    key: str
    merchant: str
    amount: int
    currency: str
    steps: list[str]
    attempt: int = 0
    version: int = 1


class Mix:
    """``commands(n)`` yields n commands; ``model`` has seen each that was yielded."""

    def __init__(self, seed: int, open_payments: int, *, reply_to: int = -1) -> None:
        self.model = Model()
        self._random = random.Random(seed)
        self._seed = seed
        self._open_payments = open_payments
        self._reply_to = reply_to
        self._serial = 0
        self._open: deque[_Payment] = deque()
        self._recent: deque[dict[str, Any]] = deque(maxlen=_REMEMBERED_MAX)

    def commands(self, count: int) -> Iterator[records.Command]:
        """The next commands of the stream, each already applied to the model."""
        for _ in range(count):
            fields = self._next()
            self.model.apply(fields)
            yield records.Command(**fields)

    def _next(self) -> dict[str, Any]:
        chance = self._random.random()
        self._serial += 1
        if chance < _DUPLICATE_SHARE and self._recent:
            return self._random.choice(self._recent) | {"reply_id": self._serial}
        if chance < _DUPLICATE_SHARE + _STALE_SHARE and self._open:
            payment = self._random.choice(self._open)
            return self._client(payment, "confirm_payment_intent", {"payment_method": None}, 1_000_000)
        room = len(self._open) < self._open_payments
        fields = self._create() if room else self._step(self._open.popleft())
        self._recent.append(fields)
        return fields

    def _create(self) -> dict[str, Any]:
        draw = self._random
        merchant_number = int(_MERCHANTS * draw.random() ** 2)  # some are larger than others
        merchant = f"m_{merchant_number:04d}"
        manual = draw.random() < _MANUAL_SHARE
        verdict = "declined" if draw.random() < _DECLINED_SHARE else "authorized" if manual else "captured"
        steps = ["confirm", verdict, *(["capture", "captured"] if verdict == "authorized" else [])]
        key = f"order-{self._seed}-{self._serial}"
        payment = _Payment(
            key=identity.derived_id("pi", merchant, "POST /v1/payment_intents", key),
            merchant=merchant,
            amount=draw.randint(100, 500_000),
            currency=_CURRENCIES[merchant_number % len(_CURRENCIES)],
            steps=steps,
        )
        self._open.append(payment)
        wanted = {
            "amount": payment.amount,
            "currency": payment.currency,
            "payment_method": "tok_sim_approve",
            "capture_method": "manual" if manual else "automatic",
            "metadata": {"order": key, "channel": "web"},
        }
        return self._command(payment, "create_payment_intent", wanted, merchant, key, None)

    def _step(self, payment: _Payment) -> dict[str, Any]:
        step = payment.steps.pop(0)
        if payment.steps:
            self._open.append(payment)
        expected, payment.version = payment.version, payment.version + 1
        if step == "confirm":
            payment.attempt += 1
            return self._client(payment, "confirm_payment_intent", {"payment_method": None}, expected)
        if step == "capture":
            payment.attempt += 1
            return self._client(payment, "capture_payment_intent", {"amount": None, "final": True}, expected)
        operation_id = identity.operation_id(payment.key, payment.attempt)
        fact = {
            "operation_id": operation_id,
            "attempt": payment.attempt,
            "status": step,
            "provider_ref": f"ch_{self._serial:012d}",
            "amount": None if step == "declined" else payment.amount,
            "currency": None if step == "declined" else payment.currency,
            "error_code": "card_declined" if step == "declined" else None,
        }
        return self._command(payment, "record_attempt_outcome", fact, _PROCESSOR_SCOPE, f"{operation_id}:{step}", None)

    def _client(self, payment: _Payment, operation: str, payload: dict[str, Any], expected: int) -> dict[str, Any]:
        key = f"{operation[:3]}-{self._seed}-{self._serial}"
        return self._command(payment, operation, payload, payment.merchant, key, expected)

    def _command(
        self, payment: _Payment, operation: str, payload: dict[str, Any], scope: str, key: str, expected: int | None
    ) -> dict[str, Any]:
        is_fact = scope == _PROCESSOR_SCOPE
        return {
            "operation": operation,
            "request_id": f"req_{self._random.getrandbits(96):024x}",
            "idempotency_key": key,
            "aggregate_key": payment.key,
            "expected_version": expected,
            "scope": scope,
            "request_hash": identity.request_hash(operations.OPERATIONS[operation].template, payment.key, payload),
            "trace_id": f"{self._random.getrandbits(128):032x}",
            "issued_at": _NOW_US + self._serial,
            "deadline_at": 0,
            "reply_to": -1 if is_fact else self._reply_to,
            "reply_id": self._serial,
            "payload": payload,
        }


#: a record as it lies in the topic: partition, key, value, headers
Signed = tuple[int, str, bytes, Headers]


def signed(command: records.Command, kafka: KafkaConnection) -> Signed:
    """A command as its sender writes it."""
    key, value, operation = (
        command.aggregate_key,
        codec.encode_command(command),
        operations.OPERATIONS[command.operation],
    )
    headers = kafka.signed(operation.senders, operation.topic, key, value)
    return topics.partition_for(key, payments_topics.PARTITIONS), key, value, headers
