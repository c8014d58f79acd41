"""Every command says what it is for, and shows no option that does nothing for it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from compose.cli import COMMANDS, app, main
from compose.stack.errors import StackError
from ingress import openapi
from ingress.identity.issuer import KNOWN_SCOPES, SCOPES_DEFAULT
from ingress.identity.roles import STAFF
from schemas import services
from tests.each import each

if TYPE_CHECKING:
    from pathlib import Path


@each("name", COMMANDS)
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
