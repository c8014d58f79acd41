"""The seeds of the randomized tests: fixed in the gate, drawn anew by ``make proof``; never part of a test's name.

A failing test prints its seeds among its arguments. ``MILLRACE_TEST_SEED=38`` runs every seeded test with that one seed.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.gate import RUN_SEED


def seeds(count: int) -> list[object]:
    """Seeds of this run as parameters named ``draw0``, ``draw1``..., or the one of MILLRACE_TEST_SEED."""
    given = os.environ.get("MILLRACE_TEST_SEED")
    source = random.Random(RUN_SEED)
    drawn = [int(given)] if given else [source.randrange(10**6) for _ in range(count)]
    return [pytest.param(seed, id=f"draw{number}") for number, seed in enumerate(drawn)]
