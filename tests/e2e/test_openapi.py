"""schemathesis over the published document: what it promises is what the service does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.eventually import patient
from tests.gate import PROOF, examples
from tests.worlds.public_system import public

if TYPE_CHECKING:
    from tests.worlds.public_system import PublicSystem

__all__ = ["public"]  # the fixture of this module
pytestmark = [pytest.mark.servers, pytest.mark.slow, pytest.mark.timeout(examples(120, 600))]

HERE = Path(__file__).parent
#: the gate leaves the coverage of every schema keyword and chains of calls to the proof; both call every operation
PHASES = "examples,coverage,fuzzing,stateful" if PROOF else "examples,fuzzing"
SCHEMATHESIS = str(Path(sys.executable).with_name("schemathesis"))


def test_schemathesis_runs_clean(public: PublicSystem, tmp_path: Path) -> None:
    """Examples, coverage of every schema keyword, fuzzing and stateful calls; all checks of schemathesis."""
    token = public.token("m_schemathesis", ("payments:read", "payments:write", "payouts:write", "operator"))
    done = subprocess.run(
        [
            SCHEMATHESIS,
            "--config-file",
            str(HERE / "schemathesis.toml"),
            "run",
            f"{public.base_url}/openapi.json",
            "--header",
            f"Authorization: Bearer {token}",
            "--phases",
            PHASES,
            "--max-examples",  # of fuzzing; its seed is fixed, so that more of them are the same ones again each run
            str(examples(2, 10)),
            "--request-timeout",
            "30",
            "--seed",
            "20260101",
            "--no-color",
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(HERE.parents[1]), "SCHEMATHESIS_HOOKS": "tests.e2e.schemathesis_hooks"},
        capture_output=True,
        text=True,
        timeout=patient(590),
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-1_000:]
    # The token was an operator's: what only operators may ask was asked and answered, not refused 403 all along.
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_operator"]) as connection:
        query = "select distinct action from audit_log where actor = 'merchant:m_schemathesis' and outcome = 'done'"
        answered = {action for (action,) in connection.execute(query).fetchall()}
    assert answered >= {"case.list"}
