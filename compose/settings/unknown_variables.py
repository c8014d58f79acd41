"""A variable of ours that nobody reads is refused: a setting that is ignored in silence is taken for one in force."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from compose.stack.errors import StackError

PREFIX: Final = "MILLRACE_"
#: what is no setting: of processes that we start, of shells, of tests and proofs
_OTHERS: Final = frozenset(
    f"{PREFIX}{name}"
    for name in (
        *("BENCH_MEASURE", "BENCH_PROFILE", "CLICKHOUSE_PASSWORD", "FAIL_POINT", "GATE"),
        *("OPS_PORT", "OWNER_DRIVER", "OWNER_GROUP", "POSTGRES_PASSWORD", "PROOF", "REDIS_PASSWORD", "RUN_SEED"),
        *("STACK_ID", "TOKEN"),
    )
)
_OF_TESTS: Final = f"{PREFIX}TEST_"


def refuse_unknown(environment: Iterable[str], settings: Iterable[str]) -> None:
    """Raises StackError for the first variable that begins as ours do and is none, with the nearest one that is."""
    known = _OTHERS | {f"{PREFIX}{name.upper()}" for name in settings}
    for name in sorted(environment):
        if name.startswith(PREFIX) and name not in known and not name.startswith(_OF_TESTS):
            near = difflib.get_close_matches(name, known, n=1)
            raise StackError(f"{name} is no setting" + (f"; did you mean {near[0]}?" if near else ""))
