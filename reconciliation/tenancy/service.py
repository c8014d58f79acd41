"""The multi-tenant platform as reconciliation sees it."""

from __future__ import annotations

from typing import Final

from reconciliation.contract.reconciled_service import ReconciledService
from reconciliation.tenancy.usage import COUNTED_ENDS, changed_invoices, usage_differences

RECONCILED: Final = ReconciledService(
    computed={"tenancy_invoices_recomputable": changed_invoices},
    sink_ends={"tenancy_usage": COUNTED_ENDS},
    analysed={"tenancy_usage_stores": usage_differences},
)
