"""Social posts as reconciliation sees them: invariants in SQL."""

from __future__ import annotations

from typing import Final

from reconciliation.contract.reconciled_service import ReconciledService

RECONCILED: Final = ReconciledService()
