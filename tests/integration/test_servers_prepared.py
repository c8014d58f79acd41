"""Servers' folders are prepared by programs of theirs: one that hangs or fails is one line to an operator."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from compose import limits
from compose.stack.errors import StackError
from compose.stack.kafka import Kafka
from compose.stack.postgres import Postgres
from compose.stack.prepared import prepare_by
from tests.eventually import patient

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.servers
_LINE_MAX = 300


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (lambda folder: Kafka(folder / "kafka", 1, 2, "p"), "Kafka cannot format"),
        (lambda folder: Postgres(folder / "postgres", 1, "p"), "Postgres cannot create"),
    ],
    ids=["kafka", "postgres"],
)
def test_a_preparation_that_is_too_slow_is_a_sentence_and_the_next_one_begins_anew(
    server: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the command line of Java, a page of jars; and the password of the database's owner lies nowhere."""
    with monkeypatch.context() as hurried:
        hurried.setattr(limits, "SERVER_START_TIMEOUT_S", 0.001)
        with pytest.raises(StackError, match=f"^{said} .*: it took longer than 0.001 s; start again") as told:
            server(tmp_path).prepare()
    assert len(str(told.value)) - len(str(tmp_path)) < _LINE_MAX
    assert not list(tmp_path.glob("*.password"))
    monkeypatch.setattr(limits, "SERVER_START_TIMEOUT_S", patient(60))
    server(tmp_path).prepare()
    server(tmp_path).prepare()  # what is prepared stays as it is


def test_what_a_program_says_last_is_why_it_failed() -> None:
    for script, said in (
        ("import sys; print('a'); print('no room', file=sys.stderr); sys.exit(1)", "It fails: no room"),
        ("import sys; sys.exit(7)", "It fails: exit status 7"),
    ):
        with pytest.raises(StackError) as told:
            prepare_by([sys.executable, "-c", script], "It fails")
        assert str(told.value) == said
