"""Produce-to-committed latency of one owner at a steady rate: from handing a command to Kafka to reading its result.

The loop is open: commands leave on schedule whatever became of the ones before, and latency counts from the schedule.
Results leave the owner after the commit, so the way back through Kafka is part of what is measured.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Final

import psycopg
from confluent_kafka import Consumer, TopicPartition
from hdrh.histogram import HdrHistogram

from compose.proof import limits as proof_limits
from compose.proof.bench.cpu import cpu_seconds
from compose.proof.bench.mix import Mix, Signed, signed
from compose.proof.bench.owner.run import owners, process_groups, wait_until_joined
from compose.proof.bench.world import World, hold_partitions
from dataflows import limits as dataflows_limits
from dataflows.owner.drivers import Driver
from schemas import topics
from schemas.avro import codec
from schemas.payments import topics as payments_topics
from sinks import limits as sinks_limits

_OPEN_PAYMENTS: Final = 100
REPLY_TO: Final = topics.RESULTS_PARTITIONS - 1
_SEED: Final = 77
_PERCENTILES: Final = (50, 90, 99, 99.9)


class Answers(threading.Thread):
    """Reads results and notes when each arrived."""

    def __init__(self, world: World) -> None:
        super().__init__(name="bench-answers", daemon=True)
        self.arrived: dict[int, float] = {}
        self.over = threading.Event()
        end = world.ends(topics.RESULTS, topics.RESULTS_PARTITIONS)[REPLY_TO]
        self._consumer = Consumer(world.addresses.kafka.consumer("bench-answers", "bench-answers"))
        self._consumer.assign([TopicPartition(world.addresses.kafka.topic(topics.RESULTS), REPLY_TO, end)])

    def run(self) -> None:
        """Reads until ``over``."""
        while not self.over.is_set():
            message = self._consumer.poll(dataflows_limits.BATCH_POLL_TIMEOUT_MS / 1_000)
            if message is None or message.error():
                continue
            now = time.perf_counter()
            for result in codec.decode_results(message.value() or b""):
                self.arrived.setdefault(result.reply_id, now)
        self._consumer.close()


def measure_latency(world: World, dsn: str, driver: Driver, rate: float, seconds: float) -> dict[str, Any]:
    """Percentiles in milliseconds over all commands with a caller, after a warm-up."""
    warm_up = int(rate * proof_limits.BENCH_WARM_UP_S)
    commands = list(Mix(_SEED, _OPEN_PAYMENTS, reply_to=REPLY_TO).commands(warm_up + int(rate * seconds)))
    kafka = world.signer()
    records = [(command.reply_id if command.is_awaited else None, signed(command, kafka)) for command in commands]
    with psycopg.connect(dsn, autocommit=True) as connection, owners(world, dsn, 1, driver) as running:
        hold_partitions(connection, world.command_ends(), held=False)
        wait_until_joined(connection, running, 1)
        answers = Answers(world)
        answers.start()
        groups = process_groups(world, running)
        before, handled = cpu_seconds(groups), running.batches()
        try:
            due = _send(world, records, rate)
            asked = [n for n, (reply_id, _) in enumerate(records) if n >= warm_up and reply_id is not None]
            wait_for(answers, {n + 1 for n in asked})
        finally:
            answers.over.set()
            answers.join()
        after, done = cpu_seconds(groups), running.batches()
    spent = {name: round((after[name] - before[name]) / len(records) * 1e6) for name in after}
    return summary([answers.arrived.get(n + 1, float("inf")) - due[n] for n in asked], rate) | {
        "batch_size_mean": round((done[0] - handled[0]) / max(1.0, done[1] - handled[1]), 2),
        "cpu_us_per_command": spent,
    }


def _send(world: World, records: list[tuple[int | None, Signed]], rate: float) -> list[float]:
    producer, topic = world.producer(linger_ms=0), world.addresses.kafka.topic(payments_topics.COMMANDS)
    began = time.perf_counter() + 0.1
    due = [began + n / rate for n in range(len(records))]
    for at, (_, (partition, key, value, headers)) in zip(due, records, strict=True):
        while (left := at - time.perf_counter()) > 0:
            time.sleep(left)
        producer.produce(topic, value, key, partition, headers=headers)
        producer.poll(0)
    producer.flush(sinks_limits.KAFKA_DELIVERY_TIMEOUT_MS / 1_000)
    return due


def wait_for(answers: Answers, wanted: set[int]) -> None:
    """Until all of these have arrived, or the wait of a benchmark is over."""
    deadline = time.monotonic() + proof_limits.BENCH_DRAIN_WAIT_S
    while not wanted <= answers.arrived.keys() and time.monotonic() < deadline:
        time.sleep(sinks_limits.HEALTH_POLL_INTERVAL_S)


def summary(latencies_s: list[float], rate: float) -> dict[str, float]:
    """Percentiles in milliseconds; an infinite latency is an answer that was lost."""
    histogram = HdrHistogram(1, proof_limits.BENCH_LATENCY_MAX_US, 3)
    lost = sum(latency == float("inf") for latency in latencies_s)
    for latency in latencies_s:
        histogram.record_value(min(proof_limits.BENCH_LATENCY_MAX_US, max(1, round(min(latency, 1e6) * 1e6))))
    percentiles = {
        f"p{str(p).replace('.', '')}_ms": round(histogram.get_value_at_percentile(p) / 1e3, 2) for p in _PERCENTILES
    }
    return {"rate_per_s": rate, "answers": len(latencies_s) - lost, "lost": lost, **percentiles}
