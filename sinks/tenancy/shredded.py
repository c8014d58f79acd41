"""The tenants whose keys were destroyed, in a file beside the root keys, not in the database.

A database that is put back from before has their keys again, and opens nothing of theirs: who unwraps keys looks here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sinks.gone_for_ever import GoneForEver

if TYPE_CHECKING:
    from pathlib import Path

NAME: Final = "tenancy_shredded"


class Shredded(GoneForEver):
    """Those of one home."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, NAME)
