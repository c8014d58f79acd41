"""The rate limiter as reconciliation sees it."""

from __future__ import annotations

from typing import Final

from reconciliation.contract.reconciled_service import ReconciledService
from reconciliation.limiter.durable_quotas import quota_violations
from sinks.postgres.sql_files import queries

RECONCILED: Final = ReconciledService(
    aggregate_version=queries("reconciliation.limiter", "aggregates.sql")["aggregate_version"],
    computed={"durable_quotas": quota_violations},
)
