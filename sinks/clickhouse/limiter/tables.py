"""The columns of the limiter's tables in ClickHouse. Their definitions are in ``schema``."""

from __future__ import annotations

from typing import Final

from sinks.clickhouse.tables import Table

SUMS: Final = ("allowed", "denied", "repeated", "degraded", "allowed_cost", "denied_cost", "rows", "weight")
SHADOWS: Final = "refused_in_shadow"  # of a decision the policies, of sums how many
DECISIONS: Final = Table(
    name="limit_decisions",
    columns=(
        *("source", "number", "at", "tenant", "route", "key_hash", "policy_id", "policy_version", "cost", "remaining"),
        *("allowed", "repeated", "degraded", "approximate", "weight", SHADOWS),
    ),
)
BY_MINUTE: Final = Table(
    name="limit_decisions_by_minute", columns=("minute", "tenant", "policy_id", "route", "block", *SUMS, SHADOWS)
)
BY_KEY: Final = Table(
    name="limit_keys_by_minute",
    columns=("minute", "key_hash", "tenant", "policy_id", "route", "block", *SUMS, SHADOWS),
)
GAPS: Final = Table(name="limit_decision_gaps", columns=("source", "gap", "as_of"))
TABLES: Final = (DECISIONS, BY_MINUTE, BY_KEY, GAPS)
