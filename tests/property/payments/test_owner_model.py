"""What is promised: any history, through Kafka and either driver, with owners dying at any step, ends as the model says.

Duplicates, stale versions, keys used again with other bodies and from other partitions, unreadable records, late facts:
the intents, the answers, the ledger, the outbox and the published stream are compared, and then everybody retries.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from dataflows.owner.drivers import Driver
from dataflows.payments.service import payments_service
from schemas.payments import topics as payments_topics
from tests.gate import examples
from tests.property.owner_history import Stored, Stream, end_as_modelled
from tests.property.payments import end_state
from tests.property.payments.history import random_history
from tests.seeds import seeds
from tests.worlds.payments import approved_outcomes

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers import World

pytestmark = [pytest.mark.servers, pytest.mark.slow]
STEPS = examples(300, 600)


@pytest.mark.parametrize("seed", seeds(examples(1, 2)))
@pytest.mark.parametrize("driver", ["bytewax", "plain"])
def test_any_history_ends_in_the_models_state(
    driver: Driver,
    seed: int,
    stack: World,
    new_database: Callable[[], tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance = random.Random(seed)
    steps = random_history(seed, STEPS, payments_topics.PARTITIONS, "pi_k").steps
    stream = Stream(stack.addresses.kafka, payments_service())
    owner_dsn, superuser_dsn = new_database()
    approved_outcomes.approve(superuser_dsn, (step.command for step in steps))
    stored = Stored(superuser_dsn)
    try:
        end_as_modelled(
            stream,
            owner_dsn,
            stored,
            steps,
            lambda replies: end_state.check(steps, replies, stored),
            driver=driver,
            chance=chance,
            monkeypatch=monkeypatch,
        )
    finally:
        stored.close()
