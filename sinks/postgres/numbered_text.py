"""A statement as the server takes it: its parameters are numbers, their names are kept beside it."""

from __future__ import annotations

import re
from typing import Any, Final

from psycopg.adapt import PyFormat

_PLACEHOLDER: Final = re.compile(r"%%|%(?:\((\w+)\))?([sb])")


class NumberedText:
    """One text, taken apart once."""

    __slots__ = ("formats", "names", "query")

    def __init__(self, text: str) -> None:
        self.names: list[str] = []  # of the parameters, by their number; empty when they come by position
        self.formats: list[PyFormat] = []
        self.query = _PLACEHOLDER.sub(self._numbered, text).encode()

    def _numbered(self, found: re.Match[str]) -> str:
        name, kind = found.groups()
        if kind is None:
            return "%"
        if name is None or name not in self.names:
            self.formats.append(PyFormat.BINARY if kind == "b" else PyFormat.AUTO)
            if name is None:
                return f"${len(self.formats)}"
            self.names.append(name)
        return f"${self.names.index(name) + 1}"

    def values(self, given: Any) -> Any:
        """The parameters in their order, of a mapping or a sequence. Raises KeyError for one that is not given."""
        return [given[name] for name in self.names] if self.names else given
