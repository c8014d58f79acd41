"""The audit setting: totals are exact whatever it keeps, rows with their weights are an unbiased sample, retries agree."""

from __future__ import annotations

import math
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limiter.policy.policies import PolicySet
from limiter.spending.buckets import Bucket
from limiter.spending.decision import Decision
from limiter.spending.key_state import KeyState
from limiter.stream.blocks import decode
from limiter.stream.decisions import Recorder
from limiter.stream.usage import totals
from schemas.limiter import limits
from schemas.limiter.limit_audit import PATTERN, auditing, is_in_sample, wrong_audit
from schemas.limiter.operations import OPERATIONS
from tests.gate import examples
from tests.worlds.limiter.counter_server import Blocks, policy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from limiter.stream.blocks import Block

SHADOWS = [PolicySet([policy(f"pl_s{n}", shadow=True)], 1).all_levels()[0] for n in range(2)]
SETTINGS = ("full", "denied", "denied+sampled 1/7", "aggregate")


def decided(policy: int, outcome: str) -> Decision:
    one = Decision(outcome != "denied", 5, 0, 0, f"pl_{policy}", 1)
    return one._replace(duplicate=outcome == "repeated", degraded=outcome == "degraded")


@contextmanager
def recorder_of(folder: Path, sink: Blocks, name: str = "g") -> Iterator[Recorder]:
    made = Recorder(name, sink, folder / f"{name}.ring", records=65_536)
    made.sampling.use({(f"pl_{n}", 1): auditing(text) for n, text in enumerate(SETTINGS)})
    try:
        yield made
    finally:
        made.close()


def blocks_of(sink: Blocks) -> list[tuple[int, Block]]:
    return [(partition, decode(block)) for partition, block in sink.sent]


asked = st.tuples(
    st.integers(0, len(SETTINGS) - 1),
    st.integers(0, 5),
    st.sampled_from(["allowed", "denied", "repeated", "degraded"]),
    st.integers(0, 9),
    st.one_of(st.none(), st.text(max_size=8)),
    st.lists(st.sampled_from(SHADOWS), max_size=2),
)


@settings(max_examples=examples(20, 60), deadline=None)
@given(
    questions=st.lists(st.lists(asked, max_size=30), min_size=1, max_size=5),
    again=st.randoms(use_true_random=False),
    block_max=st.integers(1, 40),
    sent_at_once=st.integers(1, 40),
)
def test_totals_are_exact_whatever_is_kept_and_however_often_it_comes(
    tmp_path_factory, questions, again, block_max, sent_at_once
):
    """Blocks come twice, and what was not safe comes again after a kill as rows: every decision counts once.

    So does what policies in shadow mode would have refused of it.
    """
    folder, sink = tmp_path_factory.mktemp("ring"), Blocks(under_way=1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(limits, "LIMIT_DECISIONS_BLOCK_MAX", block_max)
        patched.setattr(limits, "LIMIT_DECISIONS_SENT_AT_ONCE", sent_at_once)
        truth: dict[str, Counter[str]] = {}
        with recorder_of(folder, sink) as recorder:
            for batch in questions:
                for number, user, outcome, cost, identity, shadows in batch:
                    one = decided(number, outcome)
                    recorder.record(f"t:u{user}:/{number}", cost, one, identity=identity, shadows=shadows)
                    of_key = truth.setdefault(f"t:u{user}:/{number}", Counter())
                    if outcome != "repeated":
                        of_key["denied" if outcome == "denied" else "allowed"] += 1
                        of_key["cost"] += cost * (outcome != "denied")
                        of_key.update({shadow.id_ for shadow in shadows})
                if again.random() < 0.8:
                    recorder.flush()
        with recorder_of(folder, sink):  # the process before was killed here: nothing was safe
            pass
    counted: dict[tuple[str, int], int] = {}
    found: dict[str, Counter[str]] = {}
    for block in [one for one in blocks_of(sink) for _ in range(again.randint(1, 2))]:
        for key, total in totals([block], counted).items():
            sums = found.setdefault(key, Counter())
            sums.update({"allowed": total.allowed, "denied": total.denied, "cost": total.allowed_cost})
            sums.update({policy_id: refused for policy_id, (refused, _) in total.shadows.items()})
    assert found == {key: sums for key, sums in truth.items() if sums["allowed"] or sums["denied"]}


def test_a_sample_keeps_every_refusal_and_sums_with_weights_are_unbiased(tmp_path: Path) -> None:
    """20,000 requests: the estimate lies within six standard deviations, and is off when weights are left out."""
    sink, count = Blocks(), 20_000
    with recorder_of(tmp_path, sink) as recorder:
        for n in range(count):
            recorder.record("t:u:/sampled", n % 5, decided(2, "allowed"), identity=f"request-{n}")
            recorder.record("t:u:/sampled", 1, decided(2, "denied"), identity=f"refused-{n}")
        recorder.flush()
    weights = {True: 0, False: 0}
    cost, rows = 0, 0
    for _, block in blocks_of(sink):
        part = block.after(0)
        allowed = part.records["flags"] & 1 != 0
        for which in (True, False):
            weights[which] += int(part.weights[allowed == which].sum())
        cost += int((part.records["cost"][allowed].astype(np.int64) * part.weights[allowed]).sum())
        rows += int(allowed.sum())
    assert weights[False] == count
    deviation = math.sqrt(count * 6)  # of a sum of weights of 7, each kept with probability 1/7
    assert abs(weights[True] - count) < 6 * deviation
    assert abs(cost - 2 * count) < 6 * deviation * 2.5
    assert rows < count / 5


def test_a_request_and_its_retries_are_in_the_sample_together_at_every_gateway(tmp_path: Path) -> None:
    kept = []
    for name in ("g1", "g2"):
        sink = Blocks()
        with recorder_of(tmp_path, sink, name) as recorder:
            for n in range(300):
                recorder.record(f"t:u{n}:/r", 1, decided(2, "allowed"), identity=f"r{n}")
                recorder.record(f"t:u{n}:/r", 1, decided(2, "repeated"), identity=f"r{n}")
            recorder.flush()
        kept.append(Counter(block.rows[int(r["row"])].key for _, block in blocks_of(sink) for r in block.columns()))
    assert kept[0] == kept[1]
    assert set(kept[0].values()) == {2}
    assert set(kept[0]) == {f"t:u{n}:/r" for n in range(300) if is_in_sample(7, f"r{n}")}


def test_a_request_without_an_identity_is_drawn_by_its_number(tmp_path: Path) -> None:
    sink = Blocks()
    with recorder_of(tmp_path, sink) as recorder:
        for _ in range(7_000):
            recorder.record("t:u:/r", 1, decided(2, "allowed"))
        recorder.flush()
    rows = sum(len(block.columns()) for _, block in blocks_of(sink))
    assert 700 < rows < 1_300


@pytest.mark.parametrize("text", SETTINGS)
def test_only_a_sample_keeps_a_key_off_the_fastest_path(text: str) -> None:
    """There identities are not hashed; all other settings are decided by what was decided, when the ring is flushed."""
    level = PolicySet([policy(audit=text)], 1).all_levels()[0]
    key = KeyState("t:u:/r", (Bucket(level, "t"),), 0)
    assert key.leased
    assert (key.single is None) == ("sampled" in text)


@pytest.mark.parametrize("text", [*SETTINGS, "denied+sampled 1/1", "denied+sampled 1/999999"])
def test_settings_that_are_published(text: str) -> None:
    assert wrong_audit(text) is None
    assert auditing(text).is_full == (text in ("full", "denied+sampled 1/1"))


@pytest.mark.parametrize("value", ["", "FULL", "sampled", "denied+sampled 1/0", "denied+sampled 1/1000000", "denied+sampled 2/3",
                                   "denied+sampled 1/-1", "full\n", 7, None, ["full"]])  # fmt: skip
def test_settings_that_are_refused_say_what_there_is(value: object) -> None:
    terms = {"algorithm": "fixed_window", "capacity": 1, "window_ms": 1_000, "audit": value}
    _, wrong = OPERATIONS["publish_policy"].normalize({"scope": {"tenant": "t", "user": "*", "route": "*"}} | terms)
    assert [error["field"] for error in wrong] == ["payload.audit"]
    assert "denied+sampled 1/n" in wrong[0]["reason"]
    assert "aggregate" in PATTERN
