"""Writes a record whose header is named by any bytes: the library of Python names them by text alone, others do not."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import TYPE_CHECKING, Final

import confluent_kafka

from tests.eventually import patient

if TYPE_CHECKING:
    from collections.abc import Mapping

_TOPIC, _PARTITION, _VALUE, _KEY, _MSGFLAGS, _HEADER = 1, 3, 4, 5, 7, 9  # rd_kafka_vtype_t
_COPY: Final = 2
_PRODUCER: Final = 0


class _Bytes(ctypes.Structure):
    _fields_ = (("at", ctypes.c_char_p), ("size", ctypes.c_size_t))


class _Header(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("value", ctypes.c_char_p), ("size", ctypes.c_ssize_t))


class _What(ctypes.Union):
    _fields_ = (
        ("text", ctypes.c_char_p),
        ("number", ctypes.c_int32),
        ("bytes", _Bytes),
        ("header", _Header),
        ("padding", ctypes.c_char * 64),
    )


class _Given(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int), ("what", _What))


def produce(configuration: Mapping[str, object], topic: str, partition: int, header: bytes) -> None:
    """A record ``{}`` under the key ``stranger``; returns when the broker has it."""
    (library,) = (Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs").glob("librdkafka*")
    kafka = ctypes.CDLL(str(library))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_produceva"):
        getattr(kafka, name).restype = ctypes.c_void_p
    error = ctypes.create_string_buffer(512)
    conf = ctypes.c_void_p(kafka.rd_kafka_conf_new())
    for name, value in configuration.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        assert kafka.rd_kafka_conf_set(conf, name.encode(), text.encode(), error, 512) == 0, error.value
    made = kafka.rd_kafka_new(_PRODUCER, conf, error, 512)
    assert made, error.value
    client = ctypes.c_void_p(made)
    try:
        given = (_Given * 6)(
            _Given(_TOPIC, _What(text=topic.encode())),
            _Given(_PARTITION, _What(number=partition)),
            _Given(_VALUE, _What(bytes=_Bytes(b"{}", 2))),
            _Given(_KEY, _What(bytes=_Bytes(b"stranger", 8))),
            _Given(_MSGFLAGS, _What(number=_COPY)),
            _Given(_HEADER, _What(header=_Header(header, b"1", 1))),
        )
        assert kafka.rd_kafka_produceva(client, given, len(given)) is None
        assert kafka.rd_kafka_flush(client, int(patient(30) * 1_000)) == 0
    finally:
        kafka.rd_kafka_destroy(client)
