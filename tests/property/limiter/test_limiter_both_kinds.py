"""A server without functions answers as one with them does: every function, number by number."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from schemas.limiter.limit_terms import Terms
from tests.property.limiter.test_limiter_script import PERMITS, TERMS, Counter, steps
from tests.seeds import seeds
from tests.worlds.limiter.limiter_kinds import with_functions, with_script

if TYPE_CHECKING:
    from tests.servers import World

pytestmark = pytest.mark.servers
ANY_FUNCTION = ("rl1_decide", "rl1_decide", "rl1_settle", "rl1_register", "rl1_restore", "rl1_refund", "rl1_peek")


@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize(
    "terms",
    [*(t for t in TERMS if t.capacity == 100), Terms(PERMITS, 100, 100, 60_000, 1, 1_000, strict=False)],
    ids=str,
)
def test_both_kinds_of_server_answer_alike(stack: World, terms: Terms, seed: int) -> None:
    """A server without functions is asked by its script: every function, number by number."""
    random_, url = random.Random(seed), stack.addresses.redis_url
    with with_functions(url) as functions, with_script(url) as script:
        first, second = Counter(functions, terms), Counter(script, terms)
        for now, cost in steps(terms, random_):
            function = random_.choice((*ANY_FUNCTION, "rl1_release") if terms.algorithm == PERMITS else ANY_FUNCTION)
            named = function in ("rl1_refund", "rl1_release") or random_.random() < 0.5
            rid, lease = f"r{random_.randint(0, 9)}" * named, f"l{random_.randint(0, 9)}"
            want = random_.choice([0, cost])
            told, other = (c.call(function, now, cost, want=want, lease=lease, rid=rid) for c in (first, second))
            assert told == other, (function, now, cost, want, lease, rid)
