"""Statements that a session is asked again and again: prepared at the server, run without a cursor for each call.

Measured: of what a small read cost in the driver, half went to the cursor, to preparing by its own rules and to the
end of a transaction that there is none of. A statement is named after its text and the types of its parameters, so a
name means the same whoever prepared it: sessions may stand behind a pooler that gives each call another server
session. Where one does not know a name, the statement runs without it, and where that goes on, none is named any more.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.generators import execute
from psycopg.pq import DiagnosticField, ExecStatus

from sinks import limits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg import abc
    from psycopg.pq.abc import PGresult

    from sinks.postgres.numbered_text import NumberedText

_FAILED: Final = (ExecStatus.FATAL_ERROR, ExecStatus.BAD_RESPONSE)
_UNKNOWN_NAME: Final = b"26000"
_CHANGED_RESULT: Final = b"0A000"  # "cached plan must not change result type": a migration altered what it reads
_THERE_ALREADY: Final = b"42P05"
_NAME_BYTES: Final = 16

Rows = list[tuple[Any, ...]]
_Key = tuple[bytes, tuple[int, ...]]


class _Kept:
    """A statement, by its text and the types of its parameters."""

    __slots__ = ("asked", "loading", "name")

    def __init__(self) -> None:
        self.asked = 0
        self.name: bytes | None = None  # at the server
        self.loading: abc.Transformer | None = None  # knows the types of its columns


class KeptPlans:
    """The statements of one connection in autocommit, of one task at a time: those asked often are kept."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        connection.prepare_threshold = None  # after a rollback psycopg would deallocate its own statements, and ours
        self._connection = connection
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()  # what was asked longest ago comes first
        self._dumping: dict[bytes, abc.Transformer] = {}
        self._names_lost = 0

    async def asked(self, text: NumberedText, given: Mapping[str, Any]) -> tuple[PGresult, Rows]:
        """The result of one statement, and its rows.

        Raises psycopg.Error; a name that the server lost, or whose result is of other types than when it was prepared,
        is no error: the statement has not run then, and runs again without a name.
        """
        dumping = self._dumping.get(text.query)
        if dumping is None:
            dumping = self._dumping[text.query] = Transformer(self._connection)
        data = dumping.dump_sequence(text.values(given), text.formats)
        types, formats = dumping.types or (), dumping.formats or ()
        kept = self._kept_of((text.query, types))
        if kept.name is None and kept.asked >= limits.PLAN_KEPT_AFTER and self._names_lost < limits.PLANS_LOST_MAX:
            kept.name = await self._prepared(text.query, types)
        if kept.name is not None:
            self._connection.pgconn.send_query_prepared(kept.name, data, formats)
            result = await self._result()
            state = result.error_field(DiagnosticField.SQLSTATE) if result.status in _FAILED else None
            if state not in (_UNKNOWN_NAME, _CHANGED_RESULT):
                return result, self._rows(kept, result)
            await self._forget(kept)
        self._connection.pgconn.send_query_params(text.query, data, types, formats)
        return await self._plain()

    def _kept_of(self, key: _Key) -> _Kept:
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = _Kept()
        else:
            self._kept.move_to_end(key)
        kept.asked += 1
        return kept

    async def _plain(self) -> tuple[PGresult, Rows]:
        result = await self._result()
        return result, self._rows(_Kept(), result)

    async def _prepared(self, query: bytes, types: tuple[int, ...]) -> bytes:
        """The name under which it is prepared now. Raises psycopg.Error."""
        while len(self._kept) > limits.PLANS_KEPT_MAX:
            _, oldest = self._kept.popitem(last=False)
            if oldest.name is not None:
                await self._closed(oldest.name)
        name = b"kept_" + hashlib.blake2b(repr((query, types)).encode(), digest_size=_NAME_BYTES).hexdigest().encode()
        self._connection.pgconn.send_prepare(name, query, types)
        result = await self._result()
        if result.status in _FAILED and result.error_field(DiagnosticField.SQLSTATE) != _THERE_ALREADY:
            error = error_from_result(result)
            raise error
        return name

    async def _forget(self, kept: _Kept) -> None:
        """What is prepared under its name, here or at whichever server session, is so no more."""
        name, kept.name, kept.loading, kept.asked = kept.name, None, None, 0
        self._names_lost += 1
        await self._closed(name)

    async def _closed(self, name: bytes | None) -> None:
        self._connection.pgconn.send_close_prepared(name or b"")
        await self._result()

    async def _result(self) -> PGresult:
        """The answer to what was sent last. Raises psycopg.OperationalError."""
        results: list[PGresult] = await self._connection.wait(execute(self._connection.pgconn))
        return results[-1]

    def _rows(self, kept: _Kept, result: PGresult) -> Rows:
        if result.status in _FAILED:
            error = error_from_result(result)
            raise error
        if not result.ntuples:
            return []
        loading = kept.loading
        if loading is None:
            loading = Transformer(self._connection)
            loading.set_pgresult(result)
            kept.loading = loading
        else:
            loading.set_pgresult(result, set_loaders=False)  # of one name all results have the same types
        return loading.load_rows(0, result.ntuples, tuple)


class KeptPlansConnection(psycopg.AsyncConnection[Any]):
    """A connection of a pool that has them."""

    @cached_property
    def plans(self) -> KeptPlans:
        """Made when first asked for: ``connect`` sets what a connection prepares by itself after it was made."""
        return KeptPlans(self)
