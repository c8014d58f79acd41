"""What ``millrace check`` says after tampering, in a transaction that is rolled back: no copy of the database is needed.

The queries run as the operator's role, over what the same transaction has changed; the other stores are as they were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from reconciliation import limits as reconciliation_limits
from reconciliation.check.invariant import invariants
from reconciliation.check.run import Finding, _Before, _evaluate, _read_before, _Run
from reconciliation.contract.snapshot import Snapshot, parameters
from schemas.payments import limits as payments_limits

if TYPE_CHECKING:
    from reconciliation.check.run import CheckSettings
    from tests.worlds.sink_stage import Stage


def finding_after(stage: Stage, identity: str, *statements: str) -> Finding:
    """The finding of one invariant after statements of the superuser with every trigger off."""
    return finding_of(stage.check_settings(), stage.dsn(), identity, *statements)


def finding_of(settings: CheckSettings, superuser_dsn: str, identity: str, *statements: str) -> Finding:
    """The same of any database."""
    (invariant,) = (i for i in invariants() if i.id == identity)
    before = _Before(_read_before(settings, [invariant]), {settings.services[0].service: {}}, 0)
    given = parameters(
        settings.services[0].events_topic,
        settings.services[0].commands_topic,
        payments_limits.ATTEMPT_LEASE_MS // 1_000,
        settings.monitored_s,
    )
    with psycopg.connect(superuser_dsn) as connection:
        connection.execute("set local session_replication_role = replica")
        for statement in statements:
            connection.execute(statement.encode())
        connection.execute("set local session_replication_role = origin")
        connection.execute("set local role millrace_operator")
        run = _Run(settings, Snapshot(connection, given), before)
        finding = _evaluate(run, invariant, reconciliation_limits.CHECK_SAMPLE_MAX, lambda _: None)
        connection.rollback()
    return finding
