"""Every command says what it is for, and shows no option that does nothing for it."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from compose.cli import COMMANDS, app
from compose.stack.errors import StackError
from ingress import openapi
from ingress.identity.issuer import KNOWN_SCOPES, SCOPES_DEFAULT
from ingress.identity.roles import STAFF


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
