"""The golden bytes of every record version. ``python -m tests.contracts.golden`` adds the missing ones and changes none.

A golden file is written once, when its version is new, and read by every later build: bytes that lie in topics and
tables for years must go on meaning the same.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from fastavro.schema import fingerprint, to_parsing_canonical_form

from schemas.avro import codec
from tests.contracts import golden_accounts, golden_limiter, golden_social, golden_tenancy

FOLDER: Final = Path(__file__).parent / "golden_files"
IDS: Final = FOLDER / "ids.json"

_ENVELOPE: Final[dict[str, Any]] = {
    "request_id": "req_golden",
    "idempotency_key": "schlüssel-1",
    "aggregate_key": "pi_golden",
    "expected_version": None,
    "scope": "m_1",
    "request_hash": bytes(range(32)),
    "trace_id": "0123456789abcdef0123456789abcdef",
    "issued_at": 1_800_000_000_000_001,
    "deadline_at": 0,
    "reply_to": 15,
    "reply_id": 2**63 - 1,
}
_MOST: Final = {"amount": 2**53 - 1, "currency": "KWD"}
_ONE: Final = {"amount": 1, "currency": "KWD"}
_TIMES: Final = {"created_at": 1_800_000_000_000_001, "updated_at": 1_800_000_000_000_002}
_SAID: Final = {"description": "Zwölf Gläser", "receipt_email": "ada@example.org", "statement_descriptor": "ORDER 7"}
_FOR_PAYER: Final = _SAID | {"return_url": "https://shop.example/back"}
_INTENT: Final[dict[str, Any]] = {
    "id": "pi_golden",
    "merchant_id": "m_1",
    **_MOST,
    "state": "succeeded",
    "version": 3,
    "capture_method": "manual",
    "payment_method": "tok_a",
    "processor": "simulator",
    "amount_capturable": 0,
    "amount_received": 1,
    "amount_refunded": 0,
    "amount_disputed": 0,
    "last_payment_error": None,
    "cancellation_reason": "duplicate",
    "latest_attempt": 2,
    "metadata": {"bestellung": "Ä-1 \U0001f4b3"},
    "created_at": 1_800_000_000_000_000,
    "updated_at": 1_800_000_000_000_002,
    "amount_pending": 1,
    "next_action": "https://acs.example/challenge",
    "authorized_until": 1_800_000_600_000_000,
    "reference": "Auftrag Nr. 7",
    **_FOR_PAYER,
}
_ATTEMPT: Final[dict[str, Any]] = {
    "intent_id": "pi_golden",
    "attempt": 2,
    "kind": "capture",
    "status": "captured",
    "operation_id": "op_golden_2",
    "processor": "simulator",
    **_ONE,
    "payment_method": "tok_a",
    "parent_ref": "pr_1",
    "final": True,
    "provider_ref": None,
    "error_code": None,
    **_TIMES,
    "settled_line": "report_1:7",
    "route": "routing 3: EUR cards",
}
_REFUND: Final[dict[str, Any]] = {
    "id": "re_golden_abcdefghij",
    "intent_id": "pi_golden",
    "merchant_id": "m_1",
    "attempt": 3,
    **_ONE,
    "state": "failed",
    "reason": "requested_by_customer",
    "failure_reason": "lost_or_stolen_card",
    "from_pending": 0,
    "metadata": {"grund": "ß"},
    "version": 3,
    **_TIMES,
    "pending_reason": "insufficient_funds",
}
_DISPUTE: Final[dict[str, Any]] = {
    "id": "dp_golden_abcdefghij",
    "intent_id": "pi_golden",
    "merchant_id": "m_1",
    "processor": "simulator",
    "provider_ref": "dis_1",
    **_MOST,
    "fee": 15_000,
    "reason": None,
    "state": "needs_response",
    "funds": "withdrawn",
    "version": 2,
    **_TIMES,
    "evidence": {"receipt": "Beleg Nr. 7"},
    "evidence_state": "draft",
    "evidence_due_by": 1_800_600_000_000_000,
}
_TXN: Final[dict[str, Any]] = {
    "txn_id": 2**60,
    "reference": "op_golden_2:capture",
    "kind": "capture",
    "effective_at": 1_800_000_000_000_002,
    "entries": [
        {"account_id": "processor_receivable:simulator:KWD", "debit": 1, "credit": 0, "currency": "KWD"},
        {"account_id": "merchant_pending:m_1:KWD", "debit": 0, "credit": 1, "currency": "KWD"},
    ],
}
# One record for every newest version. When a version is added, its record goes here and the older file stays.
RECORDS: Final[dict[str, dict[str, Any]]] = {
    **golden_limiter.records(_ENVELOPE),
    **golden_tenancy.RECORDS,
    **golden_social.records(_ENVELOPE),
    **golden_accounts.records(_ENVELOPE),
    "CreatePaymentIntent": _ENVELOPE
    | {
        "payload": {
            "amount": 1_099,
            "currency": "USD",
            "payment_method": None,
            "capture_method": "automatic",
            "metadata": {"k": ""},
            "reference": "Auftrag Nr. 7",
            **_FOR_PAYER,
        }
    },
    "ConfirmPaymentIntent": _ENVELOPE
    | {
        "expected_version": 1,
        "payload": {"payment_method": "tok_a", "return_url": "https://shop.example/back"}
        | {"customer_ip": "2001:db8::1", "customer_country": "AT", "card_country": None},
        "signals": {"network": "visa", "velocity:card:count:3600": "3"},
    },
    "ReviewPaymentIntent": _ENVELOPE
    | {"payload": {"decision": "approve", "note": "geprüft", "reviewer": "merchant:m_ops"}}
    | {"signals": {"network": "visa", "card_country": "DE"}},
    "CapturePaymentIntent": _ENVELOPE | {"payload": {"amount": None, "final": True}},
    "CancelPaymentIntent": _ENVELOPE | {"payload": {"cancellation_reason": "fraudulent"}},
    "CreateRefund": _ENVELOPE
    | {
        "payload": {
            "payment_intent": "pi_golden",
            "amount": None,
            "reason": "duplicate",
            "metadata": {"grund": "ß"},
        }
    },
    "CancelRefund": _ENVELOPE | {"payload": {"refund": "re_golden_abcdefghij"}},
    "RecordDispute": _ENVELOPE
    | {
        "scope": "processor:simulator",
        "reply_to": -1,
        "payload": {
            "provider_ref": "dis_1",
            "status": "needs_response",
            "funds": "withdrawn",
            **_MOST,
            "fee": 15_000,
            "reason": "fraudulent",
            "evidence_due_by": 1_800_600_000_000_000,
        },
    },
    "RecordSettlementLine": _ENVELOPE
    | {
        "scope": "settlement:simulator",
        "reply_to": -1,
        "payload": {
            "line_id": "report_1:7",
            "attempt": 2,
            "operation_id": "op_golden_2",
            "finding": "short",
            "gross": -1,
            "fee": 0,
            "difference": 7,
            "currency": "KWD",
        },
    },
    "PostJournal": _ENVELOPE
    | {
        "scope": "ledger:settlement",
        "reply_to": -1,
        "payload": {
            "reference": "payout:simulator:po_1",
            "kind": "payout",
            "entries": _TXN["entries"],
            "note": None,
        },
    },
    "RecordAttemptOutcome": _ENVELOPE
    | {
        "scope": "processor:simulator",
        "reply_to": -1,
        "reply_id": 0,
        "payload": {
            "operation_id": "op_golden_2",
            "attempt": 2,
            "status": "requires_action",
            "provider_ref": "pr_2",
            "amount": 1,
            "currency": "KWD",
            "error_code": None,
            "redirect_url": "https://acs.example/challenge",
            "authorized_until": 1_800_000_600_000_000,
            "pending_reason": "charge_pending",
            "next_action": '{"details": {}, "type": "use_stripe_sdk", "url": null}',
        },
    },
    "UpdatePaymentIntent": _ENVELOPE
    | {
        "payload": {
            **_MOST,
            "payment_method": None,
            "capture_method": "manual",
            "metadata": {"bestellung": "Ä-1"},
            "reference": None,
            **_FOR_PAYER,
            **dict.fromkeys(_SAID),
        }
    },
    "IncrementAuthorization": _ENVELOPE | {"payload": {"amount": 2**53 - 1}},
    "SubmitDisputeEvidence": _ENVELOPE
    | {"payload": {"dispute": "dp_golden_abcdefghij", "evidence": {"receipt": "Beleg Nr. 7"}, "submit": True}},
    "ExpireAuthorization": _ENVELOPE
    | {
        "scope": "processor:simulator",
        "reply_to": -1,
        "payload": {"operation_id": "op_golden_1", "authorized_until": 1_800_000_600_000_000},
    },
    "PaymentSystemCommitted": {
        "event_id": "evt_p0007000000000001",
        "aggregate_key": "pi_golden",
        "event_type": "payment_system_committed",
        "schema_version": 8,
        "trace_id": "0123456789abcdef0123456789abcdef",
        "seq": 1,
        "occurred_at": 1_800_000_000_000_002,
        "version": 3,
        "scope": "m_1",
        "operation": "record_attempt_outcome",
        "body": {
            "payment_intent": _INTENT,
            "processor_attempt": _ATTEMPT,
            "ledger_txns": [_TXN],
            "refund": _REFUND,
            "dispute": _DISPUTE,
            "caused_by": _ATTEMPT | {"attempt": 1, "settled_line": None, "route": None},
            "risk": {
                "intent_id": "pi_golden",
                "attempt": 2,
                "outcome": "review",
                "score": 70,
                "policy_version": 4,
                "reasons": [{"rule": "velocity_card", "score": 70, "detail": "6 in 3600 s", "shadow": False}],
                "decided_by": None,
                "created_at": 1_800_000_000_000_001,
            },
            "account": {
                "id": "ma_golden",
                "merchant_id": "m_1",
                "state": "frozen",
                "frozen_reason": "court order",
                "version": 5,
                "created_at": 1_800_000_000_000_000,
                "updated_at": 1_800_000_000_000_002,
            },
            "payout": {
                "id": "pt_golden",
                "account_id": "ma_golden",
                "merchant_id": "m_1",
                "amount": 1,
                "currency": "KWD",
                "state": "failed",
                "destination": "main",
                "failure_reason": "account_closed",
                "metadata": {},
                "version": 2,
                "created_at": 1_800_000_000_000_001,
                "updated_at": 1_800_000_000_000_002,
            },
            "payout_destination": {
                "id": "bd_golden",
                "account_id": "ma_golden",
                "merchant_id": "m_1",
                "name": "Hausbank",
                "country": "AT",
                "bank_code": None,
                "last4": "3201",
                "state": "disabled",
                "usable_at": 1_800_172_800_000_001,
                "version": 2,
                "created_at": 1_800_000_000_000_001,
                "updated_at": 1_800_000_000_000_002,
            },
        },
    },
    "ResultBatch": {
        "results": [
            {"reply_id": 1, "outcome": "committed", "replayed": False, "body": b'{"result":{}}'},
            {"reply_id": -1, "outcome": "expired", "replayed": True, "body": b""},
        ]
    },
    "DeadLetter": {
        "topic": "commands.payments.v1",
        "partition": 7,
        "offset": 2**40,
        "aggregate_key": None,
        "reason": "undecodable_record",
        "parked_at": 1_800_000_000_000_000,
        "record": b"\x00\xff not avro",
    },
}


def stem(schema: codec.Schema) -> str:
    """The name of a version's golden files."""
    return f"{schema.name}.v{schema.version}"


def schema_hash(schema: codec.Schema) -> str:
    """Equal while a schema reads and writes the same bytes; its documentation may change."""
    return fingerprint(to_parsing_canonical_form(json.loads(schema.text)), "SHA-256")


def to_json(value: Any) -> Any:
    """A record as JSON; bytes as {"hex": ...}."""
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, dict):
        return {k: to_json(v) for k, v in value.items()}
    if isinstance(value, list):
        return [to_json(v) for v in value]
    return value


def of_json(value: Any) -> Any:
    """The record behind ``to_json``."""
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"]) if value.keys() == {"hex"} else {k: of_json(v) for k, v in value.items()}
    if isinstance(value, list):
        return [of_json(v) for v in value]
    return value


def add_missing() -> list[str]:
    """Writes golden files of new versions and enters their ids; touches no file that exists."""
    listed = json.loads(IDS.read_text()) if IDS.exists() else {}
    added = []
    for schema_id, schema in sorted(codec.schemas_by_id().items()):
        binary = FOLDER / f"{stem(schema)}.bin"
        if not binary.exists():
            record = RECORDS[schema.name]
            binary.write_bytes(codec.encode(schema.name, record))
            text = json.dumps(to_json(record), indent=2, ensure_ascii=False)
            (FOLDER / f"{stem(schema)}.json").write_text(text + "\n")
            added.append(stem(schema))
        row = {"subject": schema.subject, "version": schema.version, "sha256": schema_hash(schema)}
        listed.setdefault(str(schema_id), row)
    IDS.write_text(json.dumps(listed, indent=2) + "\n")
    return added


if __name__ == "__main__":
    print("added:", ", ".join(add_missing()) or "nothing")  # noqa: T201 - a command of a person
