"""Counters as reconciliation sees them: their invariant is SQL alone."""

from __future__ import annotations

from typing import Final

from reconciliation.contract.reconciled_service import ReconciledService

RECONCILED: Final = ReconciledService()
