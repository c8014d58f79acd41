"""Several statements in one round trip: one packet to the server, and one wait for all of its answers.

psycopg's own pipeline looks at the socket after each statement and makes a cursor for it: measured with batches of
one command, over half of an owner's time, and the server woke up for each packet. An error fails everything that is
queued behind it, so a commit can never follow a statement that failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import psycopg
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.errors import InvalidSqlStatementName, error_from_result
from psycopg.generators import fetch_many, send
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from sinks.postgres.copied import Copy, Statement
from sinks.postgres.numbered_text import NumberedText

Rows = list[tuple[Any, ...]]

_FAILED: Final = (ExecStatus.FATAL_ERROR, ExecStatus.PIPELINE_ABORTED)


class RoundTrips:
    """Sends statements over one connection, of one thread at a time; each text is prepared at its first use."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        connection.prepare_threshold = None  # after a rollback psycopg would deallocate its own statements, and ours
        self._connection = connection
        self._texts: dict[str, NumberedText] = {}
        self._prepared: dict[tuple[bytes, tuple[int, ...]], bytes] = {}  # name by query and types
        self._prepared_names = 0

    def run(self, statements: Sequence[Statement]) -> list[Rows]:
        """The rows of each statement. Raises psycopg.Error of the first that failed; then no later one has run."""
        pgconn = self._connection.pgconn
        bound = [self._bound(text, parameters) for text, parameters in statements]
        pgconn.enter_pipeline_mode()
        try:
            preparing = [self._send(query, data, types, formats) for query, data, types, formats in bound]
            pgconn.pipeline_sync()
            answers = self._connection.wait(_answers(pgconn, sum(1 + (p is not None) for p in preparing)))
            pgconn.exit_pipeline_mode()
        except BaseException:
            self._connection.close()  # half sent: nobody may go on with it
            raise
        return self._taken(bound, preparing, answers)

    def write(self, statements: Sequence[Statement | Copy]) -> None:
        """As ``run``, for statements whose rows nobody reads; a ``Copy`` is carried out in its place."""
        waiting: list[Statement] = []
        for statement in statements:
            if not isinstance(statement, Copy):
                waiting.append(statement)
                continue
            if waiting:
                self.run(waiting)
                waiting = []
            with self._connection.cursor().copy(statement.statement.encode()) as stream:
                stream.write(statement.data)
        if waiting:
            self.run(waiting)

    def _bound(self, text: str, parameters: Any) -> tuple[bytes, Sequence[Any], tuple[int, ...], Sequence[int]]:
        known = self._texts.get(text)
        if known is None:
            known = self._texts[text] = NumberedText(text)
        if not parameters:
            return known.query, (), (), ()
        transformer = Transformer(self._connection)
        data = transformer.dump_sequence(known.values(parameters), known.formats)
        return known.query, data, transformer.types or (), transformer.formats or ()

    def _send(self, query: bytes, data: Sequence[Any], types: tuple[int, ...], formats: Sequence[int]) -> bytes | None:
        """The name under which the text is prepared by the answer before its own; None when it was prepared before."""
        pgconn, new = self._connection.pgconn, None
        name = self._prepared.get((query, types))
        if name is None:
            self._prepared_names += 1
            name = new = b"round_trip_%d" % self._prepared_names
            pgconn.send_prepare(name, query, types)
        pgconn.send_query_prepared(name, data, formats)
        return new

    def _taken(self, bound: Sequence[Any], preparing: Sequence[bytes | None], answers: list[PGresult]) -> list[Rows]:
        rows: list[Rows] = []
        failed: PGresult | None = None
        given = iter(answers)
        for (query, _, types, _), new in zip(bound, preparing, strict=True):
            if new is not None:
                result = next(given)
                if result.status not in _FAILED:
                    self._prepared[query, types] = new
                else:
                    failed = failed or result
            result = next(given)
            if result.status in _FAILED:
                failed = failed or result
            else:
                rows.append(self._loaded(result))
        if failed is not None:
            error = error_from_result(failed)
            if isinstance(error, InvalidSqlStatementName):
                self._prepared.clear()  # somebody deallocated: the next try prepares again
            raise error
        return rows

    def _loaded(self, result: PGresult) -> Rows:
        if not result.ntuples:
            return []
        transformer = Transformer(self._connection)
        transformer.set_pgresult(result)
        return transformer.load_rows(0, result.ntuples, tuple)


def _answers(pgconn: PGconn, count: int) -> PQGen[list[PGresult]]:
    """Sends what is queued and takes the answer to each of so many requests. Raises psycopg.OperationalError."""
    yield from send(pgconn)
    answers = []
    for _ in range(count):
        answers.append((yield from fetch_many(pgconn))[-1])  # noqa: PERF401 - a comprehension cannot wait
    yield from fetch_many(pgconn)  # the end of the pipeline
    return answers
