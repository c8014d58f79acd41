"""The headers of a record, which whoever wrote it has named as it pleased."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import Message


def headers_of(message: Message) -> dict[str, str | bytes | None] | None:
    """By name, the last of each. None where a name is no text: the library fails at it, whatever it says of the others.

    Asked once for a message: what the library has kept of one that failed must not be touched again.
    """
    try:
        found = dict(message.headers() or ())
    except (SystemError, UnicodeDecodeError):
        return None
    return found
