"""The private file of the multi-tenant platform: root keys of tenants' keys, the key of contexts, that of certificates.

It is made once, before any service starts, and read by them. The database opens nothing without it.
"""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import dataclass, field, replace
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
    file: Path | None = None  # where they stand


def ensure(folder: Path) -> TenancySecrets:
    """The secrets of a home; made first where there are none. Raises as ``read`` does."""
    private_file.write_once(folder / NAME, json.dumps(_new()))
    return read(folder)


def read(folder: Path) -> TenancySecrets:
    """The secrets of a home. Raises Unavailable where there are none, or none that can be read.

    Rule: a service makes none; what it wrapped by keys of its own would be lost when the backup is put back.
    """
    path = folder / NAME
    try:
        return replace(_decoded(json.loads(path.read_text())), file=path)
    except FileNotFoundError:
        hint = "put its backup back; where there never was one, `millrace migrate` makes it"
        raise errors.Unavailable(f"{path.name} is gone: {hint}") from None
    except (OSError, ValueError, KeyError):
        raise errors.Unavailable(f"the keys of tenants in {path.name} cannot be read") from None


def _decoded(document: dict[str, Any]) -> TenancySecrets:
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
