"""Splits an INSERT from the data that follow it, as ClickHouse's parser does; reads no more SQL than that needs.

If it were wrong, rows would be read as SQL or SQL as rows; so whatever it does not know goes to the engine whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

_TOKEN: Final = re.compile(
    rb"""
      (?P<blank>\s+ | --[^\n]*(?:\n|\Z) | \#[ !][^\n]*(?:\n|\Z) | /\*.*?\*/)
    | (?P<quoted>'(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | `(?:[^`\\]|\\.|``)*`)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<open>[(\[{]) | (?P<close>[)\]}])
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_AFTER_FORMAT: Final = re.compile(rb"[ \t\f]*\r?\n?")
_LAST_FORMAT: Final = re.compile(rb"\bFORMAT\s+([A-Za-z0-9_]+)\s*(?:SETTINGS\b[^'\"`]*)?;?\s*\Z", re.IGNORECASE)
_READS: Final = frozenset(b"SELECT WITH FROM SHOW DESCRIBE DESC EXPLAIN EXISTS SET USE".split())
_LEAVES_SESSION: Final = frozenset(b"SELECT WITH INSERT SHOW DESCRIBE DESC EXISTS CREATE ALTER DROP EXCHANGE".split())
_FIRST_WORD: Final = re.compile(rb"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*([A-Za-z]+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Insert:
    """An INSERT whose data start at ``data_offset`` of the text that it was found in."""

    head: bytes  # up to and without FORMAT or VALUES
    data_format: str
    data_offset: int


def split_insert(text: bytes) -> Insert | None:
    """The INSERT with data at the start of ``text``, or None for every other statement (INSERT ... SELECT too)."""
    depth = 0
    expecting_format = False
    first = True
    head_end = 0
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "blank":
            continue
        word = token.group().upper() if kind == "word" else b""
        if first and word != b"INSERT":
            return None
        first = False
        if expecting_format:
            return _insert_format(text, head_end, token) if kind == "word" else None
        depth += (kind == "open") - (kind == "close")
        if depth or not word:
            continue
        if word in {b"SELECT", b"WITH", b"INFILE", b"WATCH"}:
            return None
        if word == b"VALUES":
            return Insert(text[: token.start()], "Values", token.end())
        if word == b"FORMAT":
            expecting_format = True
            head_end = token.start()
    return None


def reads_input(text: bytes) -> bool:
    """Whether an INSERT selects from its own data: the engine would take the statement and drop the rows."""
    if b"INPUT" not in text.upper():
        return False
    words = [token.group().upper() for token in _TOKEN.finditer(text) if token.lastgroup != "blank"]
    return words[:1] == [b"INSERT"] and any(pair == (b"INPUT", b"(") for pair in pairwise(words))


def _insert_format(text: bytes, head_end: int, name: re.Match[bytes]) -> Insert:
    after = _AFTER_FORMAT.match(text, name.end())
    return Insert(text[:head_end], name.group().decode(), after.end() if after else name.end())


def last_format(text: bytes) -> str | None:
    """The format that a query names at its end."""
    found = _LAST_FORMAT.search(text)
    return found.group(1).decode() if found else None


def only_reads(text: bytes) -> bool:
    """Whether it is a statement that a reader may make: by its first word, because no grant rules what ends queries."""
    found = next((token for token in _TOKEN.finditer(text) if token.lastgroup not in {"blank", "open"}), None)
    return found is None or found.group().upper() in _READS


def calls_python(text: bytes) -> bool:
    """Whether it asks for the table function that reads objects of this process."""
    if b"PYTHON" not in text.upper():
        return False
    words = [token.group().strip(b'"`').upper() for token in _TOKEN.finditer(text) if token.lastgroup != "blank"]
    return any(pair == (b"PYTHON", b"(") for pair in pairwise(words))


def is_select(text: bytes) -> bool:
    """Whether the statement only reads rows, so that it may be run twice and its answer streamed."""
    found = _FIRST_WORD.match(text)
    return found is not None and found.group(1).upper() in {b"SELECT", b"WITH"} and b"INSERT" not in text.upper()


def leaves_session(text: bytes) -> bool:
    """Whether it surely changes nothing for the statements after it: one statement, of a kind that cannot.

    A temporary table is there for later ones, and so would be what a second statement sets.
    """
    found = _FIRST_WORD.match(text)
    is_one = b";" not in text.strip().removesuffix(b";")  # or it stands in a text: then it is not sure
    return (
        found is not None and found.group(1).upper() in _LEAVES_SESSION and is_one and b"TEMPORARY" not in text.upper()
    )
