"""Documents name commands and options that exist."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import click
import typer.main

from compose.cli import app
from tests.tidy import tree

if TYPE_CHECKING:
    from collections.abc import Iterator


@cache
def root() -> Any:
    """All commands, as a shell calls them."""
    return typer.main.get_command(app)


@cache
def command_of(*path: str) -> Any:
    """The command of these names, or None; each is built anew whenever its group is asked for it."""
    group = command_of(*path[:-1]) if path else None
    return group.get_command(click.Context(root()), path[-1]) if path else root()


def named_in(text: str) -> Iterator[list[str]]:
    """The words behind each ``millrace`` in blocks and between backticks."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    inline = re.findall(r"`(millrace [^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    for line in [line for block in blocks for line in block.splitlines()] + inline:
        for words in re.findall(r"\bmillrace ([^#|)`;]*)", line):
            yield re.sub(r"[\[\],]", " ", words).split()


def unknown_of(words: list[str]) -> list[str]:
    """What no command of that name knows: a command of a group, an option."""
    path, left = [], list(words)
    while hasattr(command_of(*path), "get_command") and left and re.fullmatch(r"[a-z][a-z-]*", left[0]):
        path.append(left.pop(0))
    command = command_of(*path)
    if command is None:
        return path[-1:]
    options = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help"}
    given = (word.partition("=")[0] for word in left if re.match(r"--?[a-z]", word))
    return [option for option in given if option not in options]


def test_documents_name_commands_and_options_that_exist() -> None:
    """At every depth, and options of their own command; not of the changelog, which tells of what was, too."""
    documents = [file for file in tree.files(".md") if file != "CHANGELOG.md"]
    said = [(file, words) for file in documents for words in named_in(tree.text(file))]
    assert len(said) > 150
    unknown = [(file, " ".join(words), found) for file, words in said if (found := unknown_of(words))]
    assert unknown == []
    assert unknown_of(["tenants", "made", "x"]) == ["made"]
    assert unknown_of(["tenants", "move", "tn_1", "--too", "dedicated"]) == ["--too"]
