"""The model of the soak of tenants finds what it must: each wrong that a service could do is told apart from none."""

from __future__ import annotations

from typing import Any

import pytest

from compose.proof.tenancy.model import GIVEN_UP, Move, TenantModel
from tests.each import each


def served(model: TenantModel) -> list[dict[str, Any]]:
    return [{"resource_id": id_, "version": v, "payload": p} for id_, (v, p) in model.live.items()]


def a_model() -> TenantModel:
    model = TenantModel()
    for n in range(3):
        model.created(f"k{n}", {"n": n}, {"resource_id": f"rs_{n}"})
    model.replaced("rs_1", {"n": 10})
    model.deleted("rs_2")
    return model


def test_what_is_served_as_acknowledged_differs_in_nothing() -> None:
    model = a_model()
    assert model.differs(served(model)) is None
    assert model.live == {"rs_0": (1, {"n": 0}), "rs_1": (2, {"n": 10})}
    assert model.usage() == {"resource_writes": (5, 5)}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (lambda rows: rows[:1], "not served"),
        (lambda rows: [rows[0] | {"version": 2}, rows[1]], "not served"),
        (lambda rows: [rows[0] | {"payload": {}}, rows[1]], "not served"),
        (lambda rows: [*rows, rows[0]], "twice"),
        (lambda rows: [*rows, {"resource_id": "rs_2", "version": 1, "payload": {"n": 2}}], "deleted, and back"),
        (lambda rows: [*rows, {"resource_id": "rs_9", "version": 1, "payload": {}}], "nobody made"),
    ],
)
def test_each_wrong_is_found(changed: Any, said: str) -> None:
    model = a_model()
    assert said in str(model.differs(changed(served(model))))


END = {"state": "completed", "reason": None, "mismatches": 0}
THERE = {"placement_id": "target", "generation": 2}
BACK = {"placement_id": "source", "generation": 3}


@each(
    ("found", "placement", "word", "is_wrong"),
    [
        (END, THERE, "complete", False),
        (END, THERE | {"placement_id": "source"}, "complete", True),
        (END, THERE | {"generation": 1}, "complete", True),
        (END | {"mismatches": 1}, THERE, "complete", True),
        (END | {"state": "rolled_back"}, BACK, "rollback", False),
        (END | {"state": "rolled_back"}, BACK | {"generation": 2}, "rollback", True),
        (END | {"state": "aborted"}, BACK | {"generation": 1}, "abort", False),
        (END | {"state": "aborted"}, THERE, "abort", True),
        (END | {"state": "aborted", "reason": GIVEN_UP}, BACK | {"generation": 2}, "", False),
        (END | {"state": "aborted", "reason": "the sides differ"}, BACK | {"generation": 1}, "", True),
    ],
)
def test_a_move_ends_where_it_must(
    found: dict[str, Any], placement: dict[str, Any], word: str, *, is_wrong: bool
) -> None:
    assert bool(Move("mg_1", "source", "target", 1, word).wrong_end(found, placement)) is is_wrong


def test_usage_counts_each_event_once_however_often_it_was_sent() -> None:
    model = TenantModel()
    model.metered("tokens", [3, 4])
    model.metered("tokens", [5])
    assert model.usage() == {"tokens": (12, 3)}
