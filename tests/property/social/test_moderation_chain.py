"""Whatever moderators decide about an object, one after the other, is no gap to the invariant that looks at moderation."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataflows.social.domain import labels
from dataflows.social.domain.moderation import Current, Ruling
from tests.gate import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dataflows.social.domain.labels import Labels
    from tests.servers import World

pytestmark = pytest.mark.servers
INVARIANT: Final = (resources.files("reconciliation.social") / "invariants" / "social_moderation.sql").read_bytes()
_POST: Final = "po_judged"
_DECISION: Final = """
insert into moderation_decision (decision_id, object_id, author_id, decision, reason, policy_version, label, supersedes,
                                 moderator, version, created_at, beside)
values (%s, %s, %s, %s, 'abuse', 1, %s, %s, 'u_moderates', %s, 0, %s)
"""
_LABEL: Final = """
insert into moderation_label (object_id, label, decision_id, policy_version, version) values (%s, %s, %s, %s, %s)
"""
_CURRENT: Final = """
insert into moderation_current (object_id, effect, decision_id, epoch) values (%s, %s, %s, %s)
on conflict (object_id) do update set effect = excluded.effect, decision_id = excluded.decision_id, epoch = excluded.epoch
"""
_NAMES: Final = st.sampled_from(["satire", "spoiler"])
_BESIDE: Final = st.sampled_from([True, True, False])
#: what a moderator says, as the operation lets it through, or the number of a decision that ends by itself or is reversed
_SAID: Final = st.one_of(
    st.fixed_dictionaries({"decision": st.just("label"), "label": _NAMES, "beside": _BESIDE}),
    st.fixed_dictionaries({"decision": st.sampled_from(["limit", "remove"]), "beside": _BESIDE}),
    st.fixed_dictionaries({"decision": st.just("none"), "beside": _BESIDE}),
    st.fixed_dictionaries({"decision": st.just("none"), "label": _NAMES}),
    st.integers(0, 7),
)


@pytest.fixture(scope="module")
def connection(stack: World) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(stack.addresses.postgres_superuser_dsn, autocommit=True) as made:
        yield made


class Chain:
    """The decisions about one object, by the functions that its case's owner decides with."""

    def __init__(self) -> None:
        self.current: Current | None = None
        self.labels: Labels = ()
        self.rulings: list[Ruling] = []

    def take(self, said: dict[str, Any]) -> None:
        """One decision; nothing where it is refused."""
        said = {"label": None} | said
        if labels.why_not(said, self.labels) is not None:
            return
        version = len(self.rulings) + 1
        ruling = Ruling(
            decision_id=f"mo_{version}",
            object_id=_POST,
            author_id="u_writes",
            decision=said["decision"],
            reason="abuse",
            policy_version=1,
            label=said["label"],
            expires_at=None,
            supersedes=labels.superseded(said, self.current, self.labels),
            moderator="u_moderates",
            version=version,
            created_at=0,
            beside=labels.is_beside(said),
        )
        self.current, self.labels = labels.after(ruling, self.current, self.labels)
        self.rulings.append(ruling)

    def end(self, number: int) -> None:
        """The end of an earlier decision; nothing where another one has its place."""
        if number < len(self.rulings):
            undoing = labels.undoing(self.rulings[number], self.current, self.labels)
            if undoing is not None:
                self.take(undoing)

    def write(self, connection: psycopg.Connection[Any]) -> None:
        """The rows that stand of it."""
        for r in self.rulings:
            row = (r.decision_id, r.object_id, r.author_id, r.decision, r.label, r.supersedes, r.version, r.beside)
            connection.execute(_DECISION, row)
        for one in self.labels:
            connection.execute(_LABEL, (one.object_id, one.label, one.decision_id, one.policy_version, one.version))
        if self.current is not None:
            now = self.current
            connection.execute(_CURRENT, (now.object_id, now.effect, now.decision_id, now.version))


@settings(max_examples=examples(100, 2_000))
@given(said=st.lists(_SAID, min_size=3, max_size=12))
def test_no_chain_of_decisions_is_a_gap(connection: psycopg.Connection[Any], said: list[dict[str, Any] | int]) -> None:
    chain = Chain()
    for one in said:
        if isinstance(one, int):
            chain.end(one)
        else:
            chain.take(one)
    with connection.transaction(force_rollback=True):
        chain.write(connection)
        assert connection.execute(INVARIANT).fetchall() == []
