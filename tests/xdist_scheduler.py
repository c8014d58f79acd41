"""Which tests go to a worker together: those of a file, and all that read the syntax trees of our sources."""

from __future__ import annotations

from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdist.remote import Producer
    from xdist.scheduler.protocol import Scheduling
    from xdist.workermanage import WorkerController

_ROOT: Final = Path(__file__).parents[1]
_OF_TREES: Final = "tests.tidy"


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Ours for ``--dist loadfile``, else xdist's."""
    return ByFileAndTrees(config, log) if config.getvalue("dist") == "loadfile" else None


class ByFileAndTrees(LoadFileScheduling):
    """By file; trees are made once for all rules about them, which takes as long as the rules."""

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """As ever; xdist looks for each test of a file from the first of all on, and would compare for seconds."""
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = _Places(collection)

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return _OF_TREES if _reads_trees(file) else file


class _Places(list[str]):
    """Tests of which each is there once, and known by its place."""

    @cached_property
    def _place_of(self) -> dict[str, int]:
        return {test: place for place, test in enumerate(self)}

    def index(self, test: str, *_: object) -> int:
        return self._place_of[test]


@cache
def _reads_trees(file: str) -> bool:
    return "from tests.tidy import tree" in (_ROOT / file).read_text()
