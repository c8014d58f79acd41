"""The owner benchmark measures what it says: its model is right, its mix is the same every time, its rates are reckoned
over the window in which all owners work, and the command prints what scripts rely on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from compose.proof.bench.mix import Mix
from compose.proof.bench.owner.run import Sample, _measured
from dataflows.payments.domain import commands as domain
from dataflows.payments.domain.decision import Context, Decision, Payment
from dataflows.payments.domain.policies.fees import FeeSchedule
from schemas.avro import codec
from schemas.payments import topics
from schemas.topics import partition_for
from tests.eventually import patient
from tests.servers import clean_environment, run_servers


def test_the_model_agrees_with_the_domain_on_every_intent_and_account() -> None:
    """Two implementations, one of them a hundred lines that share nothing with the other."""
    mix = Mix(seed=3, open_payments=200)
    payments: dict[str, Payment] = {}
    balances: Counter[str] = Counter()
    answers: dict[tuple[str, str], str] = {}
    for command in mix.commands(6_000):
        identity = (command.scope, command.idempotency_key)
        if identity in answers:
            continue
        context = Context(now=1, fees=FeeSchedule(), processor="simulator")
        decision = domain.decide(payments.get(command.aggregate_key), command, context)
        answers[identity] = "committed" if isinstance(decision, Decision) else "refused"
        if not isinstance(decision, Decision):
            continue
        payment = payments.setdefault(command.aggregate_key, Payment(intent=decision.intent, attempts={}))
        payment.intent = decision.intent
        if decision.attempt is not None:
            payment.attempts[decision.attempt.attempt] = decision.attempt
        for posting in decision.postings:
            for entry in posting.entries:
                balances[entry.account_id] += entry.debit - entry.credit
    assert answers == mix.model.identities
    found = {
        key: (i.state, i.version, i.amount_capturable, i.amount_received, i.latest_attempt)
        for key, payment in payments.items()
        for i in (payment.intent,)
    }
    assert found == {key: intent.public() for key, intent in mix.model.intents.items()}
    assert {a: b for a, b in balances.items() if b} == {a: b for a, b in mix.model.balances.items() if b}
    states = Counter(state for state, *_ in found.values())
    assert {"succeeded", "processing", "requires_capture", "requires_payment_method"} <= states.keys()


def test_the_mix_is_the_same_every_time_and_holds_duplicates_and_stale_versions() -> None:
    first, second = (
        [
            (partition_for(c.aggregate_key, topics.PARTITIONS), codec.encode_command(c))
            for c in Mix(5, 100).commands(3_000)
        ]
        for _ in range(2)
    )
    assert first == second
    commands = [codec.decode_command(record) for _, record in first]
    repeated = len(commands) - len({(c.scope, c.idempotency_key) for c in commands})
    assert 10 <= repeated <= 60
    assert 3 <= sum(c.expected_version == 1_000_000 for c in commands) <= 40
    assert len({partition for partition, _ in first}) == topics.PARTITIONS


def sample(at: float, offsets: list[int], cpu: float) -> Sample:
    return Sample(at, offsets, ["a", "b"], {"owner": cpu}, 0.0)


def test_the_rate_is_that_of_the_window_in_which_all_owners_work() -> None:
    """Owner a begins a second early and b ends late: neither second counts."""
    samples = [
        sample(0.0, [0, 0], 0.0),
        sample(1.0, [100, 0], 1.0),
        sample(2.0, [200, 100], 3.0),
        sample(3.0, [300, 200], 5.0),
        sample(4.0, [400, 300], 7.0),
        sample(5.0, [400, 400], 8.0),
    ]
    run = _measured(samples, [0, 0], [400, 400], 2, "bytewax")
    assert (run.commands, run.window_s, run.commands_per_s) == (800, 2.0, 200.0)
    assert run.cpu_us_per_command == {"owner": 10_000.0}


def test_a_run_too_short_for_a_window_is_measured_whole() -> None:
    samples = [sample(0.0, [0, 0], 0.0), sample(1.0, [400, 0], 1.0), sample(2.0, [400, 400], 3.0)]
    run = _measured(samples, [0, 0], [400, 400], 2, "bytewax")
    assert (run.window_s, run.commands_per_s) == (2.0, 400.0)


@pytest.mark.servers
@pytest.mark.slow
@pytest.mark.proof
def test_the_command_prints_what_a_script_relies_on() -> None:
    """A small run on real servers with one and two owner processes; the end state is the model's."""
    command = [sys.executable, "-c", "from compose.cli import main; main()", "bench", "owner", "--json"]
    done = subprocess.run(
        [*command, "--commands", "6000", "--seconds", "2", "--home", str(run_servers().home)],
        env=clean_environment(), capture_output=True, text=True, check=False, timeout=patient(220),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["copy_ceiling_per_s"] > 0
    assert result["plain_loop_per_s"] > 0
    assert [run["processes"] for run in result["runs"]] == [1, 2]
    for run in result["runs"]:
        assert run["end_state_matches"], run["differences"]
        assert run["batch_size_mean"] >= 1
        assert {"owner", "postgres", "kafka"} <= run["cpu_us_per_command"].keys()
        assert min(run["commands_per_s"], run["ratio_to_copy_ceiling"], run["ratio_to_plain_loop"]) > 0
    assert result["latency"]["lost"] == 0
