"""Policies as one owned partition: each is read once and written once a batch, with a row for every version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from dataflows.limiter.domain.limit_policy import (
    OwnedPolicy,
    Placed,
    decide_publish,
    decide_withdraw,
    may_count_over_tenants,
)
from dataflows.owner.batch import Statement
from dataflows.owner.service import MISROUTED, Committed, NewEvent
from schemas.limiter import limit_policy
from schemas.limiter.limit_policy import LimitPolicy
from schemas.limiter.topics import PARTITIONS
from schemas.records import Command, Rejection
from schemas.topics import partition_for
from sinks.postgres.arrays import Bigints, Texts
from sinks.postgres.sql_files import queries

SQL: Final = queries("sinks.postgres.queries.limiter", "policies.sql")
PUBLISH: Final = "publish_policy"
WITHDRAW: Final = "withdraw_policy"
_encode: Final = msgspec.json.Encoder(order="deterministic").encode
_policy: Final = msgspec.json.Decoder(LimitPolicy)


class PoliciesPartition:
    """The policies of one owned partition. Publications are rare: nothing is remembered between batches."""

    def __init__(self, connection: object, partition: int) -> None:
        del connection  # nothing has to be known before the first batch
        self.partition = partition

    def reads(self, keys: list[str], commands: Sequence[Command]) -> list[Statement]:  # noqa: ARG002 - the runtime's
        """The policies of a batch."""
        return [(SQL["policies_read"], (Texts(keys),))] if keys else []

    def reads_of_places(self, commands: Sequence[Command]) -> list[Statement]:
        """Who has the places that the publications of a batch are for; nothing where there are none."""
        published = [command for command in commands if command.operation == PUBLISH]
        places = [limit_policy.place_of(limit_policy.as_policy(c.payload, c.aggregate_key, 1)) for c in published]
        return [(SQL["policies_placed"], (Texts(places),))] if published else []

    def reads_of_shards(self, commands: Sequence[Command]) -> list[Statement]:
        """The number of shards, which stays so until the batch is committed; nothing where it does not matter."""
        if not any(command.operation == PUBLISH and may_count_over_tenants(command.payload) for command in commands):
            return []
        return [(SQL["shards_kept"], ()), (SQL["shards_counted"], ())]

    def begin(
        self, rows: Sequence[list[tuple[Any, ...]]], further: Sequence[list[tuple[Any, ...]]] = ()
    ) -> PoliciesWorkspace:
        """A workspace over the rows of ``reads``, and of ``reads_of_places`` and ``reads_of_shards``."""
        placed = {place: Placed(policy_id, publisher) for place, policy_id, publisher in further[0]} if further else {}
        shards = further[1:]
        known = {}
        for policy_id, publisher, body, created_at, updated_at in rows[0] if rows else []:
            known[policy_id] = OwnedPolicy(
                publisher=publisher, policy=_policy.decode(body), created_at=created_at, updated_at=updated_at
            )
        return PoliciesWorkspace(self.partition, known, placed, shards[-1][0][0] if shards else 1)


class PoliciesWorkspace:
    """The policies of one batch in memory."""

    def __init__(
        self, partition: int, known: dict[str, OwnedPolicy], placed: dict[str, Placed] | None = None, shards: int = 1
    ) -> None:
        self._partition = partition
        self._placed = {} if placed is None else placed
        self._shards = shards
        self._known = known
        self._read_versions = {key: owned.policy.version for key, owned in known.items()}
        self._published: list[OwnedPolicy] = []

    def policy(self, policy_id: str) -> LimitPolicy | None:
        """The version in force, one that this batch publishes too; None when it was not read."""
        owned = self._known.get(policy_id)
        return None if owned is None else owned.policy

    def decide(self, command: Command, offset: int, now: int) -> Committed | Rejection:  # noqa: ARG002 - the runtime's
        """Folds one publication or withdrawal in."""
        if partition_for(command.aggregate_key, PARTITIONS) != self._partition:
            return MISROUTED
        current = self._known.get(command.aggregate_key)
        if command.operation == WITHDRAW:
            decided = decide_withdraw(current, command, now)
        else:
            decided = decide_publish(current, command, now, self._shards, self._placed)
        if isinstance(decided, Rejection):
            return decided
        self._place(decided, current)
        self._known[command.aggregate_key] = decided
        self._published.append(decided)
        shown = limit_policy.rendered(decided.policy)
        version, state = decided.policy.version, {"withdrawn": decided.policy.withdrawn}
        return Committed(
            result={"id": decided.policy.policy_id, **shown, "active_version": version, **state},
            events=(
                NewEvent(
                    version=version,
                    scope=command.scope,
                    body={"policy": {n: value for n, value in shown.items() if n != "object"} | state, "quota": None},
                ),
            ),
        )

    def _place(self, decided: OwnedPolicy, current: OwnedPolicy | None) -> None:
        """The place that it leaves is free, and the one that it takes is not: for what follows in the batch, too."""
        policy_id = decided.policy.policy_id
        left = None if current is None else limit_policy.place_of(current.policy)
        if left is not None and (held := self._placed.get(left)) is not None and held.policy_id == policy_id:
            del self._placed[left]
        if not decided.policy.withdrawn:
            self._placed[limit_policy.place_of(decided.policy)] = Placed(policy_id, decided.publisher)

    def writes(self) -> list[Statement]:
        """Every version, and what is in force now: compared and set against the versions read.

        Changes before what is new: a place that one leaves may be taken by another.
        """
        if not self._published:
            return []
        last = {owned.policy.policy_id: owned for owned in self._published}
        new = [owned for key, owned in last.items() if key not in self._read_versions]
        old = [owned for key, owned in last.items() if key in self._read_versions]
        found: list[Statement] = [(SQL["policy_versions_insert"], _version_columns(self._published))]
        if old:
            versions = Bigints([self._read_versions[owned.policy.policy_id] for owned in old])
            found.append((SQL["policies_update"], (*_columns(old), versions, len(old))))
        if new:
            found.append((SQL["policies_insert"], (self._partition, *_columns(new))))
        return found

    def committed(self) -> None:
        """Nothing is remembered."""


def _columns(owned: Sequence[OwnedPolicy]) -> tuple[Any, ...]:
    policies = [o.policy for o in owned]
    return (
        Texts([p.policy_id for p in policies]),
        Texts([o.publisher for o in owned]),
        Texts([_encode(p.scope).decode() for p in policies]),
        Texts([p.algorithm for p in policies]),
        Bigints([p.capacity for p in policies]),
        Bigints([p.refill_rate or 0 for p in policies]),
        Bigints([p.version for p in policies]),
        Texts([_encode(p).decode() for p in policies]),
        Bigints([o.created_at for o in owned]),
        Bigints([o.updated_at for o in owned]),
        Texts(["" if p.withdrawn else limit_policy.place_of(p) for p in policies]),
    )


def _version_columns(owned: Sequence[OwnedPolicy]) -> tuple[Any, ...]:
    return (
        Texts([o.policy.policy_id for o in owned]),
        Bigints([o.policy.version for o in owned]),
        Texts([_encode(o.policy).decode() for o in owned]),
        Texts([o.publisher for o in owned]),
        Bigints([o.updated_at for o in owned]),
    )
