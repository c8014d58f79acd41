"""The simulator's process: killed, stopped, started beside another; what was answered stays true."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from compose.simulator import limits
from tests.eventually import becomes, eventually, patient
from tests.gate import examples
from tests.worlds.payments.simulator_process import (
    ANSWER_WITHIN_S,
    UNREADABLE,
    Simulator,
    command,
    content_of,
    free_port,
    key,
    running,
    simulator,
)

__all__ = ["key", "simulator"]


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
        becomes(lambda: simulator.query("op_1").status_code, 200, ANSWER_WITHIN_S)
        started = time.monotonic()
        assert simulator.stop() == 0
        assert time.monotonic() - started < patient(limits.SIMULATOR_DRAIN_TIMEOUT_S)
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


def test_answers_that_hang_give_their_descriptors_back(tmp_path: Path) -> None:
    """Held connections that their clients drop, and those that are broken in the end, leave nothing open."""
    many = examples(gate=10, proof=40)
    with running(tmp_path) as simulator, ThreadPoolExecutor(many) as pool:
        process = psutil.Process(simulator.process.pid)

        body = {
            "kind": "purchase",
            "reference": "pi_1",
            "amount": 7,
            "currency": "USD",
            "token": "tok_sim_timeout_after_commit",
        }

        def broken(number: int) -> None:
            alone = httpx.Client(base_url=simulator.client.base_url, timeout=patient(ANSWER_WITHIN_S))
            with alone as client, pytest.raises(httpx.TransportError):
                client.post("/v1/operations", json=body, headers={"Idempotency-Key": f"op_{number}"})

        def dropped(number: int) -> None:
            """Once it is in the book, however long that takes: an answer is then held."""
            content = json.dumps(body).encode()
            head = "POST /v1/operations HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            head += f"idempotency-key: op_{number}\r\ncontent-length: {len(content)}\r\n\r\n"
            close = {"Connection": "close"}  # who asks leaves nothing open either
            with socket.create_connection(("127.0.0.1", simulator.port)) as line:
                line.sendall(head.encode() + content)
                query = f"/v1/operations/op_{number}"
                becomes(lambda: simulator.client.get(query, headers=close).status_code, 200, ANSWER_WITHIN_S)

        list(pool.map(broken, range(many)))  # threads and pools exist from here on
        before = process.num_fds()
        list(pool.map(dropped, range(many, 3 * many)))
        list(pool.map(broken, range(3 * many, 5 * many)))
        eventually(lambda: process.num_fds() <= before, ANSWER_WITHIN_S)
        assert len(simulator.client.get("/book").json()["captured"]) == 5 * many
