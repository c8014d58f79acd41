"""The broker's health is asked over one connection while it answers: a new client for each question cost it more."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, KafkaException

from compose.stack import kafka
from compose.stack.kafka import Kafka

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_client_is_kept_while_the_broker_answers_and_made_again_after_every_silence(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Client] = []
    is_silent = False

    class Client:
        def __init__(self, *_: object, **__: object) -> None:
            made.append(self)

        def list_topics(self, timeout: float) -> None:
            if is_silent:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"nothing within {timeout} s"))

    monkeypatch.setattr(kafka, "KafkaAdmin", Client)
    broker = Kafka(data=tmp_path, port=port, controller_port=1, password="p")
    assert [broker.unhealthy() for _ in range(3)] == [None] * 3
    assert len(made) == 1
    is_silent = True
    assert [(broker.unhealthy() or "").startswith("nothing within") for _ in range(2)] == [True] * 2
    is_silent = False
    assert broker.unhealthy() is None
    assert len(made) == 3
    broker.port = 1  # nobody listens: it is started again
    assert broker.unhealthy() is not None
    broker.port = port
    assert broker.unhealthy() is None
    assert len(made) == 4
