"""What analytical storage is told of decisions: exact sums, and nobody's name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from limiter.analytics.decision_rows import key_hash, table_columns, texts_of
from limiter.policy.keys import limit_key
from limiter.spending.decision import Decision
from limiter.stream.blocks import decode
from limiter.stream.decisions import Recorder
from schemas.limiter.limit_audit import auditing
from tests.worlds.limiter.counter_server import Blocks

if TYPE_CHECKING:
    from pathlib import Path

PERSONS = ("user:u_ann", "user:u_bob", "staff:eve")
TENANTS = ("m_1", "tenant:acme", "users:own", "user")


def test_no_person_is_told_to_clickhouse(tmp_path: Path) -> None:
    """A call of a user is its tenant's, too, and that tenant is the user: by minute it would stay for 400 days."""
    keys = {t: limit_key({"tenant": t, "user": t, "route": "/v1/posts"}) for t in (*PERSONS, *TENANTS)}
    sink = Blocks()
    recorder = Recorder("g", sink, tmp_path / "ring", records=4_096)
    recorder.sampling.use({("pl_a", 1): auditing("full")})
    for key in keys.values():
        recorder.record(key, 1, Decision(True, 5, 0, 0, "pl_a", 1), identity=key)
    recorder.flush()
    recorder.close()
    told = table_columns([(partition, decode(block)) for partition, block in sink.sent], {}, 1)
    for person in PERSONS:
        assert person.partition(":")[2] not in repr(told)
    shown = {tenant: texts_of(key)[0] for tenant, key in keys.items()}
    assert {tenant: shown[tenant] for tenant in TENANTS} == dict(zip(TENANTS, TENANTS, strict=True))
    assert shown["user:u_ann"] == f"user#{key_hash('user:u_ann')}"
    assert len(set(shown.values())) == len(shown), "each stays one of its own"
