"""Random histories of counters, and what must be true after them: a model of its own, which shares nothing with the domain."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import structs

from schemas import identity, topics
from schemas.fields import validation
from schemas.records import Command
from tests.property.owner_history import Step
from tests.services.counter.service import SERVICE

if TYPE_CHECKING:
    from schemas.records import Result
    from tests.property.owner_history import Stored

COUNTERS = 12
_OPERATIONS = {operation.name: operation for operation in SERVICE.operations}


def command(name: str, key: str, counter: str, payload: dict[str, Any], **given: Any) -> Command:
    """As an ingress would write it."""
    operation = _OPERATIONS[name]
    normal, wrong = validation.normalize(operation.payload, payload)
    assert not wrong, wrong
    fields: dict[str, Any] = {
        "operation": name,
        "request_id": f"req_{key}",
        "idempotency_key": key,
        "aggregate_key": counter,
        "expected_version": None,
        "scope": "m_counters",
        "request_hash": identity.request_hash(operation.template, counter, normal),
        "trace_id": "0" * 32,
        "issued_at": 1,
        "deadline_at": 0,
        "reply_to": 0,
        "reply_id": 0,
        "payload": normal,
    }
    return Command(**(fields | given))


def random_steps(chance: random.Random, count: int, strangers: float = 0.1) -> list[Step]:
    """Counters made, added to and closed; sent twice, late, by strangers, to the wrong partition, and what is no command."""
    steps: list[Step] = []
    for number in range(count):
        counter = f"ct_k{chance.randrange(COUNTERS)}"
        partition = topics.partition_for(counter, SERVICE.partitions)
        earlier = [step.command for step in steps if step.command is not None and not step.misrouted]
        roll = chance.random()
        if roll < 0.02:
            steps.append(Step(number, partition, None, garbage=b"\x00\x00\x00\x00\x01broken%d" % number))
        elif roll < 0.2 and earlier:
            again = chance.choice(earlier)
            if chance.random() < 0.3:  # the key is used again for something else
                again = structs.replace(again, request_hash=identity.request_hash("other", "", {"n": number}))
            steps.append(Step(number, topics.partition_for(again.aggregate_key, SERVICE.partitions), again))
        else:
            is_misrouted = roll > 0.96
            where = (partition + 1) % SERVICE.partitions if is_misrouted else partition
            steps.append(Step(number, where, _any(chance, number, counter, strangers), misrouted=is_misrouted))
    return steps


def _any(chance: random.Random, number: int, counter: str, strangers: float) -> Command:
    key = f"k{number}"
    given: dict[str, Any] = {}
    if chance.random() < strangers:
        given["scope"] = "m_stranger"
    if chance.random() < 0.3:
        given["expected_version"] = chance.randrange(1, 6)
    roll = chance.random()
    if roll < 0.25:
        return command("create_counter", key, counter, {"label": f"of {number}"})
    if roll < 0.95:
        return command("add_to_counter", key, counter, {"amount": chance.randrange(-50, 100)}, **given)
    return command("close_counter", key, counter, {}, **given)


@dataclass
class Model:
    """Counters as plain numbers, and the answer to each step."""

    counters: dict[str, dict[str, Any]] = field(default_factory=dict)
    known: dict[tuple[str, str], tuple[bytes, str]] = field(default_factory=dict)
    answers: dict[int, str] = field(default_factory=dict)

    def take(self, step: Step) -> None:
        """One step, in the order of its partition."""
        one = step.command
        if one is None or step.misrouted:
            return
        place = (one.scope, one.idempotency_key)
        if place not in self.known:
            self.known[place] = (one.request_hash, self._decide(one))
            self.answers[step.number] = self.known[place][1]
        elif self.known[place][0] == one.request_hash:
            self.answers[step.number] = self.known[place][1]
        else:
            self.answers[step.number] = "key_reused"

    def _decide(self, one: Command) -> str:
        found = self.counters.get(one.aggregate_key)
        if one.operation == "create_counter":
            if found:
                return "refused"
            made = {"owner": one.scope, "label": one.payload["label"], "value": 0, "state": "open", "version": 1}
            self.counters[one.aggregate_key] = made
            return "committed"
        if not found or found["owner"] != one.scope or found["state"] == "closed":
            return "refused"
        if one.expected_version not in (None, found["version"]):
            return "refused"
        found["version"] += 1
        if one.operation == "close_counter":
            found["state"] = "closed"
        else:
            found["value"] += int(str(one.payload["amount"]))
        return "committed"


def check(steps: list[Step], replies: list[Result], stored: Stored) -> None:
    """Counters, stored results, parked records and every answer are the model's."""
    model = Model()
    for step in steps:  # within a partition they were sent in this order, and no key is used in two
        model.take(step)
    rows = stored.rows("select id, owner, label, value, state, version from counter")
    names = ("owner", "label", "value", "state", "version")
    assert {row[0]: dict(zip(names, row[1:], strict=True)) for row in rows} == model.counters
    found = {(*place, status) for place, (status, _) in stored.responses().items()}
    assert found ^ {(*place, status) for place, (_, status) in model.known.items()} == set()
    letters = stored.rows("select count(*) from dead_letter where state <> 'refused'")
    assert letters == [(sum(step.command is None for step in steps),)]
    for reply in replies:
        if (expected := model.answers.get(reply.reply_id)) is not None:
            assert expected == reply.outcome or (expected == "key_reused" and b"key_reused" in reply.body), reply
