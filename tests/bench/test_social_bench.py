"""The benchmark of social posts measures each of its lines, and says beside each what is asked of it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any, Final

import pytest

from tests.eventually import patient
from tests.servers import clean_environment

#: each line with its bound
GOALS: Final = {
    "fan_out": {
        "deliveries_per_s": 200_000.0,
        "visible_p99_ms": 300.0,
        "celebrity_homes_written": 0.0,
        "celebrity_of_any_post": 1.5,
    },
    "media": {"upload_mb_per_s": 200.0, "of_bare_pillow": 0.7},
    "home": {"read_p99_ms": 15.0, "rule_ratio": 2.0},
}
SMALL: Final = ("--followers", "5", "--posts", "10", "--stored", "2000", "--seconds", "1")


@pytest.mark.servers
@pytest.mark.slow
@pytest.mark.proof
@pytest.mark.timeout(400)
def test_each_line_is_measured_and_stands_beside_its_bound() -> None:
    command = [sys.executable, "-c", "from compose.cli import main; main()", "bench", "social", "--json", *SMALL]
    done = subprocess.run(
        command, env=clean_environment(), capture_output=True, text=True, check=False, timeout=patient(220)
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    found = {
        part: {
            name.removesuffix("_goal"): goal
            for name, goal in result[part].items()
            if re.search(r"(?<!_of)_goal\Z", name)
        }
        for part in GOALS
    }
    assert found == GOALS
    for part, lines in GOALS.items():
        assert all(result[part][name] > 0 for name, goal in lines.items() if goal), result[part]
    assert result["fan_out"]["celebrity_homes_written"] == 0
    assert result["fan_out"]["celebrity_followers"] == 100_000
    assert result["home"]["reads"] > result["home"]["not_answered"] == 0
