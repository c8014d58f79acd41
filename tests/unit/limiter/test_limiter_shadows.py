"""What policies in shadow mode would have refused: in the records, the blocks and the rows of the decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
from msgspec import structs

from limiter.analytics.decision_rows import table_columns
from limiter.decide import local_decisions
from limiter.decide.failure import WithoutStore
from limiter.policy.policies import PolicySet
from limiter.spending.buckets import Bucket
from limiter.spending.decision import UNLIMITED, Decision
from limiter.spending.key_state import KeyState
from limiter.spending.ring import ALLOWED, ALSO, RECORD_TYPE, SHADOW
from limiter.stream.blocks import Block, decisions_in, decode
from limiter.stream.decisions import Recorder
from limiter.stream.shadows import shadows_in
from limiter.stream.usage import totals
from schemas.limiter import limits
from schemas.limiter.limit_audit import auditing
from sinks.clickhouse.limiter.tables import BY_KEY, BY_MINUTE, DECISIONS
from tests.worlds.limiter.counter_server import Blocks, listed, policy

if TYPE_CHECKING:
    from pathlib import Path

ALLOW = Decision(True, 9, 0, 0, "pl_a", 1)
DENY = ALLOW._replace(allowed=False, remaining=0)


def bucket(policy_id: str, **changes: Any) -> Bucket:
    return Bucket(PolicySet([policy(policy_id, **changes)], 1).all_levels()[0], "t")


TENS, HUNDREDS = bucket("pl_tens", shadow=True), bucket("pl_hundreds", shadow=True)


def sent_of(folder: Path, audit: str = "full", count: int = 1_000) -> list[tuple[int, bytes]]:
    """Decisions of which every tenth would have been refused by one policy, every hundredth by another one too."""
    sink = Blocks()
    recorder = Recorder("g", sink, folder / "ring", records=4_096)
    recorder.sampling.use({("pl_a", 1): auditing(audit)})
    for n in range(count):
        shadows = [one for one, every in ((TENS, 10), (HUNDREDS, 100)) if n % every == 0]
        recorder.record(f"t:u{n % 3}:/r", 1, DENY if n % 50 == 0 else ALLOW, identity=f"i{n}", shadows=shadows)
    recorder.flush()
    assert recorder.outcomes.refused_in_shadow == {"pl_tens": count // 10, "pl_hundreds": count // 100}
    recorder.close()
    return sink.sent


def decoded(sent: list[tuple[int, bytes]]) -> list[tuple[int, Block]]:
    return [(partition, decode(block)) for partition, block in sent]


def table_rows(blocks: list[tuple[int, Block]], table: Any) -> list[dict[str, Any]]:
    columns = table_columns(blocks, {}, 1)[table.name]
    return [dict(zip(table.columns, row, strict=True)) for row in zip(*columns, strict=True)]


def test_both_verdicts_are_in_the_row_of_the_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the ring is cut into blocks: a decision and what belongs to it stay together."""
    monkeypatch.setattr(limits, "LIMIT_DECISIONS_SENT_AT_ONCE", 1)
    monkeypatch.setattr(limits, "LIMIT_DECISIONS_BLOCK_MAX", 2)
    rows = sorted(table_rows(decoded(sent_of(tmp_path)), DECISIONS), key=lambda row: row["number"])
    assert len(rows) == 1_000
    expected = [
        ["pl_hundreds", "pl_tens"] if n % 100 == 0 else ["pl_tens"] if n % 10 == 0 else [] for n in range(1_000)
    ]
    assert [row["refused_in_shadow"] for row in rows] == expected
    assert [row["allowed"] for row in rows] == [n % 50 != 0 for n in range(1_000)]  # what was decided is as it was
    assert {row["policy_id"] for row in rows} == {"pl_a"}


@pytest.mark.parametrize("audit", ["full", "denied", "denied+sampled 1/7", "aggregate"])
def test_sums_are_exact_whatever_rows_are_kept(tmp_path: Path, audit: str) -> None:
    blocks = decoded(sent_of(tmp_path, audit))
    assert sum(decisions_in(block) for _, block in blocks) == 1_000
    for table in (BY_MINUTE, BY_KEY):
        sums = dict.fromkeys(("pl_a", "pl_tens", "pl_hundreds"), (0, 0, 0))
        for row in table_rows(blocks, table):
            before = sums[row["policy_id"]]
            sums[row["policy_id"]] = (
                before[0] + row["allowed"],
                before[1] + row["denied"],
                before[2] + row["refused_in_shadow"],
            )
        assert sums == {"pl_a": (980, 20, 0), "pl_tens": (0, 0, 100), "pl_hundreds": (0, 0, 10)}
    refused = [total.shadows for total in totals(blocks, {}).values()]
    assert sum(one["pl_tens"][0] for one in refused) == 100
    assert sum(one["pl_hundreds"][0] for one in refused) == 10


def test_readers_and_gateways_of_the_release_before_understand_each_other(tmp_path: Path) -> None:
    """A block that says nothing of shadows is read; one that does has the same decisions for who does not know them."""
    sent = sent_of(tmp_path)
    fields = [(field.name, field.type, field.default) for field in structs.fields(Block) if field.name != "shadows"]
    before = msgspec.msgpack.Decoder(msgspec.defstruct("Before", fields, kw_only=True))
    of_before = [(partition, before.decode(block)) for partition, block in sent]
    blocks = decoded(sent)
    for (_, then), (_, now) in zip(of_before, blocks, strict=True):
        assert then == before.decode(msgspec.msgpack.encode(now))
        assert then.records == now.records
    old = [(partition, msgspec.convert(structs.asdict(then), Block)) for partition, then in of_before]
    found = {key: (one.allowed, one.denied, one.shadows) for key, one in totals(old, {}).items()}
    assert found == {key: (one.allowed, one.denied, {}) for key, one in totals(blocks, {}).items()}
    assert not any(row["refused_in_shadow"] for row in table_rows(old, DECISIONS))


def test_what_a_lost_decision_left_is_of_no_other() -> None:
    taken = np.zeros(3, RECORD_TYPE)
    taken["flags"] = [SHADOW | ALSO, ALLOWED, SHADOW | ALSO]
    taken["row"] = [5, 6, 7]
    assert shadows_in(taken)[["place", "row"]].tolist() == [(1, 7)]


def test_a_repetition_refuses_nothing_in_shadow_either(tmp_path: Path) -> None:
    sink = Blocks()
    recorder = Recorder("g", sink, tmp_path / "ring", records=64)
    recorder.record("t:u:/r", 1, ALLOW._replace(duplicate=True), shadows=[TENS])
    recorder.flush()
    assert (recorder.outcomes.refused_in_shadow, recorder.ring.written) == ({}, 1)
    recorder.close()


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_refusal_of_a_real_level_names_the_shadows_that_refuse_too(is_refused: bool) -> None:
    real, shadow = bucket("pl_a"), bucket("pl_s", shadow=True)
    for one in (real, shadow) if is_refused else (shadow,):
        one.deny_until_ns, one.deny_cost, one.deny_retry_ns = 1_000, 1, 1_000
    real.left, real.lease_ends_ns = 5, 1_000
    key, shadows = KeyState("t:u:/r", (real, shadow), 0), []  # type: ignore[var-annotated]
    if is_refused:
        decided = local_decisions.refused(key, 1, 10, shadows)
    else:
        decided = local_decisions.spent_of_all(key, 1, 10, lambda _: None, shadows)
    assert decided is not None
    assert (decided.allowed, shadows) == (not is_refused, [shadow])


def test_usage_names_the_policies_in_shadow_mode_that_may_refuse_a_key() -> None:
    """A list of networks governs no key by itself: it is named once it would have refused something."""
    network = listed("deny", "pl_network", scope={"network": "192.0.2.0/24"}, per=["network"], shadow=True)
    free = listed("unlimited", "pl_free", per=["tenant"], shadow=True)
    window = policy("pl_window", shadow=True, boundary_guard=1)
    found = PolicySet([policy("pl_a"), window, network, free], 1)
    parts = {"tenant": "t", "user": "u", "route": "/r"}
    assert [level.id_ for level in found.shadows(parts)] == ["pl_window"]
    told = ("pl_network", "pl_a", "pl_withdrawn")
    assert [level.id_ for level in found.shadows(parts, told)] == ["pl_network", "pl_window"]
    assert [level.policy.algorithm for level in found.shadows(parts)] == ["fixed_window"]  # not that of its guard


@pytest.mark.parametrize("mode", ["open", "closed"])
def test_without_the_store_a_policy_in_shadow_mode_decides_nothing(mode: str) -> None:
    """Nobody is told of it, and nothing counts as past a quota."""
    key = KeyState("t:u:/r", (bucket("pl_tens", shadow=True, failure_mode=mode),), 0)
    assert [WithoutStore().decide(key, 1, identity) for identity in (None, "r1")] == [UNLIMITED] * 2
    both = KeyState("t:u:/r", (*key.buckets, bucket("pl_real", failure_mode=mode)), 0)
    decided = WithoutStore().decide(both, 1)
    assert (decided.allowed, decided.degraded, decided.policy_id) == (mode == "open", True, "pl_real")
