"""Where bytes lie under names: the seam of media. A folder of this machine or a bucket; one suite tests both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol


class ObjectStore(Protocol):
    """Names are keys with slashes, made by ``MediaObjects`` alone. Every method raises OSError when it is away."""

    def keep(self, key: str, draft: Path) -> None:
        """The bytes of a finished file under this name, durable when it returns. A taken name keeps its bytes."""

    def exists(self, key: str) -> bool:
        """Whether there is such an object: whole, or not at all."""

    def chunks(self, key: str, part: tuple[int, int] | None = None) -> Iterator[bytes]:
        """Its bytes in bounded pieces: all, or from one to before another one of it. Raises FileNotFoundError."""

    def file(self, key: str) -> Path | None:
        """Where it is a file of this machine; None where it is none, or not there."""

    def delete(self, key: str) -> None:
        """It is not there afterwards."""

    def delete_all(self, keys: Sequence[str]) -> None:
        """None of them is there afterwards."""

    def delete_below(self, folder: str) -> None:
        """Nothing is there afterwards whose name begins with this and a slash."""

    def has_below(self, folder: str) -> bool:
        """Whether anything is there whose name begins with this and a slash."""
