"""Who plays the social act: a slice of a graph that was measured, with texts that were written, or a line that says why not."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from compose.proof import limits
from compose.proof.demo.social_cast import EDGES_FILE, TEXTS_FILE, generated_cast, read_cast
from compose.stack.errors import StackError

if TYPE_CHECKING:
    from pathlib import Path

USERS = limits.DEMO_USERS
TEXTS = [f"what the {n}th says" for n in range(USERS + 3)]


def folder_with(folder: Path, edges: str, texts: list[str] = TEXTS) -> Path:
    """As the two files lie beside one another where they were downloaded."""
    (folder / EDGES_FILE).write_bytes(gzip.compress(edges.encode()))
    (folder / TEXTS_FILE).write_text("\n".join(texts), encoding="utf-8")
    return folder


def test_the_most_followed_and_those_of_its_neighbours_who_know_one_another(tmp_path: Path) -> None:
    """Others, strangers of the centre above all, do not come in, however many they know."""
    clique = [(one, other) for one in range(1, USERS) for other in range(one + 1, USERS)]
    acquaintances = [(0, 100 + n) for n in range(5)]  # of the centre alone
    strangers = [(500, 600 + n) for n in range(USERS)]
    edges = [*((0, n) for n in range(1, USERS)), *clique, *acquaintances, *strangers, (3, 3)]
    cast = read_cast(folder_with(tmp_path, "\n".join(f"{one},{other}" for one, other in edges)))
    assert cast.texts == tuple(TEXTS[:USERS])
    assert cast.followers(0) == list(range(1, USERS))
    assert cast.follows == {(one, other) for one in range(USERS) for other in range(USERS) if one != other}


def test_everybody_who_is_generated_follows_somebody_and_is_followed() -> None:
    cast = generated_cast()
    assert len(cast.texts) == USERS
    assert all(cast.followers(user) == cast.followed(user) != [] for user in range(USERS))


@pytest.mark.parametrize(
    ("edges", "texts", "said"),
    [
        ("0,1,2", TEXTS, "are of another form"),
        ("id_1,id_2", TEXTS, "are of another form"),
        ("", TEXTS, "nobody follows anybody"),
        ("0,1", TEXTS, f"fewer than {USERS} users"),
        ("\n".join(f"0,{n}" for n in range(1, USERS)), TEXTS[:3], f"fewer than {USERS} users"),
    ],
    ids=["three columns", "a title", "empty", "two users", "three texts"],
)
def test_files_of_another_form_are_told_in_one_line(tmp_path: Path, edges: str, texts: list[str], said: str) -> None:
    with pytest.raises(StackError, match=said) as told:
        read_cast(folder_with(tmp_path, edges, texts))
    assert EDGES_FILE in str(told.value)
    assert "\n" not in str(told.value)


def test_a_file_that_is_missing_or_cut_is_told_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(StackError, match=f"cannot read .*{EDGES_FILE}"):
        read_cast(tmp_path)
    folder_with(tmp_path, "0,1\n" * 100)
    whole = (tmp_path / EDGES_FILE).read_bytes()
    (tmp_path / EDGES_FILE).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StackError, match="another form"):
        read_cast(tmp_path)
    (tmp_path / EDGES_FILE).write_text("0,1\n")  # not packed
    with pytest.raises(StackError, match="cannot read"):
        read_cast(tmp_path)
