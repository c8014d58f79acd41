"""What the documents say exists: links, commands, targets, folders, files."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import PurePosixPath

import pytest

from compose.cli import COMMANDS
from tests.tidy import tree

DOCUMENTS = tree.files(".md")
MAKEFILE_TARGETS = set(re.findall(r"^(\w+):", tree.text("Makefile"), re.MULTILINE))


@pytest.mark.parametrize("folder", [*tree.PACKAGES, "tests"])
def test_every_top_folder_explains_itself_on_one_screen(folder: str) -> None:
    assert f"{folder}/README.md" in tree.files()
    assert len(tree.text(f"{folder}/README.md").splitlines()) <= 90


@pytest.mark.parametrize("file", DOCUMENTS)
def test_links_lead_somewhere(file: str) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", tree.text(file))
    local = [t for t in targets if not re.match(r"[a-z]+:", t)]
    here = (tree.ROOT / file).parent
    assert [t for t in local if not (here / t).exists()] == []


@pytest.mark.parametrize("file", DOCUMENTS)
def test_commands_in_documents_exist(file: str) -> None:
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", tree.text(file), re.DOTALL))
    subcommands = set(re.findall(r"\bmillrace ([a-z]+)\b", code))
    targets = set(re.findall(r"\bmake ([a-z]+)\b", code))
    assert subcommands - set(COMMANDS) == set()
    assert targets - MAKEFILE_TARGETS == set()


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_its_module(command: str) -> None:
    assert find_spec(f"compose.cli.{command}")


PATHS = re.compile(r"`((?:" + "|".join((*tree.PACKAGES, "tests", "requirements")) + r")/[\w./*-]+)`")


@pytest.mark.parametrize("file", DOCUMENTS)
def test_paths_in_documents_exist(file: str) -> None:
    known = [PurePosixPath(f) for f in tree.files()]
    folders = {str(parent) for f in known for parent in f.parents}
    missing = [
        named
        for named in PATHS.findall(tree.text(file))
        if named.rstrip("/") not in folders and not any(f.match(named) or f.match(f"{named}.py") for f in known)
        and not any(f.match(f"{named}*") for f in known)
    ]  # fmt: skip
    assert missing == []


def test_markdown_has_one_title_and_it_comes_first() -> None:
    for file in DOCUMENTS:
        outside = re.sub(r"```.*?```", "", tree.text(file), flags=re.DOTALL)
        titles = [line for line in outside.splitlines() if line.startswith("# ")]
        assert len(titles) == 1, file
        assert tree.text(file).startswith("# "), file
