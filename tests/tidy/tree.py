"""The files of the project as its own tests read them."""

from __future__ import annotations

import ast
import gc
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("schemas", "dataflows", "sinks", "ingress", "reconciliation", "vault", "limiter", "compose")
HERE: Final = "tests/tidy/"  # its files name what they forbid


@cache
def files(suffix: str = "") -> list[str]:
    """Every file that is, or would be, in the repository, by its path from the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted(f for f in listed if f and f.endswith(suffix) and (ROOT / f).is_file())


@cache
def text(file: str) -> str:
    """The content of a file; empty for one that is not text."""
    try:
        return (ROOT / file).read_text()
    except UnicodeDecodeError:
        return ""


def sources(*folders: str) -> list[str]:
    """Python files of these top-level folders, of all packages when none is given."""
    return [f for f in files(".py") if f.split("/")[0] in (folders or PACKAGES)]


@cache
def parsed(file: str) -> ast.Module:
    """The syntax tree of a Python file."""
    gc.disable()  # trees stay until the end of the run: looking through them again and again took as long as parsing
    try:
        return ast.parse(text(file), file)
    finally:
        gc.freeze()
        gc.enable()


@cache
def nodes(file: str) -> list[ast.AST]:
    """Every node of that tree: many rules look at them."""
    return list(ast.walk(parsed(file)))


def nothing_in(*offences: list[str]) -> None:
    """Fails with all that the rules of one test found, a line each: whoever repairs one sees the others too."""
    found = [line for rule in offences for line in rule]
    if found:
        pytest.fail("\n".join((f"{len(found)} found", *found)), pytrace=False)


def marked(file: str, node: ast.AST) -> str:
    """A place as editors open it."""
    return f"{file}:{getattr(node, 'lineno', 1)}"
