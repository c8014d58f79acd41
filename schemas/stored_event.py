"""What ``outbox.payload`` holds: the event as it is published, or the same bytes compressed by a known dictionary.

A record as published begins with a zero byte (``schemas.avro.codec``). A compressed one begins with the number of its
dictionary, 1 to 31, and goes on as a frame of zstd. A dictionary never changes, or what was stored by it could not be
read: another one is another number. It says only how small an event becomes, so it need not follow a schema's versions.
"""

from __future__ import annotations

import base64
import json
import os
import threading
from functools import cache
from importlib import resources
from typing import Any, Final

from backports import zstd

from schemas import errors

#: no dictionary: events are stored as they are published
NONE: Final = 0
_DICTIONARIES_END: Final = 32  # no further number is one
#: a frame without its size, a checksum and the dictionary's own id: bytes that the row or the first one says already
_OPTIONS: Final[dict[int, int]] = {
    zstd.CompressionParameter.compression_level: 3,
    zstd.CompressionParameter.content_size_flag: 0,
    zstd.CompressionParameter.checksum_flag: 0,
    zstd.CompressionParameter.dict_id_flag: 0,
}
_of_thread: Final = threading.local()  # a compressor is no other thread's


@cache
def only_published() -> bool:
    """Whether answers and events are stored as they were told and published.

    Owners and readers of the release before know neither renderings nor dictionaries. Raises ValueError for a setting
    that says neither.
    """
    setting = os.environ.get("MILLRACE_WRITTEN_ANSWERS", "by_event")
    if setting not in ("whole", "by_event"):
        raise ValueError(f"MILLRACE_WRITTEN_ANSWERS: {setting!r} is neither whole nor by_event")
    return setting == "whole"


def kept(payload: bytes, dictionary: int) -> bytes:
    """What is stored of an event that is published as ``payload``: never more bytes than that."""
    if dictionary == NONE or only_published():
        return payload
    compressor = _compressor(dictionary)
    packed = bytes((dictionary,)) + compressor.compress(payload, compressor.FLUSH_FRAME)
    return packed if len(packed) < len(payload) else payload


def published(stored: bytes) -> bytes:
    """The event as it is published, byte for byte. Raises Corrupt for what cannot be read."""
    if not stored or not NONE < stored[0] < _DICTIONARIES_END:
        return stored
    dictionary = _dictionaries().get(stored[0])
    if dictionary is None:
        raise errors.Corrupt("A stored event has a dictionary of a later release.", dictionary=stored[0])
    try:
        return zstd.decompress(stored[1:], dictionary.as_digested_dict)
    except zstd.ZstdError as error:
        raise errors.Corrupt("A stored event cannot be read.") from error


def _compressor(dictionary: int) -> zstd.ZstdCompressor:
    found: dict[Any, zstd.ZstdCompressor] = _of_thread.__dict__
    if dictionary not in found:
        known = _dictionaries()[dictionary].as_digested_dict
        found[dictionary] = zstd.ZstdCompressor(options=_OPTIONS, zstd_dict=known)
    return found[dictionary]


@cache
def _dictionaries() -> dict[int, zstd.ZstdDict]:
    rows = json.loads((resources.files("schemas") / "avro" / "event_dictionaries.json").read_text())
    return {int(number): zstd.ZstdDict(base64.b64decode("".join(lines))) for number, lines in rows.items()}
