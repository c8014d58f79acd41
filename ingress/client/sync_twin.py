"""Makes ``synchronous.py`` of ``asynchronous.py``: ``python -m ingress.client.sync_twin``. A test compares them.

One client is written, as psycopg's is; what differs is only who waits.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).parent
TWIN: Final = _HERE / "synchronous.py"
_DOC: Final = '"""The blocking client, made of ``asynchronous.py`` by ``sync_twin``. Safe to share between threads."""'
_WORDS: Final = (
    ("from collections.abc import AsyncIterator, Iterable", "from collections.abc import Iterable, Iterator"),
    ("AsyncMillraceClient", "MillraceClient"),
    ("AsyncConnection", "Connection"),
    ("AsyncIterator", "Iterator"),
    ("async def ", "def "),
    ("await ", ""),
)
_EACH: Final = re.compile(r"for (\w+) in (.+):\n +yield \1\n")


def made() -> str:
    """The blocking client's module."""
    text = re.sub(r'\A""".*?"""', lambda _: _DOC, (_HERE / "asynchronous.py").read_text(), flags=re.DOTALL)
    for asynchronous, blocking in _WORDS:
        text = text.replace(asynchronous, blocking)
    return _EACH.sub(r"yield from \2\n", text)


if __name__ == "__main__":
    TWIN.write_text(made())
