"""Every command says what it is for, and shows no option that does nothing for it."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from compose.cli import COMMANDS, app


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_the_command_is_for(name: str) -> None:
    shown = CliRunner().invoke(app, [name, "--help"])
    assert shown.exit_code == 0, shown.output
    usage, said, *_ = [text for text in map(str.strip, shown.output.splitlines()) if text]
    assert usage.startswith("Usage: ")
    assert said[0].isupper()  # a sentence, before any box
    assert "completion" not in shown.output


def test_the_list_has_every_command() -> None:
    listed = CliRunner().invoke(app, ["--help"]).output
    assert [name for name in COMMANDS if f" {name} " not in listed] == []


def test_the_version_is_told() -> None:
    told = CliRunner().invoke(app, ["--version"])
    assert (told.exit_code, told.output.split()[0]) == (0, "millrace")
