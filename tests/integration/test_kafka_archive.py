"""The archive that Kafka starts from: of a broker that was kept busy, or none."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.cimpl import NewTopic

from compose import limits
from compose.stack import kafka, kafka_archive
from compose.stack.kafka import Kafka
from compose.stack.kafka_exercise import exercise
from compose.stack.kafka_jars import class_path, java
from schemas import topics
from sinks.kafka.admin import KafkaAdmin
from sinks.kafka.connection import KafkaConnection

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.servers
NOT_PREPARED = "Kafka is not prepared: its archive was not made, and a later 'make setup' tries again: "


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where it is made, by few records."""
    made = tmp_path / "kafka.aot"
    for module in (kafka, kafka_archive):
        monkeypatch.setattr(module, "archive_path", lambda: made)
    monkeypatch.setattr(limits, "KAFKA_EXERCISE_RECORDS", 20)
    return made


def test_brokers_start_from_the_archive_that_setup_made(tmp_path: Path) -> None:
    broker = Kafka(tmp_path / "kafka", 1, 2, "p")
    made = kafka_archive.make_archive()
    assert made is not None
    begun = made.stat().st_mtime_ns
    _is_started_from(made, broker)
    assert kafka_archive.make_archive() == made
    assert made.stat().st_mtime_ns == begun


@pytest.mark.proof
def test_the_archive_of_a_broker_that_was_busy_is_what_brokers_start_from(archive: Path, tmp_path: Path) -> None:
    broker = Kafka(tmp_path / "kafka", 1, 2, "p")
    assert "-XX:TieredStopAtLevel=1" in broker.command()
    assert kafka_archive.make_archive() == archive
    _is_started_from(archive, broker)


def _is_started_from(made: Path, broker: Kafka) -> None:
    assert f"-XX:AOTCache={made}" in broker.command()
    assert "-XX:TieredStopAtLevel=1" not in broker.command()
    asked = [flag for flag in broker.command() if flag.startswith("-XX:+")]
    needs_it = [java(), f"-XX:AOTCache={made}", "-XX:AOTMode=on", *asked, "-cp", class_path()]
    told = subprocess.run(
        [*needs_it, "kafka.Kafka", "--version"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"]},
    )
    assert told.stderr == ""


def test_without_an_archive_a_broker_compiles_little(archive: Path, tmp_path: Path) -> None:
    assert not archive.exists()
    assert "-XX:TieredStopAtLevel=1" in Kafka(tmp_path / "kafka", 1, 2, "p").command()


@pytest.mark.proof
def test_a_broker_that_takes_no_records_leaves_no_archive_and_a_sentence(
    archive: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of a broker that had nothing to do would have it compile too late what is called often."""
    monkeypatch.setattr(limits, "KAFKA_EXERCISE_MAX_S", 0)
    kafka_archive.main()
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith(NOT_PREPARED)
    assert "did not take records" in told
    assert list(archive.parent.iterdir()) == []


@pytest.mark.proof
def test_a_broker_whose_topics_are_not_ours_is_a_sentence_and_no_traceback(
    archive: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``make setup`` goes on without an archive."""

    def beside_another(broker: Kafka) -> None:
        admin = KafkaAdmin(KafkaConnection(bootstrap=broker.address, security=broker.as_itself()).admin())
        for made in admin.create_topics([NewTopic(topics.RESULTS, 1)]).values():
            made.result(limits.SERVER_START_TIMEOUT_S)
        exercise(broker)

    monkeypatch.setattr(kafka_archive, "exercise", beside_another)
    kafka_archive.main()
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith(NOT_PREPARED)
    assert told.endswith(f"topic {topics.RESULTS} has 1 partitions, not {topics.RESULTS_PARTITIONS}")
    assert list(archive.parent.iterdir()) == []
