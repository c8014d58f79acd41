"""Small wrongs in a module's source, one per mutant: operators, constants, swapped sides of a posting, dropped lines."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

_COMPARE: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
_CALLS: Final = {"max": "min", "min": "max", "any": "all", "all": "any"}
#: functions whose first two arguments are the two sides of money
_SIDES: Final = frozenset({"transfer", "LedgerEntry", "Parties"})


Change = Callable[[Any], object]


class Mutant(NamedTuple):
    """A module with one wrong in it."""

    line: int
    what: str
    source: str


def mutants_of(source: str) -> list[Mutant]:
    """All mutants of a module, in the order of its lines. Texts for people are left alone: no test should know them."""
    tree = ast.parse(source)
    places = list(ast.walk(tree))
    skipped = {id(part) for node in places for part in _not_code(node)}
    found = []
    for number, node in enumerate(places):
        if id(node) in skipped:
            continue
        for what, change in _changes(node):
            mutated = copy.deepcopy(tree)
            change(list(ast.walk(mutated))[number])
            text = ast.unparse(ast.fix_missing_locations(mutated))
            found.append(Mutant(getattr(node, "lineno", 0), what, text))
    return sorted(found)


def _not_code(node: ast.AST) -> Iterator[ast.AST]:
    """Docstrings, annotations and defaults of types: what is never carried out, or only read by people."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node.value
    annotations = [getattr(node, name, None) for name in ("annotation", "returns")]
    for annotation in annotations:
        if isinstance(annotation, ast.AST):
            yield from ast.walk(annotation)


def _changes(node: ast.AST) -> Iterator[tuple[str, Change]]:
    for kind, changes in _CHANGES.items():
        if isinstance(node, kind):
            yield from changes(node)


def _compared(node: ast.Compare) -> Iterator[tuple[str, Change]]:
    op = node.ops[0]
    other = _COMPARE[type(op)]
    yield f"{_name(op)} -> {other.__name__}", lambda n: n.ops.__setitem__(0, other())


def _reckoned(node: ast.BinOp) -> Iterator[tuple[str, Change]]:
    other = _ARITHMETIC.get(type(node.op))
    if other is not None:
        yield f"{_name(node.op)} -> {other.__name__}", lambda n: setattr(n, "op", other())


def _joined(_: ast.BoolOp) -> Iterator[tuple[str, Change]]:
    yield "and <-> or", lambda n: setattr(n, "op", ast.Or() if isinstance(n.op, ast.And) else ast.And())


def _signed(node: ast.UnaryOp) -> Iterator[tuple[str, Change]]:
    if isinstance(node.op, ast.USub):
        yield "minus dropped", lambda n: setattr(n, "op", ast.UAdd())
    if isinstance(node.op, ast.Not):
        yield "not dropped", lambda n: setattr(n, "operand", ast.UnaryOp(ast.Not(), n.operand))


def _chosen(_: ast.IfExp) -> Iterator[tuple[str, Change]]:
    yield "branches swapped", lambda n: n.__dict__.update(body=n.orelse, orelse=n.body)


def _branched(_: ast.If) -> Iterator[tuple[str, Change]]:
    yield "condition always false", lambda n: setattr(n, "test", ast.Constant(value=False))


def _constant(node: ast.Constant) -> Iterator[tuple[str, Change]]:
    match node.value:
        case bool():
            yield f"{node.value} -> {not node.value}", lambda n: setattr(n, "value", not n.value)
        case int():
            yield f"{node.value} -> {node.value + 1}", lambda n: setattr(n, "value", n.value + 1)
        case str() if node.value and " " not in node.value:
            yield f"{node.value!r} -> another text", lambda n: setattr(n, "value", n.value + "x")


def _called(node: ast.Call) -> Iterator[tuple[str, Change]]:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name in _SIDES and len(node.args) > 1:
        yield f"sides of {name} swapped", lambda n: n.args.__setitem__(slice(0, 2), n.args[1::-1])
    if name in _CALLS:
        yield f"{name} -> {_CALLS[name]}", lambda n: setattr(n.func, "id", _CALLS[name])


def _listed(node: ast.List | ast.Tuple) -> Iterator[tuple[str, Change]]:
    for place, element in enumerate(node.elts):
        if isinstance(element, ast.Starred):
            yield f"part {place} of a posting dropped", lambda n, p=place: n.elts.pop(p)


_CHANGES: Final[dict[Any, Callable[[Any], Iterator[tuple[str, Change]]]]] = {
    ast.Compare: _compared,
    ast.BinOp: _reckoned,
    ast.BoolOp: _joined,
    ast.UnaryOp: _signed,
    ast.IfExp: _chosen,
    ast.If: _branched,
    ast.Constant: _constant,
    ast.Call: _called,
    (ast.List, ast.Tuple): _listed,
}


def _name(part: ast.AST) -> str:
    return type(part).__name__
