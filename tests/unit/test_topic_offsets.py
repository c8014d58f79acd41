"""What Kafka holds is what it says, all of it: an end that it does not know yet is no end."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from sinks.kafka.topic_offsets import Ends, Held, Inquiry

#: librdkafka's word for an offset that nobody said, as of a broker that just started
UNKNOWN = -1001


def settled(**found: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(SimpleNamespace(**found))
    return future


def asked(low: int, high: int) -> Inquiry:
    lows, highs = {0: settled(offset=0), 3: settled(offset=low)}, {0: settled(offset=7), 3: settled(offset=high)}
    return Inquiry(None, settled(topic_id="t"), lows, highs)  # type: ignore[arg-type] # it is kept, and not asked


def test_an_answer_is_what_each_partition_holds() -> None:
    assert asked(2, 9).answer() == {0: Held("t", 0, 7), 3: Held("t", 2, 9)}


@pytest.mark.parametrize(("low", "high"), [(0, UNKNOWN), (UNKNOWN, 9), (0, -1)])
def test_an_offset_that_kafka_does_not_say_is_no_offset(low: int, high: int) -> None:
    """Taken for one, it says that a topic lost its end: every partition would halt until somebody clears it."""
    with pytest.raises(KafkaException) as raised:
        asked(low, high).answer()
    assert raised.value.args[0].code() == KafkaError._TIMED_OUT


def test_ends_are_what_each_partition_says_once_all_have() -> None:
    late: Future[Any] = Future()
    ends = Ends(None, {0: settled(offset=7), 3: late})  # type: ignore[arg-type] # as above
    assert not ends.is_done()
    late.set_result(SimpleNamespace(offset=9))
    assert ends.is_done()
    assert ends.answer() == {0: 7, 3: 9}
    with pytest.raises(KafkaException):
        Ends(None, {0: settled(offset=UNKNOWN)}).answer()  # type: ignore[arg-type]
