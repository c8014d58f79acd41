"""What an owner that starts over says of itself: why, as long as it is not back."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from compose.services.partition_owner import PartitionOwner
from dataflows.owner import supervise
from schemas.errors import ClockOff

_WHY = "The clock is +3600 s off that of the database; set it."


@pytest.fixture
def owner(monkeypatch: pytest.MonkeyPatch) -> PartitionOwner:
    """Without the signals and the port that it would take."""
    found = PartitionOwner.__new__(PartitionOwner)
    found.__dict__.update(
        stop=threading.Event(), _dsn="", _kafka=None, _keys=None, _process=None, _failed="", _periodic=[]
    )
    return found


def process(*, joined: bool, failure: BaseException | None = None) -> Any:
    return SimpleNamespace(failure=failure, standing_still=dict, reader=SimpleNamespace(joined=joined), close=list)


def test_one_that_has_not_joined_again_says_what_it_ended_of(
    owner: PartitionOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = []

    def run(_: object) -> None:
        said.append(owner._ready())
        if len(said) > 1:
            owner.stop.set()
            return
        raise ClockOff(_WHY)

    monkeypatch.setattr(supervise, "OwnerProcess", lambda *_: process(joined=False))
    monkeypatch.setattr(supervise, "runner", lambda _: run)
    service: Any = SimpleNamespace(declared=SimpleNamespace(owner_group="g"))
    owner.run(service, "owner", 0)
    assert said == ["not in the consumer group yet", f"not in the consumer group again: {_WHY}"]


def test_one_whose_lanes_are_ending_says_of_what(owner: PartitionOwner) -> None:
    """It is still in the group, and decides nothing any more."""
    owner._process = process(joined=True, failure=ClockOff(_WHY))
    assert owner._ready() == f"starts over: {_WHY}"
    owner._process = process(joined=True)
    assert owner._ready() is True
