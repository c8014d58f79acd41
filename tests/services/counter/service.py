"""Counters at the boundary: made, added to, closed."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Struct

from schemas.fields.column import Column
from schemas.fields.validation import Field
from schemas.fields.value_types import SIGNED_AMOUNT, TEXT
from schemas.operation import Operation
from schemas.senders import of_worker
from schemas.service import EventType, Service, Worker

_WRITE: Final = "counters:write"
_ONE: Final = "/v1/counters/{id}"


class CounterEventBody(Struct, kw_only=True):
    """What an event of a counter says."""

    label: Annotated[str, Column("what is counted")]
    value: Annotated[int, Column("the value afterwards")]
    added: Annotated[int, Column("what was added")]


OPERATIONS: Final = (
    Operation(
        name="create_counter",
        service="counter",
        method="POST",
        path="/v1/counters",
        record="CreateCounter",
        payload={"label": Field(TEXT, "what is counted")},
        summary="Make a counter",
        result="CommittedCounter",
        scope=_WRITE,
        refusals=("state_conflict",),
        creates="ct",
    ),
    Operation(
        name="add_to_counter",
        service="counter",
        method="POST",
        path=f"{_ONE}/add",
        record="AddToCounter",
        payload={"amount": Field(SIGNED_AMOUNT, "added to the value; may be negative")},
        summary="Add to a counter",
        result="CommittedCounter",
        scope=_WRITE,
        refusals=("state_conflict",),
        id_name="counter_id",
    ),
    Operation(
        name="reset_counter",
        service="counter",
        method="POST",
        path=f"{_ONE}/reset",
        record="ResetCounter",
        payload={},
        summary="Set a counter back to zero",
        result="CommittedCounter",
        scope=_WRITE,
        refusals=("state_conflict",),
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
        refusals=("state_conflict",),
        id_name="counter_id",
    ),
    Operation(  # by its own worker
        name="close_full_counter",
        service="counter",
        method="POST",
        path=f"{_ONE}/full",
        record="CloseFullCounter",
        payload={},
        summary="Close a counter that reached its bound",
        refusals=("state_conflict",),
        senders=(of_worker("counter_closer"),),
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
        EventType(name="counter_committed", record="CounterCommitted", body=CounterEventBody, doc="what was counted"),
        EventType(name="counter_closed", record="CounterClosed", body=CounterEventBody, doc="the end of a counter"),
    ),
    workers=(Worker(name="counter_closer", module="tests.services.counter.closer", role="millrace_counter_worker"),),
    home="tests.services.counter",
)
