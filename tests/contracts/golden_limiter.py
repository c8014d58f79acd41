"""The golden records of the rate limiter: one for every newest version."""

from __future__ import annotations

from typing import Any, Final

_POLICY_TERMS: Final[dict[str, Any]] = {
    "scope": {"tenant": "t_ä", "user": "*", "route": "/v1/*", "network": "2001:db8::/32"},
    "per": ["tenant", "route", "network"],
    "algorithm": "fixed_window",
    "capacity": 2**40,
    "refill_rate": None,
    "refill_period_ms": 1_000,
    "window_ms": None,
    "slots": 10,
    "strict": False,
    "consistency": "leased",
    "failure_mode": "stale",
    "shadow": True,
    "audit": "denied",
    "network_prefix_v4": None,
    "network_prefix_v6": 48,
    "calendar": {"unit": "month", "time_zone": "Australia/Lord_Howe"},
    "boundary_guard": 2**40,
    "further_limits": [
        {
            "algorithm": "token_bucket",
            "capacity": 2**33,
            "refill_rate": 3,
            "refill_period_ms": 1_000,
            "window_ms": None,
            "slots": 10,
            "strict": True,
            "calendar": {"unit": "day", "time_zone": "UTC"},
        }
    ],
}


def records(envelope: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By record name; commands in the envelope."""
    return {
        "PublishPolicy": envelope | {"payload": {"policy_id": "pl_golden", **_POLICY_TERMS}},
        "WithdrawPolicy": envelope | {"payload": {}},
        "ConsumeQuota": envelope
        | {
            "payload": {
                "tenant": "t_ä",
                "user": "u",
                "route": "/v1/*",
                "cost": 2**31 - 1,
                "levels": [{"policy_id": "pl_golden", "version": 2, "counted_by": "t_ä\x1fu"}],
            }
        },
        "RefundQuota": envelope | {"payload": {"tenant": "t_ä", "identity": "0123456789abcdef" * 2}},
        "RateLimiterCommitted": {
            "event_id": "evt_l0003000000000001",
            "aggregate_key": "pl_golden",
            "event_type": "rate_limiter_committed",
            "schema_version": 7,
            "trace_id": "0123456789abcdef0123456789abcdef",
            "seq": 1,
            "occurred_at": 1_800_000_000_000_002,
            "version": 2,
            "scope": "m_ops",
            "operation": "publish_policy",
            "body": {
                "policy": {"policy_id": "pl_golden", "version": 2, **_POLICY_TERMS, "withdrawn": True},
                "quota": {
                    "identity": "0123456789abcdef" * 2,
                    "key_hash": "fedcba9876543210" * 2,
                    "cost": 3,
                    "levels": [{"policy_id": "pl_golden", "policy_version": 2, "remaining": -1}],
                },
            },
        },
    }
