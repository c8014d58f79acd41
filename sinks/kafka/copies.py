"""How often a cluster keeps what our topics hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Copies(NamedTuple):
    """How many brokers have each record, and how many must before it is acknowledged. None: as the cluster does."""

    replicas: int | None = None
    in_sync: int | None = None

    def fault(self, brokers: int, there: Mapping[str, int]) -> str | None:
        """Why that cannot be: the cluster has too few brokers, or a topic that is there (name, replicas) too few."""
        if self.replicas is None:
            return None
        if self.replicas > brokers:
            return f"topics are to have {self.replicas} replicas, and the cluster has {brokers} brokers"
        fewer = [f"{name} has {count}" for name, count in sorted(there.items()) if count < self.replicas]
        more = f" and {len(fewer) - 1} more topics" if len(fewer) > 1 else ""
        remedy = "add them with kafka-reassign-partitions.sh first"
        return f"topics are to have {self.replicas} replicas: {fewer[0]}{more}; {remedy}" if fewer else None


AS_THE_CLUSTER: Final = Copies()
