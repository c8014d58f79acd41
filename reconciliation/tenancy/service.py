"""The multi-tenant platform as reconciliation sees it."""

from __future__ import annotations

from typing import Final

from reconciliation.contract.reconciled_service import ReconciledService
from reconciliation.tenancy.usage import COUNTED_ENDS, changed_invoices, usage_differences
from sinks.postgres.sql_files import queries

RECORD_ENDS: Final = (
    "select case feed when 'cost' then 0 else 1 end, last_seq from tenant_feed where last_seq > 0"
    " union all select 2, seq from audit_head where seq > 0"
)
RECONCILED: Final = ReconciledService(
    aggregate_version=queries("reconciliation.tenancy", "aggregates.sql")["aggregate_version"],
    computed={"tenancy_invoices_recomputable": changed_invoices},
    sink_ends={"tenancy_usage": COUNTED_ENDS, "tenancy_records": RECORD_ENDS},
    analysed={"tenancy_usage_stores": usage_differences},
)
