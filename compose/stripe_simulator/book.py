"""The account's durable book: objects, effects, answers and events, each request in one transaction.

Guarantees: a key has one effect for ever; what a request changed, its answer and the events that tell of it are on disk
(WAL, synchronous=FULL) before the answer leaves, so a SIGKILL loses nothing and doubles nothing.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from compose.simulator import limits
from compose.simulator.book.storage import book_connect
from compose.simulator.statements import named, read
from compose.stripe_simulator.problems import Refused, missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from compose.stripe_simulator.problems import Object

_SQL: Final = named(read("queries.sql", str(__package__)))
_FILE_NAME: Final = "stripe.sqlite3"
Answer = tuple[int, "Object"]


class Book:
    """One account. Any thread may use it; one does at a time."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._connection = book_connect(folder / _FILE_NAME)
        self._connection.executescript(read("schema.sql", str(__package__)))
        self._lock = threading.Lock()

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """All of it is on disk afterwards, or nothing of it is done."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield Transaction(self._connection)
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise

    def once(self, key: str, asked: str, carry_out: Callable[[Transaction], Answer]) -> tuple[Answer, bool]:
        """What was answered under this key, now or before; true when before. Raises Refused, which is not kept."""
        fingerprint = hashlib.sha256(asked.encode()).digest()
        with self.transaction() as made:
            known = made.one("answer_fetch", key)
            if known is not None:
                if known[0] != fingerprint:
                    raise Refused("idempotency_error", "Keys can only be used with the same parameters as before.")
                return (known[1], json.loads(known[2])), True
            status, body = carry_out(made)
            made.put("answer_insert", key, fingerprint, status, json.dumps(body))
            return (status, body), False


class Transaction:
    """The book while one request is carried out."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.now = int(time.time())

    def one(self, name: str, *values: object) -> Any:
        """The first row, None when there is none."""
        return self._connection.execute(_SQL[name], values).fetchone()

    def put(self, name: str, *values: object) -> None:
        """Carries a change out."""
        self._connection.execute(_SQL[name], values)

    def rows(self, name: str, values: Any = ()) -> list[Any]:
        """Every row."""
        return self._connection.execute(_SQL[name], values).fetchall()

    def bodies(self, name: str, values: Any) -> list[Object]:
        """The objects in the first column of every row."""
        return [json.loads(row[0]) for row in self.rows(name, values)]

    def new_id(self, prefix: str) -> str:
        """An id that no object has."""
        return f"{prefix}_{self.one('objects_count')[0] + 1:08}{secrets.token_hex(4)}"

    def fetch(self, kind: str, name: str) -> Object:
        """An object. Raises Refused."""
        found = self.one("object_fetch", name, kind)
        if found is None:
            raise missing(kind, name)
        body: Object = json.loads(found[0])
        return body

    def keep(self, body: Object, parent: str | None = None) -> Object:
        """Makes an object, or changes one; the same one for the caller."""
        self.put("object_put", body["id"], body["object"], parent, int(time.time() * 1_000), json.dumps(body))
        return body

    def listed(self, kind: str, parent: str | None, count: int) -> tuple[list[Object], bool]:
        """The newest objects of a kind, and whether there are more."""
        rows = self.rows("objects_list", {"kind": kind, "parent": parent, "count": count + 1})
        return [json.loads(row[0]) for row in rows[:count]], len(rows) > count

    def book_effect(self, section: str, key: str, of: Object, amount: int) -> None:
        """Money moved, or is held, by the request of this key."""
        self.put("effect_insert", key, section, of["metadata"].get("reference", ""), amount, of["currency"].upper())

    def tell(self, event_type: str, found: Object) -> None:
        """Writes an event that is delivered at least once."""
        event = {
            "id": self.new_id("evt"),
            "object": "event",
            "type": event_type,
            "created": self.now,
            "livemode": False,
        }
        self.keep(event | {"data": {"object": found}})
        self.put("outbox_insert", json.dumps(event | {"data": {"object": found}}))

    def untold(self) -> list[tuple[int, str]]:
        """What is still to be delivered, oldest first, with its place."""
        return self.rows("outbox_next", (limits.SIMULATOR_WEBHOOK_BATCH_MAX,))
