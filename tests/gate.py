"""How much a run proves: the gate (``make test ALL=1``, minutes, reproducible) or the proof (``make proof``, exhaustive, drawn).

What only the proof runs is marked ``proof``; tests/PROOF.md says for each such thing what guards it in the gate.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Final, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: True in ``make proof``
PROOF: Final = os.environ.get("MILLRACE_PROOF") == "1"
_GATE_SEED: Final = "0"
_DRAWN: Final = str(random.SystemRandom().randrange(10**6))
#: one number for all randomized tests of a run. tests/conftest.py imports this before pytest-xdist starts its workers,
#: which inherit it
RUN_SEED: Final = int(os.environ.setdefault("MILLRACE_RUN_SEED", _DRAWN if PROOF else _GATE_SEED))
if not PROOF:
    # Java compiles what is called often once more and better: that took half of a broker's start, and a third of what the
    # broker of a run took. A gate asks what is right, not what is fast. Java reads this from its environment.
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")

Case = TypeVar("Case")


def examples(gate: int, proof: int) -> int:
    """How many examples of a property, or rounds of a long run, this run tries."""
    return proof if PROOF else gate


def matrix(cases: Iterable[Case], gate: Callable[[Case], bool]) -> list[object]:
    """Parameters of an exhaustive matrix: those that ``gate`` chooses run always, the others in the proof only."""
    made = [pytest.param(case, marks=() if gate(case) else pytest.mark.proof) for case in cases]
    assert any(not parameters.marks for parameters in made), "the gate must keep one of them"
    return list(made)
