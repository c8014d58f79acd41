"""The suite of every service's owners, for the fifth: any history, through both drivers, ends as its model says."""

from __future__ import annotations

import dataclasses
import json
import random
import uuid
from importlib import resources
from typing import TYPE_CHECKING

import psycopg
import pytest

from dataflows import limits
from dataflows.owner.drivers import Driver
from dataflows.owner.partition.progress import Progress
from schemas import services
from schemas.avro import codec
from tests.gate import RUN_SEED, examples
from tests.migrated import clone_database
from tests.property.owner_history import Stored, Stream, end_as_modelled
from tests.seeds import seeds
from tests.services.counter.dataflows import OWNED
from tests.services.counter.service import SERVICE
from tests.services.counter_history import check, random_steps

if TYPE_CHECKING:
    from tests.servers import World

pytestmark = [pytest.mark.servers, pytest.mark.slow]
_ROLE = "do $$ begin create role {}; exception when duplicate_object or unique_violation then null; end $$"


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service is one of this process: elsewhere ``MILLRACE_SERVICE_MODULES`` says so before anything is imported."""
    for operation in SERVICE.operations:
        monkeypatch.setitem(services.OPERATIONS, operation.name, operation)
        monkeypatch.setitem(services.BY_RECORD, operation.record, operation)
    for event_type in SERVICE.event_types:
        monkeypatch.setitem(services.EVENT_BY_RECORD, event_type.record, (SERVICE, event_type))
    folder = resources.files(SERVICE.home) / "avro"
    for key, row in json.loads((folder / "ids.json").read_text()).items():
        schema = codec._load(int(key), row, codec._text(folder, row))
        monkeypatch.setitem(codec.schemas_by_id(), int(key), schema)


@pytest.fixture
def database(stack: World) -> str:
    """An empty one with its tables."""
    dsn = clone_database(stack.addresses.postgres_superuser_dsn, f"counter_{uuid.uuid4().hex[:8]}")
    with psycopg.connect(dsn, autocommit=True) as connection:
        for role in (SERVICE.owner_role, *(worker.role for worker in SERVICE.workers)):
            connection.execute(_ROLE.format(role).encode())
        connection.execute((resources.files(SERVICE.home) / "migrations" / "0001_counter.sql").read_text())
    return dsn


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("seed", seeds(examples(1, 2)))
@pytest.mark.parametrize("driver", ["bytewax", "plain"])
def test_any_history_ends_in_the_models_state(
    driver: Driver, seed: int, stack: World, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    steps = random_steps(chance, examples(150, 600))
    stored = Stored(database)
    try:
        end_as_modelled(
            Stream(stack.addresses.kafka, OWNED),
            database,
            stored,
            steps,
            lambda replies: check(steps, replies, stored),
            driver=driver,
            chance=chance,
            monkeypatch=monkeypatch,
        )
    finally:
        stored.close()


@pytest.mark.usefixtures("registered")
def test_any_history_ends_in_the_models_state_where_callers_take_turns(
    stack: World, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turns are so small that nearly every round passes over something, which then waits while owners die."""
    for name, units in (("TURN_UNITS", 1), ("TURNS_OF_CALLER_UNITS_MAX", 2), ("TURNS_ROUND_UNITS", 3)):
        monkeypatch.setattr(limits, name, units)
    chance = random.Random(RUN_SEED)
    steps = random_steps(chance, examples(150, 600), strangers=0.4)
    stream = Stream(stack.addresses.kafka, OWNED)
    declared = dataclasses.replace(stream.service.declared, takes_turns=True)
    stream.service = dataclasses.replace(stream.service, declared=declared)
    stored, ahead = Stored(database), list[int]()

    def remembered(progress: Progress) -> str:
        ahead.append(len(progress.ahead))
        return told(progress)

    told = Progress.ahead_text.fget
    assert told is not None
    monkeypatch.setattr(Progress, "ahead_text", property(remembered))
    try:
        end_as_modelled(
            stream,
            database,
            stored,
            steps,
            lambda replies: check(steps, replies, stored),
            driver="plain",
            chance=chance,
            monkeypatch=monkeypatch,
            batches=(50,),  # of a few messages none has to wait
        )
        assert any(ahead), "nothing was ever decided ahead of what waited: this run proved little"
        assert set(stored.rows("select ahead::text from partition_owner")) == {("{}",)}
    finally:
        stored.close()
