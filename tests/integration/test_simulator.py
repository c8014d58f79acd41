"""The processor simulator as a caller meets it: a real process, real sockets, kill -9 and a restart included."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest

from schemas import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HOLD_MS: Final = 1_000
START_WITHIN_S: Final = 15
STOP_SLACK_S: Final = 5
ANSWER_WITHIN_S: Final = 10
POLL_INTERVAL_S: Final = 0.02
UNREADABLE: Final = "unreadable"

_numbers = itertools.count(1)


def eventually(condition: Callable[[], bool], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not true within {within_s} s"
        threading.Event().wait(POLL_INTERVAL_S)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def command(folder: Path, port: int, hold_ms: int = HOLD_MS) -> list[str]:
    program = [sys.executable, "-m", "compose.simulator"]
    return [*program, "--folder", str(folder), "--port", str(port), "--hold-ms", str(hold_ms)]


class Simulator:
    """One simulator process, its client, and the card processor's words for short."""

    def __init__(self, folder: Path, port: int, hold_ms: int) -> None:
        self.folder, self.port = folder, port
        self._command = command(folder, port, hold_ms)
        self.client = httpx.Client(
            base_url=f"http://127.0.0.1:{port}", timeout=ANSWER_WITHIN_S, limits=httpx.Limits(max_connections=64)
        )
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(self._command)
        eventually(lambda: process.poll() is not None or self.is_ready(), START_WITHIN_S)
        assert process.poll() is None, "the simulator ended at its start"
        return process

    def is_ready(self) -> bool:
        try:
            return self.client.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def kill_and_restart(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process = self._start()

    def stop(self) -> int:
        self.process.terminate()
        try:
            return self.process.wait(timeout=limits.SIMULATOR_DRAIN_TIMEOUT_S + STOP_SLACK_S)
        finally:
            self.process.kill()
            self.process.wait()
            self.client.close()

    def post(self, key: str, kind: str = "purchase", amount: int = 100, **changes: Any) -> httpx.Response:
        body = {"kind": kind, "reference": "pi_1", "amount": amount, "currency": "USD"} | changes
        if kind in {"authorize", "purchase"}:
            body.setdefault("token", "tok_sim_approve")
        return self.client.post("/v1/operations", json=body, headers={"Idempotency-Key": key})

    def query(self, key: str) -> httpx.Response:
        return self.client.get(f"/v1/operations/{key}")

    def book(self, *keys: str) -> dict[str, dict[str, int]]:
        """Section to operation to amount, of the given operations only; one entry for each or the test fails."""
        content = self.client.get("/book").json()
        sections = {
            section: [(entry["operation_id"], entry["amount"]) for entry in entries]
            for section, entries in content.items()
        }
        for entries in sections.values():
            assert len(dict(entries)) == len(entries), "an operation stands twice in the book"
        return {
            section: {key: amount for key, amount in entries if key in keys} for section, entries in sections.items()
        }


@contextmanager
def running(folder: Path, hold_ms: int = HOLD_MS) -> Iterator[Simulator]:
    simulator = Simulator(folder, free_port(), hold_ms)
    try:
        yield simulator
    finally:
        simulator.stop()


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    with running(tmp_path_factory.mktemp("simulator")) as started:
        yield started


@pytest.fixture
def key() -> str:
    return f"op_{next(_numbers)}"


def content_of(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return UNREADABLE


# --- cards -----------------------------------------------------------------------------------------------


def test_approve_books_and_answers_in_full(simulator: Simulator, key: str) -> None:
    response = simulator.post(key, amount=1_099)
    assert response.status_code == 200
    assert "idempotency-replayed" not in response.headers
    answer = response.json()
    assert answer.pop("provider_ref").startswith("sim_")
    assert answer == {
        "operation_id": key,
        "kind": "purchase",
        "status": "captured",
        "reference": "pi_1",
        "amount": 1_099,
        "currency": "USD",
        "decline_code": None,
    }
    assert simulator.book(key) == {"captured": {key: 1_099}, "authorized": {}, "voided": {}}


@pytest.mark.parametrize(("token", "code"), [("tok_sim_decline", "insufficient_funds"), ("tok_none", "invalid_token")])
@pytest.mark.parametrize("kind", ["purchase", "authorize"])
def test_a_decline_is_an_outcome_and_moves_nothing(
    simulator: Simulator, key: str, kind: str, token: str, code: str
) -> None:
    answer = simulator.post(key, kind, token=token).json()
    assert (answer["status"], answer["decline_code"]) == ("declined", code)
    assert simulator.query(key).json() == simulator.post(key, kind, token=token).json() == answer
    assert simulator.book(key) == {"captured": {}, "authorized": {}, "voided": {}}


def test_slow_books_at_once_and_answers_late(simulator: Simulator, key: str) -> None:
    """A query during the delay already tells the truth: a 404 then would be a lie."""
    started = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(simulator.post, key, token="tok_sim_slow")
        eventually(lambda: simulator.query(key).status_code == 200, within_s=1.5)
        assert not answer.done()
        assert answer.result().json() == simulator.query(key).json()
    assert time.monotonic() - started >= limits.SIMULATOR_SLOW_ANSWER_MS / 1_000


def test_timeout_after_commit_breaks_without_a_byte(simulator: Simulator, key: str) -> None:
    """The first answer is lost in a bounded time, the effect is there, and the retry hears it at once."""
    started = time.monotonic()
    with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
        simulator.post(key, token="tok_sim_timeout_after_commit")
    assert time.monotonic() - started >= HOLD_MS / 1_000
    retried = simulator.post(key, token="tok_sim_timeout_after_commit")
    assert retried.headers["idempotency-replayed"] == "true"
    assert retried.json()["status"] == "captured"
    assert simulator.book(key)["captured"] == {key: 100}


def test_timeout_after_commit_is_found_while_the_first_send_hangs(simulator: Simulator, key: str) -> None:
    with pytest.raises(httpx.ReadTimeout):
        simulator.client.post(
            "/v1/operations",
            json={
                "kind": "purchase",
                "reference": "pi_1",
                "amount": 7,
                "currency": "USD",
                "token": "tok_sim_timeout_after_commit",
            },
            headers={"Idempotency-Key": key},
            timeout=0.2,
        )
    assert simulator.query(key).json()["amount"] == 7


def test_error_before_commit_leaves_nothing_then_succeeds(simulator: Simulator, key: str) -> None:
    assert simulator.post(key, token="tok_sim_error_before_commit").status_code == 500
    assert simulator.query(key).status_code == 404
    assert simulator.book(key)["captured"] == {}
    assert simulator.post(key, amount=101).json()["code"] == "key_reused"
    assert simulator.post(key, token="tok_sim_error_before_commit").json()["status"] == "captured"
    assert simulator.book(key)["captured"] == {key: 100}


def test_error_after_commit_has_booked(simulator: Simulator, key: str) -> None:
    assert simulator.post(key, token="tok_sim_error_after_commit").status_code == 500
    assert simulator.book(key)["captured"] == {key: 100}
    assert simulator.query(key).json() == simulator.post(key, token="tok_sim_error_after_commit").json()
    assert simulator.book(key)["captured"] == {key: 100}


def test_wrong_amount_really_does_something_else(simulator: Simulator, key: str) -> None:
    """Answer and book agree with each other and not with the request: only an integrity check finds it."""
    assert simulator.post(key, token="tok_sim_wrong_amount").json()["amount"] == 101
    assert simulator.query(key).json()["amount"] == 101
    assert simulator.book(key)["captured"] == {key: 101}


def test_garbage_is_found_out_by_the_third_query(simulator: Simulator, key: str) -> None:
    posts = [content_of(simulator.post(key, token="tok_sim_garbage")) for _ in range(2)]
    queries = [content_of(simulator.query(key)) for _ in range(4)]
    assert posts == [UNREADABLE] * 2
    assert queries[:2] == [UNREADABLE] * 2
    assert queries[2] == queries[3]
    assert queries[3]["status"] == "captured"
    assert content_of(simulator.post(key, token="tok_sim_garbage")) == UNREADABLE
    assert simulator.book(key)["captured"] == {key: 100}


# --- identity --------------------------------------------------------------------------------------------


def test_the_same_identity_repeats_and_another_body_is_refused(simulator: Simulator, key: str) -> None:
    first = simulator.post(key)
    replay = simulator.post(key)
    assert (replay.status_code, replay.content) == (200, first.content)
    assert replay.headers["idempotency-replayed"] == "true"
    for change in ({"amount": 101}, {"currency": "EUR"}, {"reference": "pi_2"}, {"token": "tok_sim_slow"}):
        reused = simulator.post(key, **change)
        assert (reused.status_code, reused.json()["code"]) == (409, "key_reused")
    assert simulator.book(key)["captured"] == {key: 100}


@pytest.mark.parametrize("token", ["tok_sim_approve", "tok_sim_error_before_commit"])
def test_one_identity_from_fifty_threads_has_one_effect(simulator: Simulator, key: str, token: str) -> None:
    barrier = threading.Barrier(50)

    def send(_: int) -> httpx.Response:
        barrier.wait()
        return simulator.post(key, token=token)

    with ThreadPoolExecutor(50) as pool:
        responses = list(pool.map(send, range(50)))
    statuses = Counter(response.status_code for response in responses)
    assert statuses == ({200: 50} if token == "tok_sim_approve" else {200: 49, 500: 1})
    answers = {response.content for response in responses if response.status_code == 200}
    assert len(answers) == 1
    assert simulator.book(key)["captured"] == {key: 100}


# --- captures and voids ----------------------------------------------------------------------------------


def test_several_captures_then_a_void_share_out_the_hold(simulator: Simulator, key: str) -> None:
    parent = simulator.post(key, "authorize", 1_000).json()["provider_ref"]
    parts = {f"{key}_{number}": amount for number, amount in enumerate((300, 450, 1))}
    for part, amount in parts.items():
        assert simulator.post(part, "capture", amount, parent=parent, final=False).json()["status"] == "captured"
    too_much = simulator.post(f"{key}_more", "capture", 250, parent=parent).json()
    assert (too_much["status"], too_much["decline_code"]) == ("failed", "amount_exceeds_remainder")
    voided = simulator.post(f"{key}_void", "void", 249, parent=parent).json()
    assert (voided["status"], voided["amount"]) == ("voided", 249)
    again = simulator.post(f"{key}_void_again", "void", 249, parent=parent).json()
    assert (again["status"], again["decline_code"]) == ("failed", "authorization_closed")
    assert simulator.book(key, *parts, f"{key}_more", f"{key}_void", f"{key}_void_again") == {
        "captured": parts,
        "authorized": {key: 1_000},
        "voided": {f"{key}_void": 249},
    }


def test_a_final_capture_releases_the_rest_without_a_voided_entry(simulator: Simulator, key: str) -> None:
    parent = simulator.post(key, "authorize", 1_000).json()["provider_ref"]
    assert simulator.post(f"{key}_c", "capture", 400, parent=parent, final=True).json()["amount"] == 400
    for kind in ("capture", "void"):
        late = simulator.post(f"{key}_{kind}", kind, 1, parent=parent).json()
        assert (late["status"], late["decline_code"]) == ("failed", "authorization_closed")
    assert simulator.book(key, f"{key}_c", f"{key}_capture", f"{key}_void") == {
        "captured": {f"{key}_c": 400},
        "authorized": {key: 1_000},
        "voided": {},
    }


def test_captures_race_for_one_hold_and_never_pass_it(simulator: Simulator, key: str) -> None:
    """Twenty captures of 30 on a hold of 100: exactly three fit."""
    parent = simulator.post(key, "authorize", 100).json()["provider_ref"]
    keys = [f"{key}_{number}" for number in range(20)]
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda k: simulator.post(k, "capture", 30, parent=parent, final=False), keys))
    assert Counter(answer.json()["status"] for answer in answers) == {"captured": 3, "failed": 17}
    assert sum(simulator.book(*keys)["captured"].values()) == 90


def test_a_manual_capture_can_be_lost_too(simulator: Simulator, key: str) -> None:
    """A capture follows its authorization's card, with a fault of its own."""
    with pytest.raises(httpx.RemoteProtocolError):
        simulator.post(key, "authorize", token="tok_sim_timeout_after_commit")
    parent = simulator.query(key).json()["provider_ref"]
    with pytest.raises(httpx.RemoteProtocolError):
        simulator.post(f"{key}_c", "capture", parent=parent)
    assert simulator.post(f"{key}_c", "capture", parent=parent).json()["status"] == "captured"
    assert simulator.book(f"{key}_c")["captured"] == {f"{key}_c": 100}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"parent": "sim_none"}, "unknown_authorization"),
        ({"currency": "EUR"}, "currency_mismatch"),
        ({"reference": "pi_other"}, "reference_mismatch"),
    ],
)
def test_a_capture_of_something_else_fails(simulator: Simulator, key: str, changes: dict[str, str], code: str) -> None:
    parent = simulator.post(key, "authorize").json()["provider_ref"]
    answer = simulator.post(f"{key}_c", "capture", **({"parent": parent} | changes))
    assert (answer.status_code, answer.json()["status"], answer.json()["decline_code"]) == (200, "failed", code)
    assert simulator.query(f"{key}_c").json() == answer.json()
    assert simulator.book(f"{key}_c")["captured"] == {}


# --- bad input -------------------------------------------------------------------------------------------

GOOD: Final = {"kind": "purchase", "reference": "pi_1", "amount": 5, "currency": "USD", "token": "tok_sim_approve"}


@pytest.mark.parametrize(
    ("content", "headers", "status", "code"),
    [
        (b"", {}, 400, "malformed_request"),
        (b'{"kind": ', {}, 400, "malformed_request"),
        (b'{"kind": "\xff"}', {}, 400, "malformed_request"),
        (b"[" * 5_000, {}, 422, "invalid_operation"),
        (b"[]", {}, 422, "invalid_operation"),
        (json.dumps(GOOD).encode(), {"Idempotency-Key": ""}, 400, "idempotency_key_required"),
        (json.dumps(GOOD).encode(), {"Idempotency-Key": "a b"}, 400, "idempotency_key_required"),
        (json.dumps(GOOD).encode(), {"Idempotency-Key": "x" * 256}, 400, "idempotency_key_required"),
        (json.dumps(GOOD).encode(), {"Content-Type": "text/plain"}, 415, "unsupported_media_type"),
        (b" " * (limits.SIMULATOR_BODY_BYTES_MAX + 1), {}, 413, "too_large"),
        *(
            (json.dumps(GOOD | change).encode(), {}, 422, "invalid_operation")
            for change in (
                {"amount": 0},
                {"amount": -5},
                {"amount": 5.5},
                {"amount": 2**53},
                {"amount": "5"},
                {"amount": True},
                {"currency": "usd"},
                {"kind": "refund"},
                {"token": None},
                {"reference": ""},
                {"colour": "red"},
                {"kind": "capture"},
                {"kind": "void", "token": None},
            )
        ),
    ],
)
def test_bad_input_is_a_problem_and_changes_nothing(
    simulator: Simulator, key: str, *, content: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    before = simulator.client.get("/book").content
    sent_headers = {"Idempotency-Key": key, "Content-Type": "application/json"} | headers
    response = simulator.client.post("/v1/operations", content=content, headers=sent_headers)
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert (response.status_code, problem["status"], problem["code"]) == (status, status, code)
    assert {"type", "title", "detail"} <= problem.keys()
    assert simulator.client.get("/book").content == before
    assert simulator.query(key).status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/v1/operations/never_seen", 404, "not_found"),
        ("GET", "/v1/operations/%ff%00", 404, "not_found"),
        ("GET", "/v1/operations/" + "x" * 1_000, 404, "not_found"),
        ("DELETE", "/book", 405, "not_allowed"),
    ],
)
def test_what_is_not_there_is_a_problem(simulator: Simulator, method: str, path: str, status: int, code: str) -> None:
    response = simulator.client.request(method, path)
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert response.headers["content-type"] == "application/problem+json"


def test_health_readiness_and_metrics(simulator: Simulator, key: str) -> None:
    assert simulator.client.get("/healthz").status_code == simulator.client.get("/readyz").status_code == 200

    def executed() -> float:
        lines = simulator.client.get("/metrics").text.splitlines()
        name = 'simulator_operations_executed_total{kind="purchase",status="captured"} '
        return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))

    before = executed()
    simulator.post(key)
    simulator.post(key)
    assert executed() == before + 1


# --- the process -----------------------------------------------------------------------------------------


@pytest.mark.faults
def test_every_fault_goes_on_where_it_was_after_kill_9(tmp_path: Path) -> None:
    """Counters are durable: a card that has shown its fault does not show it again, nor early."""
    with running(tmp_path) as simulator:
        assert simulator.post("op_before", token="tok_sim_error_before_commit").status_code == 500
        assert simulator.post("op_after", token="tok_sim_error_after_commit").status_code == 500
        with pytest.raises(httpx.RemoteProtocolError):
            simulator.post("op_lost", token="tok_sim_timeout_after_commit")
        assert content_of(simulator.post("op_garbage", token="tok_sim_garbage")) == UNREADABLE
        assert content_of(simulator.query("op_garbage")) == UNREADABLE
        simulator.kill_and_restart()
        assert simulator.post("op_before", amount=5).json()["code"] == "key_reused"
        for key, token in (
            ("op_before", "tok_sim_error_before_commit"),
            ("op_after", "tok_sim_error_after_commit"),
            ("op_lost", "tok_sim_timeout_after_commit"),
        ):
            assert simulator.post(key, token=token).json()["status"] == "captured"
        assert content_of(simulator.query("op_garbage")) == UNREADABLE
        assert simulator.query("op_garbage").json()["status"] == "captured"
        keys = ("op_before", "op_after", "op_lost", "op_garbage")
        assert simulator.book(*keys)["captured"] == dict.fromkeys(keys, 100)


@pytest.mark.faults
def test_every_answer_outlives_kill_9_under_load(tmp_path: Path) -> None:
    """Acknowledged means durable; what was not acknowledged is there once or not at all, and a retry settles it."""
    acknowledged: dict[str, bytes] = {}
    with running(tmp_path) as simulator:

        def send_until_killed(sender: int) -> None:
            for number in itertools.count():
                key = f"op_{sender}_{number}"
                try:
                    acknowledged[key] = simulator.post(key, amount=number + 1).content
                except httpx.TransportError:
                    return

        with ThreadPoolExecutor(8) as pool:
            senders = [pool.submit(send_until_killed, sender) for sender in range(8)]
            eventually(lambda: len(acknowledged) >= 200, within_s=20)
            os.kill(simulator.process.pid, signal.SIGKILL)
            for sender in senders:
                sender.result()
        simulator.kill_and_restart()
        for key, content in acknowledged.items():
            assert simulator.query(key).content == content
        booked = {entry["operation_id"]: entry for entry in simulator.client.get("/book").json()["captured"]}
        assert acknowledged.keys() <= booked.keys()
        for key in booked.keys() - acknowledged.keys():
            retried = simulator.post(key, amount=booked[key]["amount"])
            assert retried.headers["idempotency-replayed"] == "true"


@pytest.mark.faults
def test_a_stop_drains_even_while_an_answer_hangs(tmp_path: Path) -> None:
    with running(tmp_path, hold_ms=30_000) as simulator, ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(simulator.post, "op_1", token="tok_sim_timeout_after_commit")
        eventually(lambda: simulator.query("op_1").status_code == 200, ANSWER_WITHIN_S)
        started = time.monotonic()
        assert simulator.stop() == 0
        assert time.monotonic() - started < limits.SIMULATOR_DRAIN_TIMEOUT_S
        with pytest.raises(httpx.TransportError):
            hanging.result()


@pytest.mark.faults
def test_a_stop_does_not_wait_for_a_caller_that_never_ends(tmp_path: Path) -> None:
    """Half a request has no effect and cannot keep the process alive past its bound."""
    with running(tmp_path) as simulator, socket.create_connection(("127.0.0.1", simulator.port)) as half:
        head = "POST /v1/operations HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        half.sendall(f"{head}idempotency-key: op_half\r\ncontent-length: 500\r\n\r\n{{".encode())
        assert simulator.query("op_half").status_code == 404
        assert simulator.stop() == 0


def test_a_taken_port_is_one_line_of_advice(simulator: Simulator, tmp_path: Path) -> None:
    """Two simulators on one port would split the book between them without a word."""
    second = subprocess.run(command(tmp_path, simulator.port), capture_output=True, text=True, check=False)
    assert second.returncode == 1
    assert second.stderr.count("\n") == 1
    assert "choose another port" in second.stderr


def test_the_witness_knows_nothing_of_millrace() -> None:
    """A book kept with our own code or addresses could share our mistakes: only the bounds are common."""
    program = "import sys, compose.simulator.__main__; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    packages = ("schemas", "dataflows", "sinks", "ingress", "reconciliation", "compose")
    ours = {name for name in modules.stdout.split() if name.partition(".")[0] in packages}
    assert {name for name in ours if not name.startswith("compose.simulator")} == {
        "compose",
        "schemas",
        "schemas.limits",
    }


def test_an_unusable_folder_is_one_line_of_advice(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    ended = subprocess.run(command(tmp_path / "file", free_port()), capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert "cannot open the processor's book" in ended.stderr
