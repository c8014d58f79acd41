"""The cases of money facts that contradict what is committed: opened in the commit that refuses them, from every door.

The refusal is stored for good, so the fact is never decided again: without a case nobody would ever look at money that
a processor says it moved. Its identity names the case; a second fact about the same operation joins the one that waits.
"""

from __future__ import annotations

from typing import Final

import msgspec
import structlog

from dataflows.owner.batch import Statement
from dataflows.payments import statements
from schemas import identity
from schemas.payments import operations
from schemas.records import Command, Rejection
from sinks.postgres.arrays import Bigints, Texts

KIND: Final = "contradicting_fact"
_CODES: Final = "contradicts_"
#: what a fact is about, by the first of these that it has
_REFERENCES: Final = ("operation_id", "provider_ref")
Row = tuple[str, str, str, str, int]  # id, reference, processor, evidence, when
_json: Final = msgspec.json.Encoder()
log: Final = structlog.get_logger()


class Contradictions:
    """The cases that one batch opens."""

    def __init__(self) -> None:
        self._opened: dict[str, Row] = {}  # by reference

    def follow(self, command: Command, refusal: Rejection, now: int) -> None:
        """Takes over a refusal; nothing, for all but facts about money that contradict what is known."""
        if not refusal.code.startswith(_CODES) or operations.OPERATIONS[command.operation].scope is not None:
            return
        case_id = identity.derived_id("case", command.scope, KIND, command.idempotency_key)
        reference = next((str(v) for name in _REFERENCES if (v := command.payload.get(name))), command.aggregate_key)
        told_by = command.scope.partition(":")[2]
        self._opened.setdefault(reference, (case_id, reference, told_by, _evidence(command, refusal), now))

    def writes(self) -> list[Statement]:
        """The rows, in the order of what they are about."""
        if not self._opened:
            return []
        rows = [row for _, row in sorted(self._opened.items())]
        ids, references, processors, evidence, times = zip(*rows, strict=True)
        texts = [Texts(column) for column in (ids, references, processors, evidence)]
        return [(statements.SQL["contradictions_open"], (KIND, *texts, Bigints(times)))]

    def committed(self) -> None:
        """Called after the commit."""
        for case_id, reference, processor, _, _ in self._opened.values():
            log.warning("contradicting_fact", case=case_id, reference=reference, processor=processor)


def _evidence(command: Command, refusal: Rejection) -> str:
    return _json.encode(
        {
            "payment_intent": command.aggregate_key,
            "operation": command.operation,
            "scope": command.scope,
            "idempotency_key": command.idempotency_key,
            "trace_id": command.trace_id,
            "fact": command.payload,
            "code": refusal.code,
            "detail": refusal.detail,
            **refusal.extra,
        }
    ).decode()
