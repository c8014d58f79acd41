"""Cases and repairs to look at, and cases for money that waits too long. Nothing here decides anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from psycopg.rows import dict_row

from schemas.errors import NotFound
from schemas.payments import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    import psycopg

_SQL: Final = queries("reconciliation.payments.repair", "repair.sql")


def cases_list(
    connection: psycopg.Connection, *, kind: str | None = None, every_state: bool = False
) -> list[dict[str, Any]]:
    """What waits for a person, newest first; with ``every_state`` also the resolved ones."""
    return _rows(connection, "cases_page", kind=kind, every_state=every_state, limit=limits.CASES_LISTED_MAX)


def case_show(connection: psycopg.Connection, case_id: str) -> dict[str, Any]:
    """One case with its evidence. Raises NotFound."""
    return _one(_rows(connection, "case_by_id", id=case_id), f"there is no case {case_id}; see 'millrace cases list'")


def aged_cases_open(connection: psycopg.Connection) -> list[dict[str, Any]]:
    """Opens a case for all that waits for too long, once for each.

    That is every balance of suspense, rounding or payouts, every payout to a merchant, every dispute that ended
    otherwise than lost without its money coming back, and every dispute without an answer whose deadline is near.
    """
    balances = _rows(connection, "aged_open", horizon_days=limits.SETTLEMENT_HORIZON_DAYS)
    payouts = _rows(connection, "aged_payouts_open", payout_horizon_days=limits.PAYOUT_HORIZON_DAYS)
    ended = _rows(connection, "aged_disputes_open", horizon_days=limits.SETTLEMENT_HORIZON_DAYS)
    return balances + payouts + ended + _rows(connection, "disputes_due_open", due_days=limits.DISPUTE_DUE_DAYS)


def repairs_list(connection: psycopg.Connection, *, every_state: bool = False) -> list[dict[str, Any]]:
    """Repairs that wait for a decision or for their posting, newest first; with ``every_state`` all."""
    return _rows(connection, "repairs_page", every_state=every_state, limit=limits.REPAIRS_LISTED_MAX)


def repair_show(connection: psycopg.Connection, repair_id: str) -> dict[str, Any]:
    """One repair with its entries and preview. Raises NotFound."""
    found = _rows(connection, "repair_by_id", id=repair_id)
    return _one(found, f"there is no repair {repair_id}; see 'millrace repair list'")


def _rows(connection: psycopg.Connection, name: str, **parameters: object) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_SQL[name].encode(), parameters).fetchall()


def _one(rows: list[dict[str, Any]], otherwise: str) -> dict[str, Any]:
    if not rows:
        raise NotFound(otherwise)
    return rows[0]
