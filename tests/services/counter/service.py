"""Counters at the boundary: made, added to, closed."""

from __future__ import annotations

from typing import Final

from schemas.operation import Operation
from schemas.service import EventType, Service, Worker
from schemas.validation import Field, signed_minor, text

_WRITE: Final = "counters:write"
_ONE: Final = "/v1/counters/{id}"

OPERATIONS: Final = (
    Operation(
        name="create_counter",
        service="counter",
        method="POST",
        path="/v1/counters",
        record="CreateCounter",
        payload={"label": Field(text)},
        summary="Make a counter",
        result="CommittedCounter",
        scope=_WRITE,
        creates="ct",
    ),
    Operation(
        name="add_to_counter",
        service="counter",
        method="POST",
        path=f"{_ONE}/add",
        record="AddToCounter",
        payload={"amount": Field(signed_minor)},
        summary="Add to a counter",
        result="CommittedCounter",
        scope=_WRITE,
        id_name="counter_id",
    ),
    Operation(
        name="close_counter",
        service="counter",
        method="POST",
        path=f"{_ONE}/close",
        record="CloseCounter",
        payload={},
        summary="Close a counter: its value stays",
        result="CommittedCounter",
        scope=_WRITE,
        id_name="counter_id",
    ),
    Operation(  # by its own worker
        name="close_full_counter",
        service="counter",
        method="POST",
        path=f"{_ONE}/full",
        record="CloseFullCounter",
        payload={},
    ),
)
SERVICE: Final = Service(
    name="counter",
    code="c",
    doc="counters",
    read_scope="counters:read",
    owner_role="millrace_counter_owner",
    partitions=2,
    operations=OPERATIONS,
    event_types=(
        EventType(name="counter_committed", record="CounterCommitted"),
        EventType(name="counter_closed", record="CounterClosed"),
    ),
    workers=(Worker(name="counter_closer", module="tests.services.counter.closer", role="millrace_counter_worker"),),
    home="tests.services.counter",
)
