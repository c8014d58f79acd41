"""What is wrong with a setting, in one line that names its variable and never shows its value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compose.settings.unknown_variables import PREFIX

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_settings import SettingsError


def wrong_value(error: ValidationError) -> str:
    """The first of what is wrong; within a JSON object under its key."""
    first = error.errors(include_url=False, include_input=False)[0]
    reason = first["msg"].removeprefix("Value error, ")
    if not first["loc"]:  # of several together
        return reason
    name, *within = map(str, first["loc"])
    return f"{PREFIX}{name.upper()} is wrong: {': '.join((*within, reason))}"


def no_json(error: SettingsError) -> str:
    """Of a setting whose text cannot be parsed; the library says in words which."""
    name = str(error).partition('field "')[2].partition('"')[0]
    return f"{PREFIX}{name.upper()} is wrong: give a JSON object"
