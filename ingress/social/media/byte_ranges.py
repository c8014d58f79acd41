"""Which bytes of a rendition are asked for, if any (RFC 9110, 13 and 14): pure. Players of films ask for pieces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from schemas import errors

_TAG: Final = re.compile(r'"[!#-~\x80-\xff]*"')
_ONE: Final = re.compile(r"bytes=[ \t]*([0-9]{0,18})-([0-9]{0,18})[ \t]*", re.IGNORECASE | re.ASCII)


class RangeNotSatisfiable(errors.Rejected):
    """There are no such bytes of it."""

    code = "range_not_satisfiable"

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size


def has_it(if_none_match: Sequence[str], etag: str) -> bool:
    """Whether who asks says that it has this content already, which then is not sent.

    ``*`` is any content. Compared weakly, as for this field (section 13.1.2): a mark of weakness says nothing.
    """
    said = ",".join(if_none_match)
    return said.strip() == "*" or etag in _TAG.findall(said)


def asked_range(said: str | None, if_range: str | None, etag: str, size: int) -> tuple[int, int] | None:
    """The first byte, and the one behind the last; None where all are to be sent.

    What is no range, several at once, and one of another content (``if_range``) are answered with the whole.
    Raises RangeNotSatisfiable.
    """
    one = _ONE.fullmatch(said or "")
    if one is None or (if_range is not None and if_range != etag):
        return None
    first, last = one.groups()
    if not first:
        if not last:
            return None
        start, stop = max(0, size - int(last)), size
    else:
        start, stop = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < start:
            return None  # no range at all
    if start >= size:
        raise RangeNotSatisfiable(size)
    return start, stop
