"""Looks for card numbers wherever a running system could have left them: tables, topics, logs, files.

Written without the vault's own patterns, so that a gap there is not a gap here. ``traces_in`` is for any bytes; the
other functions read one kind of place each and return where something was found, never what.
"""

from __future__ import annotations

import base64
import gzip
import random
import time
import zlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import clickhouse_connect
import psycopg
from confluent_kafka import Consumer, TopicPartition
from psycopg import sql

from compose.simulator.operations.cards import is_card_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from compose.settings.addresses import Addresses
    from sinks.kafka.connection import KafkaConnection

_CHUNK_BYTES: Final = 64 * 1024
_OVERLAP_BYTES: Final = 256
_BLANK: Final = bytes(_CHUNK_BYTES + _OVERLAP_BYTES)
_READ_TIMEOUT_S: Final = 30
_FETCH_ROWS: Final = 2_000
_BETWEEN_VALUES: Final = b"\xff"  # is in no trace: none begins in one value and ends in the next


def a_card_number(last4: str) -> str:
    """A valid number that stands in no file: Hypothesis tells the API whatever literals our modules hold."""
    begun = f"4{random.randrange(10**10):010d}"
    return next(number for digit in range(10) if is_card_number(number := f"{begun}{digit}{last4}"))


def traces(number: str) -> list[bytes]:
    """Every text that would give the number away: its digits plain, in groups, encoded, in UTF-16."""
    digits = number.encode()
    groups = [number[n : n + 4] for n in range(0, len(number), 4)]
    found = [digits, digits[::-1], number.encode("utf-16-le"), digits.hex().encode()]
    found += [gap.join(groups).encode() for gap in (" ", "-", "\u00a0", ".", "%20", "+")]
    # Two characters at either end also hold bits of what stands beside the number.
    found += [base64.b64encode(b"?" * before + digits)[2 + before : -4] for before in range(3)]
    return found


def all_traces(numbers: Iterable[str]) -> list[bytes]:
    """The traces of all these numbers."""
    return [trace for number in numbers for trace in traces(number)]


def traces_in(content: bytes, wanted: list[bytes]) -> bool:
    """Whether the bytes hold any of the traces. Most of a preallocated file and of a heap is blank: one look instead of many."""
    return content != _BLANK[: len(content)] and any(trace in content for trace in wanted)


def in_postgres(superuser_dsn: str, numbers: Iterable[str]) -> list[str]:
    """Tables of any schema, statistics too, with a value that holds a number: bytea as it is, all else as text."""
    wanted = all_traces(numbers)
    found = []
    with psycopg.connect(superuser_dsn) as connection:
        connection.execute("set transaction isolation level repeatable read, read only")
        tables = connection.execute(
            "select n.nspname, c.relname, array_agg(a.attname order by a.attnum),"
            " array_agg(a.atttypid = 'bytea'::regtype order by a.attnum)"
            " from pg_class c join pg_namespace n on n.oid = c.relnamespace"
            " join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped"
            " where c.relkind in ('r', 'm') and n.nspname not in ('information_schema', 'pg_toast')"
            " and (n.nspname <> 'pg_catalog' or c.relname in ('pg_statistic', 'pg_description'))"
            " group by 1, 2 order by 1, 2"
        ).fetchall()
        for schema, table, names, are_bytes in tables:
            columns = [
                sql.SQL("{}" if is_bytes else "{}::text").format(sql.Identifier(name))
                for name, is_bytes in zip(names, are_bytes, strict=True)
            ]
            statement = sql.SQL("select {} from {}").format(sql.SQL(", ").join(columns), sql.Identifier(schema, table))
            if _holds(connection, statement, wanted):
                found.append(f"{schema}.{table}")
    return found


def _holds(connection: psycopg.Connection[Any], statement: sql.Composed, wanted: list[bytes]) -> bool:
    """Whether a row does; a tenant's store that another test ends meanwhile has none any more."""
    with suppress(psycopg.errors.UndefinedTable), connection.transaction(), connection.cursor(name="scan") as cursor:
        cursor.itersize = _FETCH_ROWS
        cursor.execute(statement)
        while rows := cursor.fetchmany(_FETCH_ROWS):
            # in all of them at once: values are many and short
            values = [_bytes_of(value) for row in rows for value in row if value is not None]
            if traces_in(_BETWEEN_VALUES.join(values), wanted):
                return True
    return False


def _bytes_of(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def in_kafka(connection: KafkaConnection, numbers: Iterable[str]) -> list[str]:
    """Topics with a record that holds a number, in key, value or headers."""
    wanted, found = all_traces(numbers), set()
    consumer = Consumer(connection.consumer("card-traces", f"card-traces-{time.monotonic_ns()}"))
    try:
        topics = consumer.list_topics(timeout=_READ_TIMEOUT_S).topics
        ends = {
            (name, partition): consumer.get_watermark_offsets(TopicPartition(name, partition), timeout=_READ_TIMEOUT_S)
            for name, topic in topics.items()
            if name.startswith(connection.prefix)
            for partition in topic.partitions
        }
        left = {place: end for place, (start, end) in ends.items() if end > start}
        consumer.assign([TopicPartition(name, partition, ends[name, partition][0]) for name, partition in left])
        deadline = time.monotonic() + _READ_TIMEOUT_S
        while left:
            assert time.monotonic() < deadline, f"not read to their ends: {sorted(left)}"
            for message in consumer.consume(500, timeout=0.5):
                assert message.error() is None, message.error()
                topic, partition, offset = message.topic(), message.partition(), message.offset()
                parts = [message.key(), message.value(), *(value for _, value in message.headers() or [])]
                if any(traces_in(bytes(part), wanted) for part in parts if part):
                    found.add(topic)
                if offset + 1 >= left.get((topic, partition), 0):
                    left.pop((topic, partition), None)
            for (name, partition), end in list(left.items()):  # transaction markers end a partition without a record
                position = consumer.position([TopicPartition(name, partition)])[0].offset
                if position >= end:
                    left.pop((name, partition))
    finally:
        consumer.close()
    return sorted(str(topic) for topic in found)


def in_files(folder: Path, numbers: Iterable[str]) -> list[str]:
    """Files under a folder that hold a number, compressed ones looked into as far as they are gzip or zlib."""
    wanted = all_traces(numbers)
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and any(traces_in(part, wanted) for part in _parts(path))
    )


def _parts(path: Path) -> Iterator[bytes]:
    """The file in pieces that overlap, so that nothing falls between two of them."""
    try:
        with path.open("rb") as file:
            tail = b""
            while chunk := file.read(_CHUNK_BYTES):
                yield tail + chunk
                tail = chunk[-_OVERLAP_BYTES:]
    except FileNotFoundError:
        return  # a server removed it meanwhile
    if path.suffix in {".gz", ".z"}:
        content = path.read_bytes()
        try:
            yield gzip.decompress(content) if path.suffix == ".gz" else zlib.decompress(content)
        except (OSError, EOFError, zlib.error):
            return


def in_clickhouse(url: str, numbers: Iterable[str]) -> list[str]:
    """Tables of the database with a row that holds a number; their files are compressed, so rows are read."""
    wanted = all_traces(numbers)
    client = clickhouse_connect.get_client(dsn=url)
    try:
        tables = [
            str(row[0])
            for row in client.query("select name from system.tables where database = currentDatabase()").result_rows
        ]
        return [t for t in tables if traces_in(client.raw_query(f"select * from `{t}`", fmt="JSONEachRow"), wanted)]
    finally:
        client.close()


def in_memory(pid: int, numbers: Iterable[str]) -> bool:
    """Whether a running process has a number in what it may write to. Raises PermissionError where it may not be read."""
    wanted = all_traces(numbers)
    regions = Path(f"/proc/{pid}/maps").read_text().splitlines()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for first, last in (_ends_of(line) for line in regions if line.split()[1].startswith("rw")):
            for start in range(first, last, _CHUNK_BYTES):
                try:
                    memory.seek(max(first, start - _OVERLAP_BYTES))
                    content = memory.read(min(_CHUNK_BYTES + _OVERLAP_BYTES, last - start))
                except (OSError, OverflowError, ValueError):
                    break  # given back meanwhile, or the kernel's own
                if traces_in(content, wanted):
                    return True
    return False


def _ends_of(line: str) -> tuple[int, int]:
    first, _, last = line.split(maxsplit=1)[0].partition("-")
    return int(first, 16), int(last, 16)


def everywhere(addresses: Addresses, home: Path, numbers: Iterable[str]) -> dict[str, list[str]]:
    """All places of one stack: tables, topics, columns, and every file of its home (logs and the data of all servers)."""
    wanted = list(numbers)
    return {
        "postgres": in_postgres(addresses.postgres_superuser_dsn, wanted),
        "kafka": in_kafka(addresses.kafka, wanted),
        "clickhouse": in_clickhouse(addresses.clickhouse_url, wanted),
        "files": in_files(home, wanted),
    }
