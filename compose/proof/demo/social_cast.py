"""Who follows whom, and what they say: a slice of a real graph and real posts, or generated ones."""

from __future__ import annotations

import csv
import gzip
import random
import zlib
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from compose.proof import limits
from compose.stack.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

EDGES_FILE: Final = "musae_git_edges.csv.gz"  # a pair of numbers a line: mutual follows, SNAP's musae-github
TEXTS_FILE: Final = "posts_emoji_val.txt"  # a post a line, tweeteval's
_WANTED: Final = f"give --social a folder with {EDGES_FILE} and {TEXTS_FILE}"
_SEED: Final = 37_700
_CHANCE: Final = 0.3  # of an edge between two who are generated
_WORDS: Final = ("rain", "harbour", "morning", "bread", "train", "window", "garden", "music", "evening", "salt")


@dataclass(frozen=True, slots=True)
class Cast:
    """Users by number, and their texts, one each. ``follows``: pairs (who, whom)."""

    follows: frozenset[tuple[int, int]]
    texts: tuple[str, ...]

    def followers(self, user: int) -> list[int]:
        """Who follows a user."""
        return sorted(one for one, other in self.follows if other == user)

    def followed(self, user: int) -> list[int]:
        """Whom a user follows."""
        return sorted(other for one, other in self.follows if one == user)


def read_cast(folder: Path) -> Cast:
    """The neighbourhood of the user whom most follow. Raises ``StackError`` that names the file which is not one."""
    try:
        return _slice(folder)
    except OSError as error:
        raise StackError(f"cannot read {error.filename or folder}: {error.strerror or error}; {_WANTED}") from error
    except (ValueError, EOFError, zlib.error, csv.Error) as error:
        raise StackError(f"the files in {folder} are of another form ({error}); {_WANTED}") from error


def _slice(folder: Path) -> Cast:
    with gzip.open(folder / EDGES_FILE, "rt", encoding="utf-8", newline="") as lines:
        rows = [(int(one), int(other)) for one, other in csv.reader(lines)]
    neighbours: dict[int, set[int]] = defaultdict(set)
    for one, other in rows:
        neighbours[one].add(other)
        neighbours[other].add(one)
    if not neighbours:
        raise ValueError("nobody follows anybody")
    centre = max(neighbours, key=lambda user: (len(neighbours[user]), -user))
    # those of its neighbours who know most of the others: a slice with something in it
    near = sorted(neighbours[centre], key=lambda user: (-len(neighbours[user] & neighbours[centre]), user))
    chosen = [centre, *near[: limits.DEMO_USERS - 1]]
    number = {user: n for n, user in enumerate(chosen)}
    edges = [(number[one], number[other]) for one, other in rows if one in number and other in number]
    texts = (folder / TEXTS_FILE).read_text(encoding="utf-8").splitlines()
    return _cast(edges, texts[: limits.DEMO_USERS])


def generated_cast() -> Cast:
    """Always the same."""
    source, users = random.Random(_SEED), range(limits.DEMO_USERS)
    edges = [(one, other) for one in users for other in users if one < other and (not one or source.random() < _CHANCE)]
    return _cast(edges, [" ".join(source.sample(_WORDS, 5)) for _ in users])


def _cast(edges: Iterable[tuple[int, int]], texts: list[str]) -> Cast:
    pairs = {pair for one, other in edges for pair in ((one, other), (other, one)) if one != other}
    if len(texts) < limits.DEMO_USERS or len({user for pair in pairs for user in pair}) < limits.DEMO_USERS:
        raise ValueError(f"the files hold fewer than {limits.DEMO_USERS} users with texts")
    return Cast(frozenset(pairs), tuple(texts))
