"""The multi-tenant platform as reconciliation sees it."""

from __future__ import annotations

from typing import Final

from reconciliation.contract.reconciled_service import ReconciledService

RECONCILED: Final = ReconciledService()
