"""Forms as Stripe's clients write them: ``metadata[a]=1``, ``payment_method_types[0]=card``, ``expand[]=x``."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import parse_qsl

from compose.stripe_simulator.problems import Refused

_NAME: Final = re.compile(r"([A-Za-z0-9_.~-]+)((?:\[[^\[\]]*\])*)\Z")
_FIELDS_MAX: Final = 500


def form_read(text: str) -> dict[str, Any]:
    """The nested fields; every list is a list in its order. Raises Refused."""
    form: dict[str, Any] = {}
    try:
        fields = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=_FIELDS_MAX)
    except ValueError as error:
        raise Refused("parameter_unknown", "The form cannot be read.") from error
    for name, value in fields:
        found = _NAME.match(name)
        if found is None:
            raise Refused("parameter_unknown", f"Received unknown parameter: {name}")
        path = [found[1], *re.findall(r"\[([^\[\]]*)\]", found[2])]
        _put(form, path, value)
    return {name: _as_lists(value) for name, value in form.items()}


def _put(form: dict[str, Any], path: list[str], value: str) -> None:
    here = form
    for name in path[:-1]:
        here = here.setdefault(name or str(len(here)), {})
        if not isinstance(here, dict):
            raise Refused("parameter_unknown", f"Received twice: {path[0]}")
    here[path[-1] or str(len(here))] = value


def _as_lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value and all(name.isdecimal() for name in value):
        return [_as_lists(value[name]) for name in sorted(value, key=int)]
    return {name: _as_lists(part) for name, part in value.items()}


def amount_of(form: dict[str, Any], name: str, otherwise: int | None = None) -> int:
    """A positive amount in Stripe's unit. Raises Refused."""
    text = form.get(name)
    if text is None and otherwise is not None:
        return otherwise
    if not isinstance(text, str) or not text.isdecimal() or not 0 < int(text) < 10**8:
        raise Refused("parameter_invalid_integer", f"Invalid {name}")
    return int(text)


def text_of(form: dict[str, Any], name: str) -> str:
    """A text that must be there. Raises Refused."""
    text = form.get(name)
    if not isinstance(text, str) or not text:
        raise Refused("parameter_missing", f"Missing required param: {name}.")
    return text
