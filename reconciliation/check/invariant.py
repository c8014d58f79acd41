"""The invariants as files: one .sql each, which returns the violating rows, with its identity in the first comments.

``source: postgres`` runs as it stands; ``source: comparison`` is our side of a comparison with another store.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final, Literal, cast

from schemas.services import SERVICES

_FIELDS: Final = ("id", "title", "severity", "owner", "source")


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """What must hold, how bad it is when it does not, and who is to be called."""

    id: str
    title: str
    severity: Literal["critical", "major"]
    owner: str
    source: Literal["postgres", "comparison"]
    sql: str


@cache
def invariants() -> tuple[Invariant, ...]:
    """Every invariant, in the order of its file. Raises ValueError on a file without identity, or an id given twice."""
    packages = ("reconciliation.check", *(service.package("reconciliation") for service in SERVICES))
    folders = [resources.files(package) / "invariants" for package in packages]
    files = sorted((file for folder in folders for file in folder.iterdir()), key=lambda file: file.name)
    found = [_parse(file.name, file.read_text()) for file in files if file.name.endswith(".sql")]
    ids = [invariant.id for invariant in found]
    if len(set(ids)) != len(ids):
        raise ValueError(f"an invariant's id is given twice: {ids}")
    return tuple(found)


def _parse(file: str, text: str) -> Invariant:
    lines = text.splitlines()
    front = dict(line.removeprefix("-- ").split(": ", 1) for line in lines[: len(_FIELDS)])
    if tuple(front) != _FIELDS or front["severity"] not in ("critical", "major"):
        raise ValueError(f"{file} must begin with the comments {', '.join(_FIELDS)}")
    return Invariant(
        id=front["id"],
        title=front["title"],
        severity=cast("Literal['critical', 'major']", front["severity"]),
        owner=front["owner"],
        source=cast("Literal['postgres', 'comparison']", front["source"]),
        sql="\n".join(line for line in lines if not line.startswith("--")),
    )
