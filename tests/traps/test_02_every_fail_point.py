"""The places where a crash is tried are all the places where a crash was thought of, and each of them is tried.

Trap 2: a crash between "created" and "sent", or after the send and before the record. The kills themselves are in
tests/faults, one parametrized test for each process; here nothing may be left out.
"""

from __future__ import annotations

import ast

from dataflows.owner import fail_points
from tests.faults import test_owner_faults
from tests.tidy import tree


def texts(*files: str) -> set[str]:
    """Every text constant of these files."""
    return {
        node.value
        for file in files
        for node in tree.nodes(file)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def prefixes() -> set[str]:
    """Beginnings of fail points that are named by the step they are passed at: ``reach(f"repair_{step}")``."""
    return {
        str(part.value)
        for file in tree.sources()
        for call in tree.nodes(file)
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("reach")
        for name in call.args
        if isinstance(name, ast.JoinedStr)
        for part in name.values[:1]
        if isinstance(part, ast.Constant)
    }


def test_every_fail_point_is_passed_by_the_code() -> None:
    said = texts(*(f for f in tree.sources() if f != "dataflows/owner/fail_points.py"))
    said |= {prefix + step for prefix in prefixes() for step in said}
    assert set(fail_points.NAMES) - said == set()


def test_every_fail_point_is_killed_at_by_a_test() -> None:
    tests = [f for f in tree.sources("tests") if not f.startswith(("tests/traps/", "tests/unit/", "tests/property/"))]
    killed_at = {text.partition(":")[0] for text in texts(*tests)} | set(test_owner_faults.OWNER_POINTS)
    assert set(fail_points.NAMES) - killed_at == set()


def test_nothing_is_killed_at_a_place_that_has_no_name() -> None:
    """A name that is passed without being listed could never be armed."""
    passed = {
        node.args[0].value
        for file in tree.sources()
        for node in tree.nodes(file)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith(("fail_points.reach", "fail_point"))
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }
    assert passed
    assert passed - set(fail_points.NAMES) == set()
