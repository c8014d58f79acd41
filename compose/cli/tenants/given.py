"""What an operator types, as the API takes it. Pure: what cannot be meant is a usage error that says what can."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from schemas.tenancy.instants import fault, parsed

if TYPE_CHECKING:
    from collections.abc import Iterable

_NONE = ("none", "null")


def quotas(texts: Iterable[str]) -> dict[str, int | None]:
    """``resources=1000 tokens=none`` by dimension."""
    return {name: _limit(name, text) for name, text in _pairs(texts, "--quota", "resources=1000").items()}


def _limit(name: str, text: str) -> int | None:
    if text in _NONE:
        return None
    if not (text.isascii() and text.isdigit()):
        raise typer.BadParameter(f"the limit of {name} is a number or 'none'", param_hint="--quota")
    return int(text)


def prices(texts: Iterable[str]) -> dict[str, Any]:
    """``tokens=0.25`` by dimension, or tiers as JSON."""
    return {name: _price(name, text) for name, text in _pairs(texts, "--price", "tokens=0.25").items()}


def _price(name: str, text: str) -> Any:
    if not text.startswith("{"):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"the tiers of {name} are not JSON: {error}", param_hint="--price") from error


def _pairs(texts: Iterable[str], option: str, example: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, is_pair, value = text.partition("=")
        if not (name and is_pair and value):
            raise typer.BadParameter(f"a dimension and a value, such as {example}", param_hint=option)
        if name in found:
            raise typer.BadParameter(f"{name} is given twice", param_hint=option)
        found[name] = value
    return found


def instant(text: str | None) -> str | None:
    """A time with its zone, as it is typed."""
    if text is not None and parsed(text) is None:
        raise typer.BadParameter(fault(text, "a time is as in RFC 3339, with its zone: 2026-11-01T00:00:00Z"))
    return text
