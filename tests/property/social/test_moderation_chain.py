"""Whatever moderators decide about an object, one after the other, is no gap to the invariant that looks at moderation."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataflows.social.docket import Docket
from dataflows.social.domain import labels
from dataflows.social.domain.moderation import Ruling, Target
from sinks.postgres import owner_connection
from tests.gate import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dataflows.social.domain.labels import Labels
    from dataflows.social.domain.moderation import Current
    from tests.servers import World

pytestmark = pytest.mark.servers
INVARIANT: Final = (resources.files("reconciliation.social") / "invariants" / "social_moderation.sql").read_bytes()
_POST: Final = Target("po_judged", "post", "u_writes")
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
    with owner_connection.connect(stack.addresses.postgres_superuser_dsn, "moderation") as made:
        yield made


class Chain:
    """The decisions about one object, by the functions and rows that its case's owner has."""

    def __init__(self) -> None:
        self.docket = Docket(lambda _: [])
        self.rulings: list[Ruling] = []

    @property
    def standing(self) -> tuple[Current | None, Labels]:
        """What is in force."""
        return self.docket.currents.get(_POST.object_id), self.docket.labels(_POST.object_id)

    def take(self, said: dict[str, Any]) -> None:
        """One decision; nothing where it is refused."""
        said = {"label": None} | said
        current, given = self.standing
        if labels.why_not(said, given) is not None:
            return
        version = len(self.rulings) + 1
        ruling = Ruling(
            decision_id=f"mo_{version}",
            object_id=_POST.object_id,
            author_id=_POST.author_id,
            decision=said["decision"],
            reason="abuse",
            policy_version=1,
            label=said["label"],
            expires_at=None,
            supersedes=labels.superseded(said, current, given),
            moderator="u_moderates",
            version=version,
            created_at=0,
            beside=labels.is_beside(said),
        )
        self.docket.rule(_POST, ruling)
        self.rulings.append(ruling)

    def end(self, number: int) -> None:
        """The end of an earlier decision; nothing where another one has its place."""
        if number < len(self.rulings):
            undoing = labels.undoing(self.rulings[number], *self.standing)
            if undoing is not None:
                self.take(undoing)


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
        for statement, columns in chain.docket.writes():
            connection.execute(statement, columns)
        assert connection.execute("select count(*) from moderation_decision").fetchone() == (len(chain.rulings),)
        assert connection.execute(INVARIANT).fetchall() == []
