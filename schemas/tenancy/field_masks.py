"""Field masks of support grants: fields that no answer under a grant has. Pure.

A mask is the name of a field, or names with dots between them: ``email`` is left out wherever it stands,
``payload.email`` where the nearest field around it is ``payload``, lists in between not counted. What is masked is
gone, name and value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from schemas.tenancy import limits

_NAME: Final = rf"[A-Za-z0-9_-]{{1,{limits.MASK_NAME_LENGTH_MAX}}}"
PATTERN: Final = rf"^{_NAME}(\.{_NAME}){{0,{limits.MASK_DEPTH_MAX - 1}}}$"
_MASK: Final = re.compile(PATTERN)
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_scalar: Final = msgspec.json.Decoder(str | float | bool | None).decode
_encode: Final = msgspec.json.Encoder().encode

Names = tuple[str, ...]


def why_not(value: object) -> str | None:
    """Why this is no list of masks; None when it is one."""
    is_list = isinstance(value, list) and 0 < len(value) <= limits.MASKS_MAX
    if is_list and all(isinstance(one, str) and _MASK.fullmatch(one) for one in value):  # type: ignore[attr-defined] # a list
        return None
    return f"must be a list of 1 to {limits.MASKS_MAX} names of fields, with dots between them"


def without(document: bytes, masks: Iterable[str]) -> bytes:
    """A JSON document without what the masks name; every value that stays has the bytes that it had.

    Raises msgspec.DecodeError for what is no JSON.
    """
    return _encode(_shown(document, (), frozenset(tuple(mask.split(".")) for mask in masks)))


def _shown(raw: bytes | msgspec.Raw, around: Names, masks: frozenset[Names]) -> object:
    document = bytes(raw).strip()
    if document.startswith(b"{"):
        kept = {}
        for name, value in _members(document).items():
            path = (*around, name)[-limits.MASK_DEPTH_MAX :]
            if not any(path[-count:] in masks for count in range(1, len(path) + 1)):
                kept[name] = _shown(value, path, masks)
        return kept
    if document.startswith(b"["):
        return [_shown(item, around, masks) for item in _items(document)]
    _scalar(document)
    return msgspec.Raw(document)
