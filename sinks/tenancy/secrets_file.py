"""The private file of the multi-tenant platform: root keys of tenants' keys, the key of contexts, that of certificates.

It is made once, by whichever process comes first; all others read it. The database opens nothing without it.
"""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from schemas import errors
from sinks import private_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAME: Final = "tenancy.json"
_KEY_BYTES: Final = 32
_FIRST_ROOT: Final = "rk_0001"
_FIRST_CONTEXT: Final = "ck_0001"


@dataclass(frozen=True, slots=True)
class TenancySecrets:
    """The keys as the file has them. No text of this shows one."""

    root_key_id: str
    root_keys: Mapping[str, bytes] = field(repr=False)
    context_key_id: str
    context_key: bytes = field(repr=False)


def ensure(folder: Path) -> TenancySecrets:
    """The secrets of a home; made first where there are none. Raises Unavailable when the file cannot be read."""
    path = folder / NAME
    private_file.write_once(path, json.dumps(_new()))
    try:
        return _read(json.loads(path.read_text()))
    except (OSError, ValueError, KeyError):
        raise errors.Unavailable(f"the keys of tenants in {path.name} cannot be read") from None


def _read(document: dict[str, Any]) -> TenancySecrets:
    return TenancySecrets(
        root_key_id=document["root_key_id"],
        root_keys={name: base64.b64decode(text) for name, text in document["root_keys"].items()},
        context_key_id=document["context_key_id"],
        context_key=base64.b64decode(document["context_key"]),
    )


def _new() -> dict[str, Any]:
    def key() -> str:
        return base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode()

    return {
        "root_key_id": _FIRST_ROOT,
        "root_keys": {_FIRST_ROOT: key()},
        "context_key_id": _FIRST_CONTEXT,
        "context_key": key(),
    }
