"""What becomes of a counter: pure, as every domain."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct, structs

from schemas import limits
from schemas.records import Command, Rejection

#: a counter with so much in it is closed by the worker
FULL: Final = 10_000


class Counter(Struct, frozen=True, kw_only=True):
    """The aggregate."""

    id: str
    owner: str
    label: str
    value: int
    state: str
    version: int
    created_at: int
    updated_at: int


def rendered(counter: Counter) -> dict[str, Any]:
    """The counter as callers see it."""
    return {"object": "counter", **structs.asdict(counter)}


def decide(known: Counter | None, command: Command, now: int) -> Counter | Rejection:
    """The counter afterwards, or why not."""
    if command.operation == "create_counter":
        return _create(known, command, now)
    if command.operation == "close_full_counter":
        return _close_full(known, now)
    if known is None or known.owner != command.scope:
        return Rejection("not_found", "There is no such counter.")
    if command.expected_version not in (None, known.version):
        detail = f"Version {command.expected_version} was expected; the current one is {known.version}."
        return Rejection("version_conflict", detail, {"current_version": known.version})
    is_closing = command.operation == "close_counter"
    value = known.value
    if command.operation == "add_to_counter":
        value += int(str(command.payload["amount"]))
    elif command.operation == "reset_counter":
        value = 0
    if known.state == "closed" or abs(value) > limits.AMOUNT_MINOR_MAX:
        return Rejection("state_conflict", "The counter is closed, or would leave its range.")
    state = "closed" if is_closing else "open"
    return structs.replace(known, state=state, value=value, version=known.version + 1, updated_at=now)


def _close_full(known: Counter | None, now: int) -> Counter | Rejection:
    if known is None or known.state == "closed" or known.value < FULL:
        return Rejection("state_conflict", "There is no open counter that is full.")
    return structs.replace(known, state="closed", version=known.version + 1, updated_at=now)


def _create(known: Counter | None, command: Command, now: int) -> Counter | Rejection:
    if known is not None:
        return Rejection("state_conflict", "The counter exists already.")
    return Counter(
        id=command.aggregate_key,
        owner=command.scope,
        label=str(command.payload["label"]),
        value=0,
        state="open",
        version=1,
        created_at=now,
        updated_at=now,
    )
