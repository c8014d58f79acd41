"""The headers of a record, which whoever wrote it has named as it pleased."""

from __future__ import annotations

from operator import methodcaller
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from confluent_kafka import Message

#: Of a name that is no text the library returns what it has half made, beside an error. Python 3.12 has a short way for
#: a method that is called often, which looks for none: the process ended by it. Called like this, the error is raised.
_HEADERS: Final = methodcaller("headers")


def headers_of(message: Message) -> dict[str, str | bytes | None] | None:
    """By name, the last of each. None where a name is no text: the library fails at it, whatever it says of the others.

    Asked once for a message: what the library has kept of one that failed must not be touched again.
    """
    try:
        found = dict(_HEADERS(message) or ())
    except (SystemError, UnicodeDecodeError):
        return None
    return found
