"""The proof runs every part, tells how each ended, and fails when one did."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PARTS = """
import os, sys
from tests import proof
parts = {
    "bad": proof.Part("fails", (sys.executable, "-c", "raise SystemExit(3)")),
    "good": proof.Part("tells its seed", (sys.executable, "-c", "import os; print(os.environ['MILLRACE_RUN_SEED'], os.environ['MILLRACE_PROOF'])")),
}
sys.exit(proof.prove({name: parts[name] for name in sys.argv[1:]}))
"""


def run(*command: str, seed: str = "41") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"MILLRACE_RUN_SEED": seed, "MILLRACE_PROOF": "0"}
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_all_parts_run_though_one_failed() -> None:
    done = run("-c", PARTS, "bad", "good")
    assert done.returncode == 1
    assert "41 1" in done.stdout.splitlines(), "the part is a proof, and has the seed that was printed"
    assert "again with MILLRACE_RUN_SEED=41" in done.stdout
    *_, first, second = done.stdout.splitlines()
    assert first.split()[:1] + first.split()[2:] == ["bad", "s", "FAILED,", "exit", "status", "3"]
    assert second.split()[:1] + second.split()[2:] == ["good", "s", "passed"]
    assert run("-c", PARTS, "good").returncode == 0


def test_the_help_teaches_and_a_wrong_part_is_told() -> None:
    told = run("-m", "tests.proof", "--help").stdout
    assert all(
        part in told
        for part in ("tests ", "outsiders", "mutation", "soak-payments", "soak-limiter", "MILLRACE_RUN_SEED")
    )
    wrong = run("-m", "tests.proof", "soak")
    assert wrong.returncode == 2
    assert "choose from tests, outsiders, mutation" in wrong.stderr


def test_what_is_mutated_and_what_must_notice_is_there() -> None:
    """Tests that are not found fail too: of them every mutant would seem to die."""
    program = "from tests.mutation.__main__ import TESTS, file_of; from tests.proof import MUTATED\n"
    program += "print(*TESTS, *map(file_of, MUTATED))"
    named = run("-c", program).stdout.split()
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).is_file()] == []
