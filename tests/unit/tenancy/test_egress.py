"""What the isolation monitor finds in logs: a canary's text, wherever it lies, once it is written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from compose import limits
from compose.isolation.canaries import Canary
from compose.isolation.egress import Egress
from compose.stack.processes import end_of
from compose.supervise.long_logs import LongLogs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def begun_anew(log: Path) -> None:
    """As the supervisor does it."""
    home: Any = SimpleNamespace(logs=log.parent)
    assert LongLogs(home).look()


CANARIES = (Canary("tn_a", "rs_a", "marker-of-a", "u-a"), Canary("tn_b", "rs_b", "marker-of-b", "u-b"))


def test_what_could_not_be_kept_is_found_again(tmp_path: Path) -> None:
    """A log is read further when what was found in it stands elsewhere: an outage of the database loses no proof."""
    egress = Egress(tmp_path)
    (tmp_path / "ingress-0.log").write_text("marker-of-a")
    for _ in range(2):
        probes = egress.probes(CANARIES)
        assert next(probes).is_leak
        probes.close()  # as when whoever keeps it fails
    assert [found.is_leak for found in egress.probes(CANARIES)] == [True]
    assert [found.is_leak for found in egress.probes(CANARIES)] == [False]


@pytest.mark.parametrize("part", [7, 64, 4096])
def test_a_marker_is_found_in_whichever_log_and_wherever_it_was_cut(
    part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ISOLATION_LOG_PART_BYTES", part)
    egress, log = Egress(tmp_path), tmp_path / "ingress-0.log"

    def said(text: str) -> str | None:
        with log.open("a") as file:
            file.write(text)
        ((name, evidence, is_leak),) = egress.probes(CANARIES)
        assert (name, is_leak) == ("egress logs", evidence is not None)
        return evidence

    assert said("nothing\n" * 20) is None
    assert said("...marker-") is None
    assert said("of-b...\n") == "a canary's payload is in ingress-0.log"
    assert said("quiet again\n" * 20) is None
    log.write_text("begun anew: marker-of-a\n")
    assert said("") == "a canary's payload is in ingress-0.log"
    log.unlink()
    (tmp_path / "owner-0.log").write_text("x" * 100 + "marker-of-a")
    ((_, evidence, _),) = egress.probes(CANARIES)
    assert evidence == "a canary's payload is in owner-0.log"


@pytest.mark.parametrize("turned_over", [begun_anew, lambda log: end_of(log).close()], ids=["runs", "is started"])
def test_what_was_written_right_before_a_log_was_begun_anew_is_found(
    turned_over: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its process runs, and as it is started again: it is in ``.log.1`` by then, half of it perhaps read."""
    monkeypatch.setattr(limits, "LOG_BYTES_MAX", 10)
    egress, log = Egress(tmp_path), tmp_path / "ingress-0.log"
    log.write_text("quiet\n" * 20 + "marker-")
    assert [found.is_leak for found in egress.probes(CANARIES)] == [False]
    with log.open("a") as file:
        file.write("of-a\n")
    turned_over(log)
    log.write_text("quiet again\n")
    assert [found.evidence for found in egress.probes(CANARIES)] == ["a canary's payload is in ingress-0.log"]
    assert [found.is_leak for found in egress.probes(CANARIES)] == [False]
