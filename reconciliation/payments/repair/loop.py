"""Finishes approved repairs without a person, as long as a service runs: the approval was the decision of two.

Nothing is decided here. A repair that is approved and not known to be posted for a while (its ingress died, its owner
was away) is sent again under its own identity and settled from the owner's stored result, so any number of loops and
of ``millrace repair resume`` may run at once, and a kill anywhere is made good by the next round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import structlog

from reconciliation.payments.repair.resume import resume
from reconciliation.payments.rounds import connected, longer
from schemas import errors
from schemas.payments import limits as payments_limits

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from sinks.kafka.connection import KafkaConnection

log = structlog.get_logger()


class RepairLoop:
    """The loop of one process, over connections of its own: it is not in the way of anything else."""

    def __init__(
        self, dsn: str, kafka: KafkaConnection, name: str, on_step: Callable[[str], None] = lambda _: None
    ) -> None:
        self._dsn = dsn
        self._kafka = kafka
        self._name = name
        self._on_step = on_step

    def run(self, stop: threading.Event) -> None:
        """Rounds until ``stop``; absent servers are waited out."""
        pause_s = 0.0
        while not stop.wait(pause_s):
            is_done = False
            try:
                is_done = self.round()
            except (psycopg.OperationalError, errors.Unavailable) as error:
                log.warning("repair_loop_waits", error=str(error).partition("\n")[0])
            # Sent again ever more rarely: an owner that is away has them all in its topic already.
            first = payments_limits.REPAIR_LOOP_INTERVAL_S
            pause_s = first if is_done else longer(pause_s, first, payments_limits.REPAIR_LOOP_INTERVAL_MAX_S)

    def round(self) -> bool:
        """Everything that has waited long enough, once; whether all was decided. Raises as psycopg, or Unavailable."""
        with connected(self._dsn, self._name, payments_limits.REPAIR_LOOP_STATEMENT_TIMEOUT_MS) as connection:
            found = resume(
                connection,
                self._kafka,
                wait_s=payments_limits.REPAIR_LOOP_DECISION_WAIT_S,
                waiting_s=payments_limits.REPAIR_LOOP_GRACE_S,
                on_step=self._on_step,
            )
        if found.posted or found.refused or found.undecided:
            log.info("repairs_finished", posted=found.posted, refused=found.refused, undecided=len(found.undecided))
        return not found.undecided
