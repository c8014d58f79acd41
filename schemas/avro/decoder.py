"""Avro decoders compiled from the schema: straight-line code per record, the counterpart of ``encoder``.

They read what fastavro reads, into the same values (a property test compares them), in two thirds of the time. On
hostile bytes they raise plain exceptions and never read without a bound: every step consumes bytes or fails at their
end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

#: takes the bytes and where the record begins; gives the value and where it ends. A value is right only when that end
#: is not beyond the bytes: the caller compares.
Decode = Callable[[bytes, int], tuple[Any, int]]

_GOES_ON: Final = 128  # the bit of a byte of a long that is not its last one
_THREE_GO_ON: Final = 128 + (128 << 7) + (128 << 14)  # those bits of so many bytes, at their places
_FOUR_GO_ON: Final = _THREE_GO_ON + (128 << 21)
_LONG_BITS_MAX: Final = 63  # shift of the last of the ten bytes that a long may take
_INDENT: Final = "    "


def long_at(data: bytes, at: int) -> tuple[int, int]:
    """A zig-zag long and where it ends. Raises IndexError at the end of the bytes, ValueError past 64 bits.

    The lengths that ours have are read without a loop: two bytes, and the eight of a time.
    """
    raw = data[at]
    if raw < _GOES_ON:
        return raw >> 1 ^ -(raw & 1), at + 1
    if (second := data[at + 1]) < _GOES_ON:
        raw += (second << 7) - _GOES_ON
        return raw >> 1 ^ -(raw & 1), at + 2
    end = at + 8
    if end <= len(data):
        a, b, c, d, e, f, g, h = data[at:end]
        if h < _GOES_ON <= c & d & e & f & g:
            raw = a + (b << 7) + (c << 14) + (d << 21) - _FOUR_GO_ON
            raw += e + (f << 7) + (g << 14) + (h << 21) - _THREE_GO_ON << 28
            return raw >> 1 ^ -(raw & 1), end
    return _long_of_any_length(data, at)


def _long_of_any_length(data: bytes, at: int) -> tuple[int, int]:
    shift = raw = 0
    while True:
        byte = data[at]
        at += 1
        raw |= (byte & 127) << shift
        if byte < 128:  # noqa: PLR2004 - no continuation bit
            break
        shift += 7
        if shift > _LONG_BITS_MAX:
            raise ValueError("a long of more than ten bytes")
    if raw >> 64:
        raise ValueError("a long of more than 64 bits")
    return raw >> 1 ^ -(raw & 1), at


def length_at(data: bytes, at: int) -> tuple[int, int]:
    """A length that the bytes may hold, and where it ends. Raises ValueError for any other."""
    length = data[at]
    if length & 129:  # negative, or of more than one byte
        length, at = long_at(data, at)
    else:
        length, at = length >> 1, at + 1
    if not 0 <= length <= len(data):
        raise ValueError("a length beyond the record")
    return length, at


def _blocks(data: bytes, at: int, item: Decode) -> tuple[list[Any], int]:
    """The items of an array or a map, block by block."""
    items: list[Any] = []
    while True:
        count, at = long_at(data, at)
        if count == 0:
            return items, at
        if count < 0:  # then the size of the block in bytes follows
            count = -count
            _, at = length_at(data, at)
        if count > len(data):
            raise ValueError("more items than bytes")
        for _ in range(count):
            value, at = item(data, at)
            items.append(value)


def _text(data: bytes, at: int) -> tuple[str, int]:
    length, at = length_at(data, at)
    return data[at : at + length].decode(), at + length


def _pair(data: bytes, at: int) -> tuple[tuple[str, str], int]:
    key, at = _text(data, at)
    text, at = _text(data, at)
    return (key, text), at


def _map_of_texts(data: bytes, at: int) -> tuple[dict[str, str], int]:
    """The pairs of a map; what fits one block of short texts, as ours do, is read without a call for each."""
    count = data[at]
    if count == 0:
        return {}, at + 1
    if count & 129:  # a size follows, or more than one byte says how many
        pairs, at = _blocks(data, at, _pair)
        return dict(pairs), at
    begin, found = at, {}
    at += 1
    for _ in range(count >> 1):
        length = data[at]
        end = at + 1 + (length >> 1)
        size = data[end]
        if (length | size) & 129:
            break
        at = end + 1 + (size >> 1)
        found[data[end - (length >> 1) : end].decode()] = data[end + 1 : at].decode()
    else:
        if data[at] == 0:
            return found, at + 1
    pairs, at = _blocks(data, begin, _pair)
    return dict(pairs), at


def compiled(schema: Mapping[str, Any], make: Callable[..., Any] | None = None, **constants: object) -> Decode:
    """The decoder of a record schema as it is written in an .avsc. Raises ValueError for a type that is not used here.

    The record comes as a dict, or as ``make(**constants, **fields)``.
    """
    return _Compiler().record(schema, make, constants)


class _Compiler:
    """Writes the source of one function per record type; nested records become part of the function around them."""

    def __init__(self) -> None:
        self._named: dict[str, Mapping[str, Any]] = {}

    def record(
        self, schema: Mapping[str, Any], make: Callable[..., Any] | None, constants: Mapping[str, object]
    ) -> Decode:
        """The decoder of this record."""
        self._lines: list[str] = []
        self._places: dict[str, Any] = {
            "long_at": long_at,
            "length_at": length_at,
            "map_of_texts": _map_of_texts,
            "blocks": _blocks,
            "make": make,
            "constants": constants,
        }
        self._variables = 0
        fields = self._fields(schema, 1)
        if make is None:
            value = self._literal(fields)
        else:
            given = [f"{name}={value!r}" for name, value in constants.items()]
            value = f"make({', '.join([*given, *[f'{name}={variable}' for name, variable in fields.items()]])})"
        source = "\n".join(["def decode(data, at):", *self._lines, f"{_INDENT}return {value}, at"])
        exec(compile(source, f"<avro decoder of {schema['name']}>", "exec"), self._places)  # noqa: S102 - our own .avsc files
        decode: Decode = self._places["decode"]
        return decode

    @staticmethod
    def _literal(fields: Mapping[str, str]) -> str:
        return "{" + ", ".join(f"{name!r}: {variable}" for name, variable in fields.items()) + "}"

    def _fields(self, schema: Mapping[str, Any], depth: int) -> dict[str, str]:
        self._named[schema["name"]] = schema
        found = {}
        for field in schema["fields"]:
            self._variables += 1
            variable = found[field["name"]] = f"f{self._variables}"
            self._read(field["type"], variable, depth)
        return found

    def _emit(self, depth: int, *lines: str) -> None:
        self._lines.extend(_INDENT * depth + line for line in lines)

    def _read(self, kind: Any, variable: str, depth: int) -> None:
        """Lines that read one value into the variable."""
        if isinstance(kind, list):
            self._nullable(kind, variable, depth)
        elif isinstance(kind, str) and kind not in self._named:
            self._plain(kind, variable, depth)
        else:
            self._complex(self._named[kind] if isinstance(kind, str) else kind, variable, depth)

    def _complex(self, kind: Mapping[str, Any], variable: str, depth: int) -> None:
        if kind["type"] == "record":
            self._emit(depth, f"{variable} = {self._literal(self._fields(kind, depth))}")
        elif kind["type"] == "enum":
            self._named[kind["name"]] = kind
            symbols = self._bind("symbols", tuple(kind["symbols"]))
            self._emit(depth, "n, at = length_at(data, at)", f"{variable} = {symbols}[n]")
        elif kind["type"] == "fixed":
            self._named[kind["name"]] = kind
            self._emit(depth, f"{variable} = data[at : at + {kind['size']}]", f"at += {kind['size']}")
        elif kind["type"] == "map" and kind["values"] == "string":
            self._emit(depth, f"{variable}, at = map_of_texts(data, at)")
        elif kind["type"] == "array" and isinstance(kind["items"], dict) and kind["items"]["type"] == "record":
            item = self._bind("item", _Compiler().record(kind["items"], None, {}))
            self._emit(depth, f"{variable}, at = blocks(data, at, {item})")
        elif kind["type"] == "array" and kind["items"] == "string":
            self._emit(depth, f"{variable}, at = blocks(data, at, {self._bind('item', _text)})")
        else:
            raise ValueError(f"no decoder for the type {kind}")

    def _plain(self, kind: str, variable: str, depth: int) -> None:
        if kind in ("int", "long"):
            self._emit(
                depth,
                f"{variable} = data[at]",
                f"if {variable} < 128:",
                f"{_INDENT}{variable} = {variable} >> 1 ^ -({variable} & 1)",
                f"{_INDENT}at += 1",
                "else:",
                f"{_INDENT}{variable}, at = long_at(data, at)",
            )
        elif kind in ("string", "bytes"):
            decoding = ".decode()" if kind == "string" else ""
            self._emit(
                depth,
                "n = data[at]",
                "if n & 129:",  # negative, or of more than one byte
                f"{_INDENT}n, at = length_at(data, at)",
                "else:",
                f"{_INDENT}n >>= 1",
                f"{_INDENT}at += 1",
                "end = at + n",
                f"{variable} = data[at:end]{decoding}",
                "at = end",
            )
        elif kind == "boolean":
            boolean = self._bind("boolean", (False, True))
            self._emit(depth, f"{variable} = {boolean}[data[at]]", "at += 1")
        else:
            raise ValueError(f"no decoder for the type {kind}")

    def _nullable(self, kind: list[Any], variable: str, depth: int) -> None:
        if len(kind) != 2 or kind[0] != "null":  # noqa: PLR2004 - null and one other
            raise ValueError(f"no decoder for the union {kind}")
        self._emit(depth, "n = data[at]", "at += 1", "if n == 0:", f"{_INDENT}{variable} = None", "elif n == 2:")
        self._read(kind[1], variable, depth + 1)
        self._emit(depth, "else:", f"{_INDENT}raise ValueError('a union has two branches')")

    def _bind(self, name: str, value: object) -> str:
        name = f"{name}{len(self._places)}"
        self._places[name] = value
        return name
