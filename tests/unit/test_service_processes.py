"""How many processes of a service run, as an operator says it."""

from __future__ import annotations

import pytest

from compose.settings.service_processes import OWNERS, PROCESSES, WORKERS, process_counts
from compose.stack.errors import StackError


def test_what_is_not_named_runs_as_declared() -> None:
    declared = process_counts("")
    assert declared.keys() == set(PROCESSES)
    assert {declared[owner] for owner in OWNERS} == {1}
    assert {name: declared[name] for name in WORKERS} == {name: one.processes for name, one in WORKERS.items()}


def test_owners_and_workers_are_counted_alike() -> None:
    owner, worker = next(iter(OWNERS)), next(iter(WORKERS))
    assert process_counts(f"{owner}=2  {worker}=0") == process_counts("") | {owner: 2, worker: 0}


def test_a_name_that_nobody_declared_is_refused_with_those_that_are() -> None:
    with pytest.raises(StackError) as refused:
        process_counts("tenancy_owners=2")
    assert "no process tenancy_owners; there are " in str(refused.value)
    assert all(name in str(refused.value) for name in PROCESSES)
