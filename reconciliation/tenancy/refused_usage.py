"""Usage from Kafka that does not count, for operators: they look at it, have it judged again, or give it up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from psycopg.rows import dict_row

from reconciliation.audit.log import append
from schemas.errors import NotFound, StateConflict
from schemas.tenancy import limits
from schemas.tenancy.refused_usage import raise_unless
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from psycopg import Connection

_SQL: Final = queries("reconciliation.tenancy", "refused_usage.sql")
Decision = Literal["asked", "discarded"]


def refused(connection: Connection[Any], tenant_id: str = "", *, every_state: bool = False) -> list[dict[str, Any]]:
    """The newest ones, of a tenant that they name or of all; with ``every_state`` also those that are decided."""
    asked = {"every_state": every_state, "tenant": tenant_id, "limit": limits.USAGE_REFUSED_LISTED_MAX}
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_SQL["refused_usage_page"].encode(), asked).fetchall()


def refused_one(connection: Connection[Any], refused_id: str) -> dict[str, Any]:
    """With what is kept of it. Raises NotFound."""
    with connection.cursor(row_factory=dict_row) as cursor:
        found = cursor.execute(_SQL["refused_usage_read"].encode(), {"refused_id": refused_id}).fetchone()
    if found is None:
        raise NotFound(f"no refused usage is kept as {refused_id}")
    return found


def decide(connection: Connection[Any], refused_id: str, decision: Decision, person: str, note: str) -> None:
    """``asked``: it is judged again by who meters. Raises NotFound or StateConflict, which are audited too."""
    said = {"refused_id": refused_id, "decision": decision, "person": person, "note": note}
    (word,) = connection.execute(_SQL["refused_usage_decide"].encode(), said).fetchone() or ("not_found",)
    try:
        raise_unless(word, decision)
    except (NotFound, StateConflict) as error:
        action = "usage.send" if decision == "asked" else "usage.discard"
        append(connection, person, action, refused_id, "refused", note=note, code=error.code)
        raise
