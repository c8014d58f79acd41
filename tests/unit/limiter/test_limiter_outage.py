"""The benchmark of an outage says what it measured: each call in the phase in which it was asked, and who waited."""

from __future__ import annotations

from compose.proof.bench.limiter.outage_phases import PHASES, WAITED_MS, Phases, Plan

PLAN = Plan(outage_s=10, around_s=2, blocks_max=1)
DURING = PHASES.index("during")


def test_a_call_that_ends_after_the_outage_is_one_of_the_outage() -> None:
    phases = Phases()
    for began, seconds in ((0, 9.0), (1, 0.001), (DURING, 0.002), (DURING, 5.0), (3, 0.003)):
        phases.took(began, seconds, 2)
    found = phases.figures(PLAN.lengths_s())
    assert list(found) == ["before", "during", "after"]  # what warms up is decided, and no figure
    assert phases.decided == 10
    assert (found["during"]["decisions"], found["during"]["max_ms"], found["after"]["max_ms"]) == (4, 5_000, 3)
    assert phases.waited() == 1


def test_only_what_no_store_call_can_last_has_waited() -> None:
    phases = Phases()
    phases.took(DURING, WAITED_MS / 1_000, 1)
    phases.took(1, 60.0, 1)
    assert phases.waited() == 0
    phases.took(DURING, WAITED_MS / 1_000 + 0.001, 1)
    assert phases.waited() == 1


def test_a_phase_without_a_call_has_no_latency() -> None:
    assert Phases().figures(PLAN.lengths_s())["during"] == {"decisions": 0, "decisions_per_s": 0}
