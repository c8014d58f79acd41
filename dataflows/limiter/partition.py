"""What the owner of a limiter partition holds: quota policies, and the durable quotas of tenants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from dataflows.limiter import quota_rows
from dataflows.limiter.policies import PoliciesPartition, PoliciesWorkspace
from dataflows.limiter.quotas import CONSUME, REFUND, QuotasWorkspace
from dataflows.owner.batch import Statement
from dataflows.owner.service import MISROUTED, Committed
from schemas.limiter.topics import PARTITIONS
from schemas.records import Command, Rejection
from schemas.topics import partition_for

_QUOTAS: Final = (CONSUME, REFUND)


class LimiterPartition:
    """One owned partition. Quotas are decided by the policies in force, whichever partition published them."""

    def __init__(self, connection: object, partition: int) -> None:
        self._policies = PoliciesPartition(connection, partition)
        self._partition = partition

    def reads(self, keys: list[str], commands: Sequence[Command]) -> list[Statement]:
        """The policies that a batch publishes or decides by, and the quotas that it works on."""
        consumptions = [command for command in commands if command.operation == CONSUME]
        refunds = [command for command in commands if command.operation == REFUND]
        policies = self._policies.reads([*keys, *quota_rows.named_policies(consumptions)], commands)
        further = [*self._policies.reads_of_places(commands), *self._policies.reads_of_shards(commands)]
        return [*policies, *quota_rows.reads(consumptions, refunds), *further]

    def begin(self, rows: Sequence[list[tuple[Any, ...]]]) -> LimiterWorkspace:
        """A workspace over the rows of ``reads``."""
        policies = self._policies.begin(rows[:1], rows[4:])
        quotas = QuotasWorkspace(self._partition, policies.policy, rows[1:4] or ([], [], []))
        return LimiterWorkspace(self._partition, policies, quotas)


class LimiterWorkspace:
    """The policies and the quotas of one batch: a policy that it publishes decides the requests behind it."""

    def __init__(self, partition: int, policies: PoliciesWorkspace, quotas: QuotasWorkspace) -> None:
        self._partition = partition
        self._policies = policies
        self._quotas = quotas

    def decide(self, command: Command, offset: int, now: int) -> Committed | Rejection:
        """Folds one command in."""
        if command.operation not in _QUOTAS:
            return self._policies.decide(command, offset, now)
        if partition_for(command.aggregate_key, PARTITIONS) != self._partition:
            return MISROUTED
        return self._quotas.decide(command, now)

    def writes(self) -> list[Statement]:
        """Everything that the batch changes."""
        return [*self._policies.writes(), *self._quotas.writes()]

    def committed(self) -> None:
        """Nothing is remembered."""
        self._policies.committed()
