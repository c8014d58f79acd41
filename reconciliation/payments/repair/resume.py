"""Finishes what was approved and is not known to be done: repairs, outcomes of attempts. Safe at any time.

The order is: approved in the database (by two persons, over HTTP), durable in Kafka, decided by the owner, taken over.
A kill between any two of them leaves it approved; the command's identity gives it one effect.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from confluent_kafka import Producer
from msgspec import Struct

from schemas.errors import Unavailable
from schemas.payments import attempt_outcome, limits, money_by_hand, repair, vouched
from sinks.kafka.delivery import command_letter, why_not_delivered
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from schemas.records import Command
    from sinks.kafka.connection import KafkaConnection

_SQL: Final = queries("reconciliation.payments.repair", "repair.sql")
#: by what the proposal's id begins with
_SETTLE: Final = {vouched.PREFIX.rstrip("_"): "outcome_settle", money_by_hand.PREFIX: "money_settle"}


class Resumed(Struct, kw_only=True):
    """What became of everything that was approved, by id: ``posted`` in the ledger, or recorded as an outcome."""

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
    commands = _unfinished(connection, bounds)
    if not commands:
        return Resumed(posted=[], refused=[], undecided=[])
    on_step("sending")
    _send(kafka, list(commands.values()))
    on_step("sent")
    found = _settle(connection, list(commands), wait_s)
    on_step("settled")
    return found


def _unfinished(connection: psycopg.Connection, bounds: dict[str, float]) -> dict[str, Command]:
    now_us = time.time_ns() // 1_000
    repairs = connection.execute(_SQL["repairs_unfinished"].encode(), bounds).fetchall()
    outcomes = connection.execute(_SQL["outcomes_unfinished"].encode(), bounds).fetchall()
    found = {
        id_: repair.command_of(id_, template, entries, note, author, approver, now_us)
        for id_, template, entries, note, author, approver in repairs
    }
    for id_, operation_id, intent_id, attempt, processor, fact in outcomes:
        found[id_] = attempt_outcome.command_of(id_, operation_id, intent_id, attempt, processor, fact, now_us)
    for id_, operation, object_id, payload in connection.execute(_SQL["money_unfinished"].encode(), bounds).fetchall():
        found[id_] = money_by_hand.command_of(id_, operation, object_id, payload, now_us)
    return found


def _send(kafka: KafkaConnection, commands: list[Command]) -> None:
    """Returns once Kafka holds every command on all in-sync replicas."""
    producer = Producer(kafka.producer("repair"))
    reason = why_not_delivered(kafka, producer, (command_letter(kafka, command) for command in commands))
    if reason is not None:
        raise Unavailable(f"Kafka did not take every repair; run it again: {reason}")


def _settle(connection: psycopg.Connection, waiting: list[str], wait_s: float) -> Resumed:
    found = Resumed(posted=[], refused=[], undecided=[])
    deadline = time.monotonic() + wait_s
    while True:
        for repair_id in list(waiting):
            query = _SETTLE.get(repair_id.partition("_")[0], "repair_settle")
            word = str(connection.execute(_SQL[query].encode(), {"id": repair_id}).fetchone()[0])  # type: ignore[index]  # one word
            if word in ("posted", "recorded", "done", "refused"):
                (found.refused if word == "refused" else found.posted).append(repair_id)
                waiting.remove(repair_id)
        if not waiting or time.monotonic() > deadline:
            found.undecided = waiting
            return found
        time.sleep(limits.REPAIR_POLL_MS / 1_000)
