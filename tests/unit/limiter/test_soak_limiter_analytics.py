"""Two readers of the decisions that agree hold; each single decision that one of them lacks or has twice is red."""

from __future__ import annotations

from typing import Any

from compose.proof.soak.limiter.analytics import Analytics, Kept, Totals, prove
from tests.each import each

TOTALS = {"a": Totals(7, 2, 12), "b": Totals(1, 0, 3)}
KEPT = {"a": Kept(10, 10), "b": Kept(1, 1)}  # one of them a repetition


def analytics(**changes: Any) -> Analytics:
    return Analytics(postgres=TOTALS, clickhouse=TOTALS, summed=KEPT, kept=KEPT, twice=0)._replace(**changes)


def test_the_same_decisions_hold() -> None:
    found = prove(analytics())
    assert (found.holds, found.says) == (True, "8 allowed and 2 denied of 2 keys, 11 rows")


@each(
    ("changes", "said"),
    [
        ({"clickhouse": TOTALS | {"a": Totals(8, 2, 12)}}, "a: "),  # one twice
        ({"clickhouse": TOTALS | {"a": Totals(7, 1, 12)}}, "a: "),  # a refusal is missing
        ({"clickhouse": TOTALS | {"b": Totals(1, 0, 2)}}, "b: "),
        ({"clickhouse": TOTALS | {"b": Totals(1, 0, 3, 1)}}, "b: "),  # what a policy in shadow mode would have refused
        ({"clickhouse": {"a": TOTALS["a"]}}, "b: "),
        ({"postgres": {"a": TOTALS["a"]}}, "b: "),
        ({"kept": KEPT | {"a": Kept(9, 10)}}, "a: "),
        ({"kept": KEPT | {"a": Kept(10, 9)}}, "a: "),
        ({"kept": {"a": KEPT["a"]}}, "b: "),
        ({"summed": {"a": KEPT["a"]}}, "b: "),
        ({"twice": 1}, "1 rows have the event_id of another one"),
    ],
)
def test_one_decision_more_or_less_is_told(changes: dict[str, Any], said: str) -> None:
    (problem,) = prove(analytics(**changes)).problems
    assert problem.startswith(said)


def test_two_empty_accounts_prove_nothing() -> None:
    assert not prove(Analytics({}, {}, {}, {}, 0)).holds
