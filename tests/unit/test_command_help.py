"""Every command says what it is for, and shows no option that does nothing for it."""

from __future__ import annotations

import re
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import click
import pytest
import typer.main
from typer.testing import CliRunner

from compose.cli import COMMANDS, app, main
from compose.stack.errors import StackError
from ingress import openapi
from ingress.identity.issuer import KNOWN_SCOPES, SCOPES_DEFAULT
from ingress.identity.roles import STAFF
from schemas import services
from tests.tidy import tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@cache
def root() -> Any:
    """All commands, as a shell calls them."""
    return typer.main.get_command(app)


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


def test_shells_are_told_what_may_come_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands, those of a command, and options."""
    assert "--install-completion" in CliRunner().invoke(app, ["--help"]).output
    for words, wanted in (
        ("millrace che", {"check", "checkpoints"}),
        ("millrace tenants sus", {"suspend"}),
        ("millrace token --mer", {"--merchant"}),
    ):
        asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), "_MILLRACE_COMPLETE": "complete_bash"}
        told = CliRunner().invoke(app, [], env=asked, prog_name="millrace")
        assert set(told.output.split()) == wanted


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["--merchant", "m_1", "--scope", "payment:read"], "did you mean payments:read?"),
        (["--merchant", "m_1", "--scope", "payments:read payouts:wirte"], "did you mean payouts:write?"),
        (["--staff", "ann", "--scope", "operators"], "did you mean operator?"),
        (["--user", "u_1", "--scope", "qqqq"], "There are "),
    ],
)
def test_a_scope_that_nothing_needs_is_no_scope(words: list[str], meant: str) -> None:
    """A token with it would be refused at the first call, and not say why."""
    refused = CliRunner().invoke(app, ["token", *words])
    assert isinstance(refused.exception, StackError)
    assert meant in str(refused.exception)
    assert all(scope in str(refused.exception) for scope in SCOPES_DEFAULT)


def test_every_scope_that_a_call_needs_is_known() -> None:
    calls = [call for path in openapi.document()["paths"].values() for call in path.values()]
    needed = {scope for call in calls for way in call.get("security", ()) for scope in way.get("bearer", ())}
    assert needed | STAFF == KNOWN_SCOPES


def test_the_version_is_told() -> None:
    told = CliRunner().invoke(app, ["--version"])
    assert (told.exit_code, told.output.split()[0]) == (0, "millrace")


@pytest.mark.parametrize("command", ["up", "down", "status", "token --merchant m_1"])
def test_a_home_that_is_none_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(sys, "argv", ["millrace", *command.split()])
    monkeypatch.setattr("compose.cli.configure_logs", lambda *_: None)  # of all tests of this process
    with pytest.raises(SystemExit, match=rf"^millrace: {tmp_path}/file.*: (Not a directory|File exists)$"):
        main()


def test_logs_of_a_home_in_which_nothing_ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    refused = CliRunner().invoke(app, ["logs"])
    assert isinstance(refused.exception, StackError)
    assert "yet: run 'millrace up'" in str(refused.exception)


@pytest.mark.parametrize("module", ["nowhere.service", "schemas.errors"])
def test_a_module_without_a_service_ends_a_process_with_a_line(module: str) -> None:
    with pytest.raises(SystemExit, match=f"MILLRACE_SERVICE_MODULES: {module} gives no service: "):
        services.further(module)


def named_in(text: str) -> Iterator[list[str]]:
    """The words behind each ``millrace`` in blocks and between backticks."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    inline = re.findall(r"`(millrace [^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    for line in [line for block in blocks for line in block.splitlines()] + inline:
        for words in re.findall(r"\bmillrace ([^#|)`;]*)", line):
            yield re.sub(r"[\[\],]", " ", words).split()


def unknown_of(words: list[str]) -> list[str]:
    """What no command of that name knows: a command of a group, an option."""
    command, context, left = root(), click.Context(root()), list(words)
    while hasattr(command, "get_command") and left and re.fullmatch(r"[a-z][a-z-]*", left[0]):
        found = command.get_command(context, left[0])
        if found is None:
            return [left[0]]
        command, left = found, left[1:]
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
