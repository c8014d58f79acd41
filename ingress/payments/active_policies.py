"""What of the published policies this process obeys, kept fresh in the background: no call waits for it.

Signals that the rules ask for: what is not read yet is not gathered; the rules then say themselves what an unknown
signal means. Maintenance: no new work is taken before it was read once; what was read last holds while Postgres is out.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final

import msgspec
import psycopg
import structlog

from ingress.http import metrics
from schemas import errors
from schemas.operators import maintenance
from schemas.payments import limits
from schemas.payments.policies import risk_policy, routing
from schemas.payments.policies.risk_policy import Velocity
from sinks import cancelled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingress.http.store import Store

_NONE: Final[Mapping[str, Velocity]] = {}


class ActivePolicies:
    """What one process knows of the policies in force."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, int] = {}  # the newest version of each kind that was looked at
        self._task: asyncio.Task[None] | None = None
        self.velocities: Mapping[str, Velocity] = _NONE  # by the name of the signal
        self._was_read = False
        self.maintenance = maintenance.NEVER
        self._risk_needs_card = self._routing_needs_network = False

    @property
    def needs_card(self) -> bool:
        """Whether a rule looks at the card itself."""
        return self._risk_needs_card or self._routing_needs_network

    @property
    def needs_signals(self) -> bool:
        """Whether anything is to be gathered at all."""
        return bool(self.velocities) or self.needs_card

    def require_read(self) -> None:
        """Raises Unavailable until everything that is published was read once."""
        if not self._was_read:
            raise errors.Unavailable("The policies in force are not read yet; try again with the same identity.")

    def require_new_work(self) -> None:
        """Returns when merchants may begin something new. Raises Maintenance, or Unavailable while that is unknown."""
        self.require_read()
        if self.maintenance.on:
            raise errors.Maintenance

    def start(self) -> None:
        """Reads now, and then every second."""
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        """Ends the reading."""
        if self._task is not None:
            await cancelled.over(self._task)

    async def refresh(self) -> None:
        """Takes over what was published since. Raises Unavailable."""
        for kind, version, body in await self._store.rows("policies_active", {"known": json.dumps(self._known)}):
            if body is not None:
                self._take(kind, version, body)
        self._was_read = True

    def _take(self, kind: str, version: int, body: str) -> None:
        self._known[kind] = version
        try:
            if kind == "risk":
                document = risk_policy.read(body)
                self.velocities = risk_policy.velocities(document)
                self._risk_needs_card = risk_policy.needs_card(document)
            elif kind == "routing":
                policy = msgspec.json.decode(body, type=routing.RoutingPolicy)
                self._routing_needs_network = routing.needs_network(policy)
            elif kind == "maintenance":
                self.maintenance = maintenance.read(body)
                metrics.MAINTENANCE.set(self.maintenance.on)
                structlog.get_logger().warning("maintenance", on=self.maintenance.on, version=version)
        except msgspec.DecodeError as error:  # of a newer build: its signals stay unknown
            structlog.get_logger().error("policy_unreadable", kind=kind, version=version, reason=str(error))

    async def _follow(self) -> None:
        while True:
            try:
                await self.refresh()
            except (errors.Unavailable, psycopg.Error) as error:  # whatever it was: who stops following obeys nobody
                structlog.get_logger().warning("policies_not_read", cause=str(error))
            await asyncio.sleep(limits.POLICY_ACTIVE_READ_S)
