"""``millrace tenants``: what is typed and what is shown, without any server."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import shlex
import time
from contextlib import redirect_stdout
from typing import Any, get_args

import httpx
import pytest
import typer
from typer.testing import CliRunner

from compose import limits
from compose.cli import decisions, tenants
from compose.cli.tenants import bills, calls, directory, given, life, refused, root_keys, shown, stores, usage, watching
from compose.stack.errors import StackError
from dataflows.tenancy.domain.migration import ABORTABLE, TO_SOURCE
from ingress.tenancy.usage import sums as asked_usage
from schemas.tenancy import limits as tenancy_limits
from schemas.tenancy import value_types
from tests.each import each

GROUP = typer.main.get_command(tenants.app)
OF_THIS_HOME = tuple(one for part in (directory, refused, stores, root_keys) for one in part.app.registered_commands)
READ_HERE = {command.name or command.callback.__name__ for command in OF_THIS_HOME}  # type: ignore[union-attr]
CALLS = sorted(set(GROUP.commands) - {name.rstrip("_") for name in READ_HERE})  # type: ignore[attr-defined]
MOVE = {
    "migration_id": "mg_" + "a" * 26,
    "state": "copying",
    "from_generation": 1,
    "to_generation": None,
    "fenced": False,
    "rows_copied": 12_345,
    "resources": 20_000,
    "rows_verified": 0,
    "mismatches": 0,
    "source_digest": None,
    "target_digest": None,
    "reason": None,
}
DIGEST = "0123456789abcdef"


@each("name", CALLS)
def test_every_command_of_the_api_has_json_a_token_and_an_example_that_is_understood(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLRACE_TOKEN", "t")
    command = GROUP.commands[name]  # type: ignore[attr-defined]
    options = {option for parameter in command.params for option in parameter.opts}
    assert {"--json", "--token"} <= options
    _, is_there, example = (command.help or "").partition("Example: ")
    millrace, group, called, *words = shlex.split(example)
    assert (is_there, millrace, group, called) == ("Example: ", "millrace", "tenants", name)
    command.make_context(name, words)


def test_words_to_choose_from_are_those_of_the_api() -> None:
    assert get_args(life.Mode) == value_types.MODES
    assert get_args(life.Tier) == value_types.TIERS
    assert get_args(usage.Window) == asked_usage.WINDOWS
    assert get_args(usage.Group) == asked_usage.GROUPS
    assert get_args(usage.Aggregation) == asked_usage.AGGREGATIONS


@each(
    ("words", "said"),
    [
        (("resume", "tn_1"), "--token"),
        (("resume", "tn 1", "--token", "t"), "an id is"),
        (("resume", "tn_1/keys/shred", "--token", "t"), "an id is"),
        (("where", "tn 1"), "an id is"),
        (("show", ""), "an id is"),
        (("suspend", "tn_1", "--reason", "r", "--token", "t"), "--mode"),
        (("suspend", "tn_1", "--reason", "r", "--mode", "gone", "--token", "t"), "blocked"),
        (("create", "A", "--quota", "resources", "--token", "t"), "a dimension and a value"),
        (("create", "A", "--quota", "resources=-1", "--token", "t"), "a number or 'none'"),
        (("create", "A", "--price", "tokens={", "--token", "t"), "not JSON"),
        (("create", "A", "--price", "a=1", "--price", "a=2", "--token", "t"), "given twice"),
        (("change", "tn_1", "--token", "t"), "what shall change"),
        (("create", "A", "--idempotency-key", "", "--token", "t"), "must not be empty"),
        (("move", "tn_1", "--token", "t"), "--to"),
        (("move", "tn_1", "--to", "dedicated", "--rows-per-second", "0", "--token", "t"), "--rows-per-second"),
        (("bill", "tn_1", "--from", "2026-10-01", "--to", "2026-11-01T00:00:00Z", "--token", "t"), "with its zone"),
        (("invoice", "in_1", "--recompute", "--token", "t"), "go with --document"),
        (("grant-ask", "tn_1", "--reason", "r", "--ticket", "T", "--duration-s", "4", "--token", "t"), "--duration-s"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(words: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(tenants.app, words, env={"MILLRACE_TOKEN": "", "COLUMNS": "200"})
    assert (done.exit_code, said in done.output) == (2, True), done.output


def test_quotas_and_prices_are_as_the_api_takes_them() -> None:
    assert given.quotas(["resources=10", "tokens=none"]) == {"resources": 10, "tokens": None}
    tiers = {"mode": "graduated", "tiers": [{"up_to": None, "unit_price": "0.2"}]}
    found = given.prices(["calls=0.25", f"tokens={json.dumps(tiers)}"])
    assert found == {"calls": "0.25", "tokens": tiers}
    assert value_types.prices(found) is None


def test_a_table_fits_and_cuts_its_last_column_alone() -> None:
    id_ = "sg_" + "a" * 26
    row = {"id": id_, "at": "2026-11-01T10:20:30.5Z", "n": 1_234, "ok": True, "who": "s_" + "b" * 90}
    lines = shown.table([row, row | {"n": 5, "ok": None, "who": "x\x1b[2J"}], ("id", "at", "n", "ok", "who"))
    assert max(map(len, lines)) == shown.WIDTH
    assert all(line.startswith(id_) for line in lines[1:])
    assert lines[1].split()[1:5] == ["2026-11-01", "10:20", "1,234", "yes"]
    assert lines[2].split()[3:] == ["5", "-", "x\ufffd[2J"]


def test_facts_fit_and_lose_nothing() -> None:
    said = "word " * 40
    document = {"tenant_id": "tn_1", "reason": said, "placement": {"mode": "pooled", "generation": 1}, "quotas": {}}
    lines = shown.facts(document)
    assert max(map(len, lines)) <= shown.WIDTH
    assert " ".join(" ".join(lines).split()).count("word") == 40
    assert [line.split()[0] for line in lines if line[0] != " "] == [
        *("tenant_id", "reason", "placement.mode", "placement.generation", "quotas")
    ]


def test_the_line_of_a_move_fits_and_tells_what_differs() -> None:
    most = MOVE | {"rows_verified": 20_000, "state": "catching_up"}
    assert watching.line(most) == "catching_up  12,345/20,000 copied  20,000 equal  0 not"
    compared = MOVE | {
        "rows_verified": 20_000,
        "source_digest": DIGEST,
        "target_digest": DIGEST,
        "fenced": True,
        "state": "fencing",
    }
    assert watching.line(compared) == ("fencing      fenced  12,345/20,000 copied  20,000 equal  0 not  012345=012345")
    assert "012345/fedcba" in watching.line(compared | {"target_digest": DIGEST[::-1]})
    huge = dict.fromkeys(("rows_copied", "resources", "rows_verified", "mismatches"), 10**12)
    assert len(watching.line(compared | huge)) < shown.WIDTH


@pytest.mark.parametrize(
    ("states", "ends", "is_well"),
    [
        (("planned", "copying", "fencing", "committed", "soaking"), "move", True),
        (("soaking", "completed"), "complete", True),
        (("copying", "aborting", "aborted"), "move", False),
        (("aborting", "aborted"), "abort", True),
        (("rolling_back", "rolled_back"), "rollback", True),
        (("rolling_back", "soaking"), "rollback", False),
        (("rolling_back", "rolled_back"), "move", False),
    ],
)
def test_a_move_is_followed_to_its_end(
    states: tuple[str, ...],
    ends: str,
    is_well: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One line for each change where there is no terminal; the answer says whether it ended well."""
    monkeypatch.setattr(limits, "TENANT_WATCH_S", 0)
    looks = itertools.chain.from_iterable((MOVE | {"state": state},) * 3 for state in states)
    assert watching.follow(lambda: next(looks), ends, watching.Pause(), as_json=False) is is_well
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[: len(states)]] == list(states)
    assert lines[len(states)] == f"{MOVE['migration_id']} is {states[-1]}"


def test_a_move_that_is_over_at_the_first_look_tells_how_long_writes_waited(capsys: pytest.CaptureFixture[str]) -> None:
    """No longer than since it was asked for: the answer then is the last look at which writes were taken."""
    over = MOVE | {"state": "soaking", "to_generation": MOVE["from_generation"] + 1}
    pause, now = watching.Pause(), time.monotonic()
    pause.look(MOVE, now - 7, now)
    assert watching.follow(lambda: over, "move", pause, as_json=False)
    told = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("writes waited"))
    assert float(told.split()[2]) >= 7


def test_every_end_of_a_move_ends_the_watching() -> None:
    over = {"completed", "aborted", "rolled_back"}
    for ends, (well, badly) in watching.ENDS.items():
        assert over <= well | badly, ends
        assert not well & badly
        assert not (ABORTABLE | TO_SOURCE - {"soaking"}) & (well | badly)


def test_a_terminal_has_one_line_that_is_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TENANT_WATCH_S", 0)
    monkeypatch.setenv("COLUMNS", "40")
    looks = iter([MOVE, MOVE, MOVE | {"state": "soaking", "source_digest": DIGEST, "target_digest": DIGEST}])
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    with redirect_stdout(terminal):
        assert watching.follow(lambda: next(looks), "move", watching.Pause(), as_json=False)
    rewritten, *rest = terminal.getvalue().split("\n")
    assert [len(line) for line in rewritten.split("\r\x1b[K")] == [0, 39, 39]
    assert rest[1:3] == [f"digests  source {DIGEST}", f"         target {DIGEST}"]
    assert not any("compared again" in line for line in rest)


def test_sums_that_differ_because_writes_went_on_are_explained() -> None:
    """They are of the last whole comparison; a move whose sides differ in the end is given up."""
    moved = MOVE | {"state": "soaking", "source_digest": DIGEST, "target_digest": DIGEST[::-1]}
    assert any("writes went on" in line for line in watching.last_lines(moved, None))


def test_a_script_has_one_document_for_each_change(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(limits, "TENANT_WATCH_S", 0)
    looks = [MOVE, MOVE | {"updated_at": "later"}, MOVE | {"rows_copied": 20_000}, MOVE | {"state": "aborted"}]
    asked = iter(looks)
    assert not watching.follow(lambda: next(asked), "move", watching.Pause(), as_json=True)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [looks[0], *looks[2:]]


def test_a_pause_is_bounded_by_the_looks_around_it() -> None:
    pause = watching.Pause()
    for at, change in enumerate(
        ({}, {}, {"fenced": True}, {"fenced": True}, {"to_generation": 2, "state": "committed"}, {"to_generation": 2})
    ):
        pause.look(MOVE | change, at, at + 0.25)
    assert pause.longest_s == 4.25 - 1
    unseen = watching.Pause()  # the fence was up and down between two looks
    unseen.look(MOVE, 1, 1.25)
    unseen.look(MOVE | {"to_generation": 2}, 2, 2.25)
    assert unseen.longest_s == 1.25
    late = watching.Pause()  # who came afterwards knows nothing of it
    late.look(MOVE | {"to_generation": 2}, 1, 1.25)
    assert late.longest_s is None


def answered(monkeypatch: pytest.MonkeyPatch, *answers: httpx.Response | httpx.HTTPError) -> list[dict[str, Any]]:
    """What is asked from now on, of an API that answers so, and the last one always."""
    asked: list[dict[str, Any]] = []

    def request(method: str, url: str, **named: Any) -> httpx.Response:
        answer = answers[min(len(asked), len(answers) - 1)]
        asked.append({"method": method, "url": url} | named)
        if isinstance(answer, httpx.HTTPError):
            raise answer
        answer.request = httpx.Request(method, url)
        return answer

    class Stack:
        base_url = "http://127.0.0.1:1"

        def addresses(self) -> Stack:
            return self

    monkeypatch.setattr(decisions, "load_settings", Stack)
    monkeypatch.setattr(httpx, "request", request)
    return asked


@pytest.mark.parametrize(
    "answer",
    [
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("late"),
        httpx.Response(202, json={"request_id": "req_1", "status": "pending"}),
        httpx.Response(503, json={"code": "unavailable", "detail": "Later."}),
        httpx.Response(502, text="<html>"),
    ],
    ids=["refused", "late", "pending", "unavailable", "a proxy"],
)
def test_who_is_not_told_whether_it_is_done_is_told_how_to_repeat_it(
    answer: httpx.Response | httpx.HTTPError, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = answered(monkeypatch, answer)
    with pytest.raises(StackError) as told:
        calls.command("t", "tenants", {"name": "A"}, makes=True)
    key = asked[0]["headers"]["Idempotency-Key"]
    assert f"send it again with --idempotency-key {key}" in str(told.value)
    assert "\n" not in str(told.value)
    assert capsys.readouterr() == ("", f"idempotency key {key}\n")
    with pytest.raises(StackError, match="--idempotency-key mine"):
        calls.command("t", "tenants", {"name": "A"}, "mine", makes=True)
    assert capsys.readouterr().err == ""


def test_a_refusal_is_in_the_words_of_the_api_and_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"code": "invalid_command", "detail": "See errors.", "errors": [{"field": "payload.tier", "reason": "no"}]}
    asked = answered(monkeypatch, httpx.Response(422, json=wrong))
    with pytest.raises(StackError, match=r"^invalid_command: See errors\.; payload\.tier no$"):
        calls.patiently(lambda: calls.read("t", "tenants/tn_1"))
    assert len(asked) == 1


def test_what_is_no_answer_of_the_api_is_one_line_too(monkeypatch: pytest.MonkeyPatch) -> None:
    answered(monkeypatch, httpx.Response(404, json=["something", "else"]))
    with pytest.raises(StackError, match=r"^what answers is not the API: "):
        calls.read("t", "tenants/tn_1")


def test_who_watches_asks_again_while_nobody_answers_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TENANT_WATCH_S", 0)
    away = (httpx.ConnectError("refused"), httpx.Response(503, json={"code": "unavailable", "detail": "Later."}))
    asked = answered(monkeypatch, *away, httpx.Response(200, json={"state": "active"}))
    assert calls.patiently(lambda: calls.read("t", "tenants/tn_1")) == {"state": "active"}
    assert len(asked) == 3
    monkeypatch.setattr(limits, "API_SILENCE_MAX_S", 0)
    answered(monkeypatch, *away)
    with pytest.raises(StackError, match="does not answer"):
        calls.patiently(lambda: calls.read("t", "tenants/tn_1"))


def test_what_does_not_happen_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TENANT_WATCH_S", 0)
    monkeypatch.setattr(limits, "TENANT_WAIT_S", 0)
    answered(monkeypatch, httpx.Response(200, json={"state": "deleting"}))
    with pytest.raises(StackError, match=r"^tn_1 is still deleting; it goes on by itself"):
        calls.becomes(lambda: calls.read("t", "tenants/tn_1"), lambda found: found["state"] == "deleted", "tn_1")


def test_an_export_that_is_not_what_was_exported_is_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    content, file = b'{"resource_id":"rs_1"}\n', tmp_path / "export.ndjson"
    ready = {"export_id": "ex_1", "state": "ready", "resources": 1, "sha256": hashlib.sha256(content).hexdigest()}
    words = ("export", "tn_1", "--output", str(file), "--token", "t")
    answers = [httpx.Response(201, json={"result": ready}), httpx.Response(200, json=ready)]
    answered(monkeypatch, *answers, httpx.Response(200, content=content[:-1]))
    with pytest.raises(StackError, match="is not what was exported"):
        CliRunner().invoke(tenants.app, words, catch_exceptions=False)
    assert not file.exists()
    answered(monkeypatch, *answers, httpx.Response(200, content=content))
    assert CliRunner().invoke(tenants.app, words, catch_exceptions=False).exit_code == 0
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (content, 0o600)


@pytest.mark.parametrize(("key", "is_told"), [((), True), (("--idempotency-key", "mine"), False)])
def test_an_answer_that_may_be_of_long_ago_bounds_no_wait(
    key: tuple[str, ...], is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that is sent again hears what it heard then, when the writes of its move had not waited yet."""
    said = {name: value for name, value in MOVE.items() if name != "fenced"} | {"tenant_id": "tn_1"}
    over = MOVE | {"state": "soaking", "to_generation": 2}
    answered(
        monkeypatch, httpx.Response(201, json={"status": "committed", "result": said}), httpx.Response(200, json=over)
    )
    words = ("move", "tn_1", "--to", "dedicated", "--watch", *key)
    done = CliRunner().invoke(tenants.app, words, env={"MILLRACE_TOKEN": "t"}, catch_exceptions=False)
    assert (done.exit_code, "writes waited" in done.stdout) == (0, is_told)


@pytest.mark.parametrize("token", ["secret\n", "secret t", "secr\u00e9t", "secret\x00"])
def test_what_is_no_token_is_not_repeated(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answered(monkeypatch, httpx.Response(200, json={}))
    with pytest.raises(StackError, match="no token") as told:
        calls.read(token, "tenants")
    assert "secr" not in str(told.value)
    assert asked == []


def test_a_document_is_written_as_it_came(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    content = b'{"invoice_id":"in_1"}\n\xc3\xa9'
    later = httpx.Response(202, json={"state": "running"})
    asked = answered(monkeypatch, later, later, httpx.Response(200, content=content))
    monkeypatch.setattr(tenancy_limits, "INVOICE_AGAIN_ASK_S", 0)
    words = ("invoice", "in_1", "--document", "--recompute", "--token", "t")
    assert CliRunner().invoke(tenants.app, words).stdout_bytes == content
    assert CliRunner().invoke(tenants.app, (*words, "-o", str(tmp_path / "i.json"))).stdout_bytes == b""
    assert (tmp_path / "i.json").read_bytes() == content
    assert asked[0]["params"] == {"recompute": "true"}


def test_a_correction_is_told_with_its_price_and_what_it_comes_to() -> None:
    entry = {"dimension": "tokens", "quantity": -1_500, "unit_price": "0.25", "amount": -375}
    assert bills.corrected(entry) == "-1,500 tokens at 0.25: -375"
    del entry["amount"]  # as an earlier release stored it
    assert bills.corrected(entry) == "-1,500 tokens at 0.25"
