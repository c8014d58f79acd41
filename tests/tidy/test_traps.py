"""The tables of traps, and of what only the proof runs, and the proof itself, name tests that exist.

Every trap has one, or says that it is open.
"""

from __future__ import annotations

import ast
import re

from tests.tidy import tree

ROWS = re.findall(r"^\| (\d+|always)[.:] [^|]*\| ([^|]*)\|$", tree.text("tests/traps/README.md"), re.MULTILINE)
IDS = re.compile(r"[`\"](tests/[\w/]+\.py)::(\w+)[`\"]")
NAMING = ("tests/traps/README.md", "tests/PROOF.md", "tests/proof.py")
NUMBERS = tuple(str(number) for number in range(1, 11))
OF_MONEY_AND_TENANTS = (*NUMBERS, "always")
TRAPS = (*OF_MONEY_AND_TENANTS, *NUMBERS, *OF_MONEY_AND_TENANTS, *NUMBERS, "11", "12")  # the limiter's, those of posts


def test_every_trap_is_proved_by_a_test_that_exists() -> None:
    """A test function, or the class that a state machine of Hypothesis is run as."""
    named = IDS.findall("".join(map(tree.text, NAMING)))
    tree.nothing_in(
        [] if tuple(trap for trap, _ in ROWS) == TRAPS else [f"the rows are {[trap for trap, _ in ROWS]}"],
        [f"trap {trap} has no test" for trap, tests in ROWS if not IDS.search(tests) and not tests.startswith("open")],
        [f"{file}::{name} is named and does not exist" for file, name in named if name not in proofs_in(file)],
    )


def proofs_in(file: str) -> set[str]:
    if file not in tree.files(".py"):
        return set()
    body = tree.parsed(file).body
    functions = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    machines = {t.id for node in body if isinstance(node, ast.Assign) for t in node.targets if isinstance(t, ast.Name)}
    return {name for name in functions | machines if name.startswith(("test_", "Test"))}
