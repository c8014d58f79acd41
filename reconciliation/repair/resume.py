"""Finishes repairs that were approved and are not known to be posted. Safe at any time, beside any other that does it.

The order is: approved in the database (by two persons, over HTTP), durable in Kafka, decided by the owner, taken over.
A kill between any two of them leaves the repair approved; the command's identity gives it one effect.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from confluent_kafka import Producer
from msgspec import Struct

from schemas import limits, repair
from schemas.errors import Unavailable
from sinks.kafka.delivery import payments_letter, why_not_delivered
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from schemas.records import Command
    from sinks.kafka.connection import KafkaConnection

_SQL: Final = queries("reconciliation.repair", "repair.sql")


class Resumed(Struct, kw_only=True):
    """What became of every repair that was approved, by id."""

    posted: list[str]
    refused: list[str]
    undecided: list[str]


def resume(
    connection: psycopg.Connection,
    kafka: KafkaConnection,
    *,
    wait_s: float = limits.REPAIR_DECISION_WAIT_S,
    waiting_s: float = 0,
    on_step: Callable[[str], None] = lambda _: None,
) -> Resumed:
    """Sends what is approved and takes over what the owners decide. Raises Unavailable when Kafka does not take it.

    ``waiting_s``: only what was approved so long ago; the ingress that heard the approval finishes it by itself.
    """
    on_step("reading")
    bounds = {"limit": limits.REPAIRS_LISTED_MAX, "waiting_s": waiting_s}
    rows = connection.execute(_SQL["repairs_unfinished"].encode(), bounds).fetchall()
    if not rows:
        return Resumed(posted=[], refused=[], undecided=[])
    now_us = time.time_ns() // 1_000
    commands = {
        id_: repair.command_of(id_, template, entries, note, author, approver, now_us)
        for id_, template, entries, note, author, approver in rows
    }
    on_step("sending")
    _send(kafka, list(commands.values()))
    on_step("sent")
    found = _settle(connection, list(commands), wait_s)
    on_step("settled")
    return found


def _send(kafka: KafkaConnection, commands: list[Command]) -> None:
    """Returns once Kafka holds every command on all in-sync replicas."""
    producer = Producer(kafka.producer("repair"))
    reason = why_not_delivered(producer, map(payments_letter, commands))
    if reason is not None:
        raise Unavailable(f"Kafka did not take every repair; run it again: {reason}")


def _settle(connection: psycopg.Connection, waiting: list[str], wait_s: float) -> Resumed:
    found = Resumed(posted=[], refused=[], undecided=[])
    deadline = time.monotonic() + wait_s
    while True:
        for repair_id in list(waiting):
            word = str(connection.execute(_SQL["repair_settle"].encode(), {"id": repair_id}).fetchone()[0])  # type: ignore[index]  # one word
            if word in ("posted", "refused"):
                (found.posted if word == "posted" else found.refused).append(repair_id)
                waiting.remove(repair_id)
        if not waiting or time.monotonic() > deadline:
            found.undecided = waiting
            return found
        time.sleep(limits.REPAIR_POLL_MS / 1_000)
