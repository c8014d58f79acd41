"""What Kafka holds is what it says, all of it: an end that it does not know yet is no end."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from sinks.kafka.topic_offsets import Ends, Held, Inquiry

#: librdkafka's word for an offset that nobody said, as of a broker that just started
UNKNOWN = -1001


def settled(**found: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(SimpleNamespace(**found))
    return future


class Asked:
    """Says what it is told to, in the order in which it is asked."""

    def __init__(self, identity: Future[Any], *offsets: dict[int, Future[Any]]) -> None:
        self._identity, self._offsets = identity, iter(offsets)
        self.questions = 0

    def describe_topics(self, _: Any, **__: Any) -> dict[str, Future[Any]]:
        return {"c": self._identity}

    def list_offsets(self, places: dict[TopicPartition, Any], **_: Any) -> dict[TopicPartition, Future[Any]]:
        self.questions += 1
        found = next(self._offsets)
        return {place: found[place.partition] for place in places}


def asked(low: int, high: int) -> Inquiry:
    lows, highs = {0: settled(offset=0), 3: settled(offset=low)}, {0: settled(offset=7), 3: settled(offset=high)}
    return Inquiry(Asked(settled(topic_id="t"), lows, highs), "c", [0, 3])  # type: ignore[arg-type] # as far as it is asked


def test_an_answer_is_what_each_partition_holds() -> None:
    assert asked(2, 9).answer() == {0: Held("t", 0, 7), 3: Held("t", 2, 9)}


def test_each_part_of_a_question_is_put_when_the_one_before_is_answered() -> None:
    """A client that does not know the topic yet may crash when it is asked for offsets while others of its answers arrive."""
    identity, low, high = Future[Any](), Future[Any](), Future[Any]()
    client = Asked(identity, {0: low}, {0: high})
    inquiry = Inquiry(client, "c", [0])  # type: ignore[arg-type]
    for answer, said in (
        (identity, SimpleNamespace(topic_id="t")),
        (low, SimpleNamespace(offset=2)),
        (high, SimpleNamespace(offset=9)),
    ):
        before = client.questions
        assert not inquiry.is_done()
        assert not inquiry.is_done()
        assert client.questions == before + (answer is not identity)
        answer.set_result(said)
    assert inquiry.is_done()
    assert inquiry.answer() == {0: Held("t", 2, 9)}
    assert client.questions == 2


def test_of_a_topic_that_is_not_there_nothing_more_is_asked() -> None:
    identity = Future[Any]()
    client = Asked(identity)
    inquiry = Inquiry(client, "c", [0])  # type: ignore[arg-type]
    identity.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
    assert inquiry.is_done()
    with pytest.raises(KafkaException):
        inquiry.answer()
    assert client.questions == 0


@pytest.mark.parametrize(("low", "high"), [(0, UNKNOWN), (UNKNOWN, 9), (0, -1)])
def test_an_offset_that_kafka_does_not_say_is_no_offset(low: int, high: int) -> None:
    """Taken for one, it says that a topic lost its end: every partition would halt until somebody clears it."""
    with pytest.raises(KafkaException) as raised:
        asked(low, high).answer()
    assert raised.value.args[0].code() == KafkaError._TIMED_OUT


def test_ends_are_what_each_partition_says_once_all_have() -> None:
    late: Future[Any] = Future()
    ends = Ends(None, {0: settled(offset=7), 3: late})  # type: ignore[arg-type] # it is kept, and not asked
    assert not ends.is_done()
    late.set_result(SimpleNamespace(offset=9))
    assert ends.is_done()
    assert ends.answer() == {0: 7, 3: 9}
    with pytest.raises(KafkaException):
        Ends(None, {0: settled(offset=UNKNOWN)}).answer()  # type: ignore[arg-type]
