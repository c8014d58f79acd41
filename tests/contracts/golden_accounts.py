"""The golden records of commands on merchants' accounts: payouts, destinations, and what operators do."""

from __future__ import annotations

from typing import Any


def records(envelope: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """One record for every newest version of these commands, in this envelope."""
    operated = envelope | {"scope": "operator:by_golden", "aggregate_key": "ma_golden"}
    reserve = {"merchant_id": "m_1", "amount": 1, "currency": "KWD", "reason": "viele Rückgaben"}
    return {
        "CreatePayout": envelope
        | {
            "aggregate_key": "ma_golden",
            "payload": {"amount": 2**53 - 1, "currency": "KWD", "destination": "Hausbank", "metadata": {"grund": "ß"}},
        },
        "CancelPayout": envelope | {"aggregate_key": "ma_golden", "payload": {"payout": "pt_golden_abcdefghijklmn"}},
        "RecordPayoutOutcome": envelope
        | {
            "aggregate_key": "ma_golden",
            "scope": "ledger:reconciliation",
            "reply_to": -1,
            "payload": {
                "payout": "pt_golden_abcdefghijklmn",
                "status": "failed",
                "amount": 1,
                "currency": "KWD",
                "bank": "AT611904300234573201",
                "reason": "account_closed",
            },
        },
        "CreatePayoutDestination": envelope
        | {
            "aggregate_key": "ma_golden",
            "payload": {"name": "Hausbank", "account_number": "AT611904300234573201", "bank_code": None},
        },
        "DisablePayoutDestination": envelope
        | {"aggregate_key": "ma_golden", "payload": {"destination": "bd_golden_abcdefghijklmn"}},
        "AllowPayoutDestination": operated
        | {"payload": {"merchant_id": "m_1", "destination": "bd_golden_abcdefghijklmn", "reason": "angerufen"}},
        "HoldReserve": operated | {"payload": reserve},
        "ReleaseReserve": operated | {"payload": reserve},
        "ConvertCurrency": operated
        | {
            "payload": {
                "merchant_id": "m_1",
                "source_amount": 1_000,
                "source_currency": "KWD",
                "target_amount": 325,
                "target_currency": "USD",
                "rate": "3.2512",
            },
        },
        "FreezeAccount": operated | {"payload": {"merchant_id": "m_1", "reason": "court order"}},
        "UnfreezeAccount": operated | {"payload": {"merchant_id": "m_1", "reason": "geklärt"}},
    }
