"""The seeds of one run of the randomized tests: new each run, the same in every worker of it, and part of test names."""

from __future__ import annotations

import os
import random

# tests/conftest.py imports this in the first process of a run, before pytest-xdist starts workers that inherit it
_RUN = int(os.environ.setdefault("MILLRACE_RUN_SEED", str(random.SystemRandom().randrange(10**6))))


def seeds(count: int) -> list[int]:
    """Seeds of this run, or the one of MILLRACE_TEST_SEED, which plays a failure again."""
    given = os.environ.get("MILLRACE_TEST_SEED")
    source = random.Random(_RUN)
    return [int(given)] if given else [source.randrange(10**6) for _ in range(count)]
