"""Exports and erasures. Pure. An erasure cannot be undone, and ends with a certificate."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Export(Struct, frozen=True, kw_only=True):
    """A user's request for a copy. Its content is read when it is fetched."""

    export_id: str
    user_id: str
    version: int
    created_at: int


class Erasure(Struct, frozen=True, kw_only=True):
    """The erasure of a user: running until nothing of it can be reached, which ``jws`` certifies."""

    user_id: str
    erasure_id: str
    state: str
    jws: str | None
    version: int
    created_at: int
    updated_at: int


def rendered_export(export: Export) -> dict[str, Any]:
    """An export as its user sees it."""
    return {
        "id": export.export_id,
        "object": "export",
        "export_id": export.export_id,
        "state": "ready",
        "version": export.version,
    }


def rendered_erasure(erasure: Erasure) -> dict[str, Any]:
    """An erasure as its user sees it; the certificate is added where it is read."""
    return {
        "id": erasure.erasure_id,
        "object": "erasure",
        "erasure_id": erasure.erasure_id,
        "state": erasure.state,
        "version": erasure.version,
    }
