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
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Final

import zstandard

from schemas import errors
from schemas.service import NO_DICTIONARY

_DICTIONARIES_END: Final = 32  # no further number is one
_LEVEL: Final = 2
_EVENT_BYTES: Final = 2_048  # about the most that an event has, and the tables of a frame are made for
_TOGETHER_MIN: Final = 16  # events; for fewer, what one call prepares costs more than it saves


class _OfThread(threading.local):
    """What compresses and decompresses in one thread, by dictionary: it is no other thread's."""

    def __init__(self) -> None:
        self.compressors: dict[int, zstandard.ZstdCompressor] = {}
        self.decompressors: dict[int, zstandard.ZstdDecompressor] = {}


_of_thread: Final = _OfThread()


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


def kept(payloads: Sequence[bytes], dictionary: int) -> list[bytes]:
    """What is stored of events that are published as ``payloads``: of none more bytes than that.

    Many are compressed in one call: left to other threads for each event, the interpreter was waited for longer than
    compressing takes.
    """
    if dictionary == NO_DICTIONARY or only_published():
        return list(payloads)
    mark, compressor = bytes((dictionary,)), _compressor(dictionary)
    if len(payloads) < _TOGETHER_MIN:
        frames = [compressor.compress(payload) for payload in payloads]
    else:
        buffer = compressor.multi_compress_to_buffer(list(payloads), threads=1)
        frames = [buffer[n].tobytes() for n in range(len(payloads))]
    packed = [mark + frame for frame in frames]
    return [small if len(small) < len(payload) else payload for small, payload in zip(packed, payloads, strict=True)]


def published(stored: bytes) -> bytes:
    """The event as it is published, byte for byte. Raises Corrupt for what cannot be read."""
    if not stored or not NO_DICTIONARY < stored[0] < _DICTIONARIES_END:
        return stored
    if stored[0] not in _dictionaries():
        raise errors.Corrupt("A stored event has a dictionary of a later release.", dictionary=stored[0])
    frame = _decompressor(stored[0]).decompressobj()
    try:
        payload = frame.decompress(stored[1:])
    except zstandard.ZstdError as error:
        raise errors.Corrupt("A stored event cannot be read.") from error
    if not frame.eof or frame.unused_data:
        raise errors.Corrupt("A stored event is cut, or has bytes after its end.")
    return payload


def _compressor(dictionary: int) -> zstandard.ZstdCompressor:
    found = _of_thread.compressors
    if dictionary not in found:
        known = _dictionary(dictionary)
        # without its size, a checksum and the dictionary's id, which the row or the first byte says already
        frame = zstandard.ZstdCompressionParameters.from_level(
            _LEVEL,
            source_size=_EVENT_BYTES,
            dict_size=len(known),
            write_content_size=False,
            write_checksum=False,
            write_dict_id=False,
        )
        known.precompute_compress(compression_params=frame)
        found[dictionary] = zstandard.ZstdCompressor(dict_data=known, compression_params=frame)
    return found[dictionary]


def _decompressor(dictionary: int) -> zstandard.ZstdDecompressor:
    found = _of_thread.decompressors
    if dictionary not in found:
        found[dictionary] = zstandard.ZstdDecompressor(dict_data=_dictionary(dictionary))
    return found[dictionary]


def _dictionary(number: int) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(_dictionaries()[number])


@cache
def _dictionaries() -> dict[int, bytes]:
    rows = json.loads((resources.files("schemas") / "avro" / "event_dictionaries.json").read_text())
    return {int(number): base64.b64decode("".join(lines)) for number, lines in rows.items()}
