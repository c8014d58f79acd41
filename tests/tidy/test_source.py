"""The Python source checks itself: sizes, names, and what may not be called where. Rules nobody enforces are not rules."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

import pytest

from tests.tidy import tree

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
BANNED_NAMES = re.compile(r"(^|_)(utils?|helpers?|manager|base|common|misc)(_|$)", re.IGNORECASE)
# Files that may catch every exception, and why each must.
# Longer modules of today. A number here may only shrink, and a module leaves when it fits.
LONGER_MODULES = {"tests/contracts/test_clickhouse_front.py": 520}
TABLES = {"schemas/limits.py": "every bound stands in one module, so that nobody searches"}
CATCH_ALL = {
    "schemas/codec.py": "hostile bytes fail in many ways that all mean one thing: park the record",
    "dataflows/owner/drivers.py": "Bytewax wraps whatever user code raised",
    "dataflows/owner/parking.py": "whatever a command can provoke must not stop its partition",
    "dataflows/owner/process.py": "a lane hands its failure to the thread that started it",
    "dataflows/owner/reader.py": "the reading thread hands its failure to the committing thread",
    "dataflows/payments/attempts/lane.py": "one attempt's failure must not stop the worker",
    "vault/app.py": "no message of any exception may reach a log: it could quote a card number",
    "limiter/synchronous.py": "whoever made the limiter waits for its thread, and gets its failure",
    "ingress/coalescer.py": "whoever waits for an answer gets the failure",
    "compose/cli/demo.py": "the demo's last line tells the outcome, whatever it was",
    "compose/demo/doors.py": "whoever waits for a line's answer gets the failure",
    "compose/stack/kafka_jars.py": "the resolver raises what it likes; the message says what to do",
    "compose/simulator/writer.py": "the writer hands its failure to every operation that waits for it",
    "compose/supervise/supervisor.py": "the supervisor outlives whatever one of its steps raises",
}
PYTHON = tree.sources(*tree.PACKAGES, "tests")


@pytest.mark.parametrize("file", PYTHON)
def test_a_module_fits_in_the_head(file: str) -> None:
    lines = len(tree.text(file).splitlines())
    assert lines <= LONGER_MODULES.get(file, MODULE_LINES_MAX) or file in TABLES
    assert file not in LONGER_MODULES or lines > MODULE_LINES_MAX, "it fits now: take it off the list"


def functions(file: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [n for n in ast.walk(tree.parsed(file)) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]


@pytest.mark.parametrize("file", PYTHON)
def test_a_function_fits_on_a_screen(file: str) -> None:
    long = [
        f"{tree.marked(file, n)} {n.name}" for n in functions(file) if n.end_lineno - n.lineno >= FUNCTION_LINES_MAX
    ]  # type: ignore[operator]  # parsed from text
    assert not long


def test_names_say_what_things_are() -> None:
    modules = [f for f in PYTHON if any(BANNED_NAMES.search(part.removesuffix(".py")) for part in f.split("/"))]
    classes = [
        tree.marked(file, n)
        for file in PYTHON
        for n in ast.walk(tree.parsed(file))
        if isinstance(n, ast.ClassDef) and re.search(r"(Utils?|Helpers?|Manager|Base|Common)$", n.name)
    ]
    assert not modules + classes


def catches_all(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(k is None or (isinstance(k, ast.Name) and k.id in ("Exception", "BaseException")) for k in kinds)


def reraises(handler: ast.ExceptHandler) -> bool:
    """True when the handler's last word is a bare raise: it cleans up and swallows nothing."""
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def catch_alls() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for file in tree.sources():
        for node in ast.walk(tree.parsed(file)):
            if isinstance(node, ast.ExceptHandler) and catches_all(node) and not reraises(node):
                found[file].append(tree.marked(file, node))
    return found


def test_exceptions_are_caught_by_name() -> None:
    """``except Exception`` stands where a list above says why; a file that needs it no more leaves the list."""
    assert {f: places for f, places in catch_alls().items() if f not in CATCH_ALL} == {}
    assert sorted(set(CATCH_ALL) - set(catch_alls())) == []


def calls(file: str, *names: str) -> list[str]:
    return [
        tree.marked(file, n)
        for n in ast.walk(tree.parsed(file))
        if isinstance(n, ast.Call) and ast.unparse(n.func) in names
    ]


def test_tests_wait_for_conditions_never_for_time() -> None:
    """``tests.eventually`` polls; a sleep is too long on a fast machine and too short on a busy one."""
    waiting = [c for f in tree.sources("tests") if f != "tests/eventually.py" for c in calls(f, "time.sleep", "sleep")]
    assert not waiting


def test_the_domain_counts_in_integers() -> None:
    """Rule: money is never a float. No float name, no float literal, no true division."""
    found = []
    for file in [f for f in tree.sources() if f.startswith("dataflows/domain/") or f == "schemas/currency.py"]:
        for node in ast.walk(tree.parsed(file)):
            is_name = isinstance(node, ast.Name) and node.id in ("float", "Decimal", "round")
            is_literal = isinstance(node, ast.Constant) and isinstance(node.value, float)
            if is_name or is_literal or isinstance(node, ast.Div):
                found.append(tree.marked(file, node))
    assert not found


def test_the_domain_knows_no_time_and_no_chance() -> None:
    """import-linter forbids the modules; this forbids asking for them in other ways."""
    for file in [f for f in tree.sources() if f.startswith("dataflows/domain/")]:
        imported = [n for n in ast.walk(tree.parsed(file)) if isinstance(n, (ast.Import, ast.ImportFrom))]
        names = {n.module if isinstance(n, ast.ImportFrom) else a.name for n in imported for a in n.names}
        allowed = ("__future__", "typing", "collections.abc", "msgspec", "schemas", "dataflows.domain")
        assert all(str(name).startswith(allowed) for name in names), (file, names)


def test_every_bound_is_used() -> None:
    """A limit that nothing reads bounds nothing."""
    names = [n.target.id for n in tree.parsed("schemas/limits.py").body if isinstance(n, ast.AnnAssign)]  # type: ignore[union-attr]  # names
    others = [f for f in tree.files() if f.endswith((".py", ".sql", ".yml")) and f != "schemas/limits.py"]
    words = set(re.findall(r"\w+", "\n".join(tree.text(f) for f in others)))
    inside = tree.text("schemas/limits.py")
    unused = [n for n in names if n not in words and len(re.findall(rf"\b{n}\b", inside)) == 1]
    assert len(names) == len(set(names))
    assert not unused


def test_every_metric_is_defined_once_and_named_alike() -> None:
    defined: dict[str, list[str]] = defaultdict(list)
    for file in tree.sources():
        for node in ast.walk(tree.parsed(file)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Counter", "Gauge", "Histogram", "Summary"):
                name = node.args[0] if node.args else None
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    defined[name.value].append(tree.marked(file, node))
    assert defined
    assert {n: places for n, places in defined.items() if len(places) > 1} == {}
    assert [n for n in defined if not re.fullmatch(r"(millrace|simulator)_[a-z_]+", n)] == []


@pytest.mark.parametrize("file", tree.sources())
def test_a_module_says_what_it_is_for(file: str) -> None:
    has_code = bool(tree.parsed(file).body)
    assert not has_code or ast.get_docstring(tree.parsed(file))
