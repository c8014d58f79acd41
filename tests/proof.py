"""The proof, as it runs at night: every test with all its examples, the mutants of the domain, all soaks; all parts in any case."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

# before tests.gate is imported, which draws the seed of a proof and leaves that of a gate fixed
os.environ["MILLRACE_PROOF"] = "1"
# what is skipped proves nothing; and as many workers as those of the gate wait as patiently
os.environ.setdefault("REQUIRE_SERVERS", "1")
os.environ.setdefault("TEST_PATIENCE", "4")

from tests.gate import RUN_SEED


class Part(NamedTuple):
    """One program of the proof."""

    what: str
    command: tuple[str, ...]


_PYTHON: Final = sys.executable
_MILLRACE: Final = str(Path(sys.executable).with_name("millrace"))
MUTATED: Final = [
    "ledger",
    "posting",
    "refund",
    "refund_outcome",
    "dispute",
    "settlement",
    "journal",
    "account_postings",
    "payout",
]
_PYTEST: Final = (_PYTHON, "-m", "pytest", "-q", "-n", "0")
#: what outsiders try, through public doors; the rest of each file is in the part of all tests
_OUTSIDERS: Final = (
    "tests/outsiders",  # floods, and a quiet merchant beside each
    "tests/faults/test_owner_senders.py",  # forged records
    "tests/integration/payments/test_webhook_gateway.py",  # forged webhooks
    "tests/integration/payments/test_repairs_refused.py",  # one person's money
    "tests/integration/payments/test_ingress_accounts.py::test_nobody_moves_a_merchants_money_alone",
    "tests/faults/test_owner_faults.py::test_zombie_wakes_up_after_a_take_over",  # frozen processes
    "tests/faults/test_owner_faults.py::test_frozen_in_the_middle_of_a_transaction",
    "tests/integration/limiter/test_limiter_shards.py::test_a_store_that_lost_everything_answers_nobody_until_it_is_restored",
    "tests/property/limiter/test_limiter_permits.py::test_a_request_of_many_permits_is_one_member_and_a_refused_one_holds_none",
    "tests/traps/test_limiter_06_window_edges.py",  # clocks that are set
    "tests/traps/test_limiter_08_mixed_versions.py",  # windows that are published again
    "tests/traps/test_limiter_09_full_memory.py",
)
PARTS: Final = {
    "tests": Part(
        "every test, also those that the gate leaves out, with all examples, on real servers",
        (_PYTHON, "-m", "pytest", "-n", "auto", "--dist", "loadfile"),
    ),
    "outsiders": Part("what outsiders try, with the times of a quiet merchant beside floods", (*_PYTEST, *_OUTSIDERS)),
    "mutation": Part(
        "do the tests notice a wrong in the domain that moves money?", (_PYTHON, "-m", "tests.mutation", *MUTATED)
    ),
    "soak-payments": Part(
        "4 minutes of payments while every process is killed in turn",
        (_MILLRACE, "soak", "payments", "--minutes", "4", "--seed", "977"),
    ),
    "soak-social": Part(
        "3 minutes of social posts beside their reference while every process is killed in turn",
        (_MILLRACE, "soak", "social", "--minutes", "3"),
    ),
    "soak-tenancy": Part(
        "3 minutes of tenants that move beside their models while every process is killed in turn",
        (_MILLRACE, "soak", "tenancy", "--minutes", "3"),
    ),
    "soak-limiter": Part(
        "2 minutes of quotas while every process is killed in turn", (_MILLRACE, "soak", "limiter", "--minutes", "2")
    ),
    "scale-tenancy": Part(
        "a hundred thousand tenants, and the move of one with a million rows",
        (_MILLRACE, "bench", "tenancy", "--tenants", "100000", "--rows", "1000000"),
    ),
}


class Result(NamedTuple):
    """How one part ended."""

    name: str
    seconds: float
    status: int

    @property
    def told(self) -> str:
        """A row of the table at the end."""
        passed = "passed" if self.status == 0 else f"FAILED, exit status {self.status}"
        return f"{self.name:<14}{self.seconds:8.0f} s  {passed}"


def run(name: str, part: Part) -> Result:
    """Runs one part to its end, whatever that is."""
    _say(f"proof: {name} begins: {part.what}")
    _say(f"proof: $ {' '.join(part.command)}")
    began = time.monotonic()
    status = subprocess.run(part.command, check=False).returncode
    result = Result(name, time.monotonic() - began, status)
    _say(f"proof: {result.told}")
    return result


def prove(parts: dict[str, Part]) -> int:
    """Runs these parts one after the other; 1 when one of them failed."""
    _say(f"proof: {len(parts)} parts; again with MILLRACE_RUN_SEED={RUN_SEED}")
    results = [run(name, part) for name, part in parts.items()]
    _say("")
    for result in results:
        _say(result.told)
    return 0 if all(result.status == 0 for result in results) else 1


def _parser() -> argparse.ArgumentParser:
    described = "\n".join(f"  {name:<14}{part.what}" for name, part in PARTS.items())
    parser = argparse.ArgumentParser(
        prog="python -m tests.proof",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f"Runs the exhaustive proof, for hours rather than minutes.\n\nparts:\n{described}",
        epilog="examples:\n"
        "  make proof                                  all parts\n"
        "  python -m tests.proof soak-payments         one part\n"
        "  MILLRACE_RUN_SEED=4711 python -m tests.proof tests   again with the seed that a proof printed\n\n"
        "A part that fails does not stop the others. The table at the end tells each part's time and result; the exit\n"
        "status is 1 when one failed. `make test ALL=1` is the gate: the same tests with fewer examples and a fixed seed.",
    )
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of: {', '.join(PARTS)}; all when none is named")
    return parser


def main(arguments: list[str]) -> int:
    """Runs the parts that are named, or all."""
    parser = _parser()
    named = parser.parse_args(arguments).parts
    for name in named:
        if name not in PARTS:
            parser.error(f"there is no part {name!r}; choose from {', '.join(PARTS)}")
    return prove({name: part for name, part in PARTS.items() if not named or name in named})


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
