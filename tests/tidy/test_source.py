"""The Python source checks itself: sizes, names, and what may not be called where. Rules nobody enforces are not rules."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter, defaultdict
from functools import cache

from tests.tidy import tree

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
# What is a credential, or an address that has one in it.
SECRET_NAMES = re.compile(r"(^|_)(passwords?|secret|dsn|redis_url|clickhouse_url|homes_url)$")
BANNED_NAMES = re.compile(r"(^|_)(utils?|helpers?|manager|base|common|misc)(_|$)", re.IGNORECASE)
# Files that may catch every exception, and why each must.
CATCH_ALL = {
    "schemas/avro/codec.py": "hostile bytes fail in many ways that all mean one thing: park the record",
    "dataflows/owner/drivers.py": "Bytewax wraps whatever user code raised",
    "dataflows/owner/transaction/parking.py": "whatever a command can provoke must not stop its partition",
    "dataflows/owner/process.py": "a lane hands its failure to the thread that started it",
    "dataflows/owner/reading/reader.py": "the reading thread hands its failure to the committing thread",
    "dataflows/streams/read_ahead.py": "the reading thread hands its failure to whoever takes what it read",
    "dataflows/social/media/sandbox.py": "a decoder raises anything of hostile bytes; its end is a status",
    "dataflows/social/media/scanner.py": "a medium that ends its scanner would end the next one, too",
    "dataflows/payments/attempts/lane.py": "one attempt's failure must not stop the worker",
    "sinks/clickhouse/sink.py": "nobody waits for a sink's thread: it begins again by itself, and tells why",
    "vault/app.py": "no message of any exception may reach a log: it could quote a card number",
    "limiter/decide/synchronous.py": "whoever made the limiter waits for its thread, and gets its failure",
    "ingress/http/coalescer.py": "whoever waits for an answer gets the failure",
    "compose/cli/proof/demo.py": "the demo's last line tells the outcome, whatever it was",
    "compose/proof/kit/command_senders.py": "whoever waits for a line's answer gets the failure",
    "compose/stack/kafka_jars.py": "the resolver raises what it likes; the message says what to do",
    "compose/simulator/book/writer.py": "the writer hands its failure to every operation that waits for it",
    "compose/supervise/supervisor.py": "the supervisor outlives whatever one of its steps raises",
}
PYTHON = tree.sources(*tree.PACKAGES, "tests")


def long_modules(file: str) -> list[str]:
    lines = len(tree.text(file).splitlines())
    return [] if lines <= MODULE_LINES_MAX else [f"{file}: {lines} lines are too many for one module"]


def long_functions(file: str) -> list[str]:
    functions = [n for n in tree.nodes(file) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    long = [n for n in functions if (n.end_lineno or n.lineno) - n.lineno >= FUNCTION_LINES_MAX]
    return [f"{tree.marked(file, n)}: {n.name} does not fit on a screen" for n in long]


def test_a_module_fits_in_the_head_and_a_function_on_a_screen() -> None:
    tree.nothing_in(*(rule(file) for rule in (long_modules, long_functions) for file in PYTHON))


def meaningless_names(file: str) -> list[str]:
    module = [file] if any(BANNED_NAMES.search(part.removesuffix(".py")) for part in file.split("/")) else []
    classes = [
        tree.marked(file, n)
        for n in tree.nodes(file)
        if isinstance(n, ast.ClassDef) and re.search(r"(Utils?|Helpers?|Manager|Base|Common)$", n.name)
    ]
    return [f"{place}: its name does not say what it is" for place in module + classes]


def without_purpose(file: str) -> list[str]:
    module = tree.parsed(file)
    silent = module.body and not ast.get_docstring(module)
    return [f"{file}: does not say in its docstring what it is for"] if silent else []


def test_names_say_what_things_are_and_modules_what_they_are_for() -> None:
    tree.nothing_in(*map(meaningless_names, PYTHON), *map(without_purpose, tree.sources()))


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
        for node in tree.nodes(file):
            if isinstance(node, ast.ExceptHandler) and catches_all(node) and not reraises(node):
                found[file].append(tree.marked(file, node))
    return found


def test_exceptions_are_caught_by_name() -> None:
    """``except Exception`` stands where a list above says why; a file that needs it no more leaves the list."""
    found = catch_alls()
    tree.nothing_in(
        [f"{place}: catches everything" for file in found if file not in CATCH_ALL for place in found[file]],
        [f"{file}: catches by name: take it off the list" for file in sorted(set(CATCH_ALL) - set(found))],
    )


def calls(file: str, *names: str) -> list[str]:
    last = {name.rpartition(".")[2] for name in names}
    return [
        tree.marked(file, n)
        for n in tree.nodes(file)
        if isinstance(n, ast.Call) and getattr(n.func, "id", getattr(n.func, "attr", "")) in last
        if ast.unparse(n.func) in names
    ]


def test_tests_wait_for_conditions_never_for_time() -> None:
    """``tests.eventually`` polls; a sleep is too long on a fast machine and too short on a busy one."""
    waiting = [c for f in tree.sources("tests") if f != "tests/eventually.py" for c in calls(f, "time.sleep", "sleep")]
    tree.nothing_in([f"{place}: sleeps" for place in waiting])


def inexact(file: str) -> list[str]:
    """Rule: money is never a float. No float name, no float literal, no true division."""
    found = []
    for node in tree.nodes(file):
        is_name = isinstance(node, ast.Name) and node.id in ("float", "Decimal", "round")
        is_literal = isinstance(node, ast.Constant) and isinstance(node.value, float)
        if is_name or is_literal or (isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div)):
            found.append(f"{tree.marked(file, node)}: money is counted in integers")
    return found


def impure_imports(file: str) -> list[str]:
    """import-linter forbids the modules of time and chance; this forbids asking for them in other ways."""
    imported = [n for n in tree.nodes(file) if isinstance(n, (ast.Import, ast.ImportFrom))]
    names = {n.module if isinstance(n, ast.ImportFrom) else a.name for n in imported for a in n.names}
    allowed = ("__future__", "typing", "collections.abc", "msgspec", "schemas", "dataflows.payments.domain")
    return [f"{file}: the domain imports {name}" for name in sorted(map(str, names)) if not name.startswith(allowed)]


def test_the_domain_counts_in_integers_and_knows_no_time_and_no_chance() -> None:
    domain = [f for f in tree.sources() if f.startswith("dataflows/payments/domain/")]
    tree.nothing_in(*map(inexact, (*domain, "schemas/fields/currency.py")), *map(impure_imports, domain))


def unread_bounds() -> list[str]:
    """A limit that nothing reads bounds nothing; two of one name are taken for each other."""
    modules = [f for f in tree.sources() if f.endswith("/limits.py")]
    places = [(n.target.id, f) for f in modules for n in tree.parsed(f).body if isinstance(n, ast.AnnAssign)]  # type: ignore[union-attr]  # names
    words = Counter(
        re.findall(r"\w+", "\n".join(tree.text(f) for f in tree.files() if f.endswith((".py", ".sql", ".yml"))))
    )
    named = Counter(name for name, _ in places)
    unread = [f"{file}: {name} is not read" for name, file in places if words[name] == 1]
    return unread + [f"{file}: another {name} stands elsewhere" for name, file in places if named[name] > 1]


def odd_metrics() -> list[str]:
    defined: dict[str, list[str]] = defaultdict(list)
    for file in tree.sources():
        for node in tree.nodes(file):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
                "Counter",
                "Gauge",
                "Histogram",
                "Summary",
            ):
                name = node.args[0] if node.args else None
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    defined[name.value].append(tree.marked(file, node))
    doubled = [f"{places}: {n} is defined more than once" for n, places in defined.items() if len(places) > 1]
    misnamed = [n for n in defined if not re.fullmatch(r"(millrace|simulator)_[a-z_]+", n)]
    none = [] if defined else ["no metric was found"]
    return none + doubled + [f"{defined[n]}: {n} is not named like the other metrics" for n in misnamed]


def test_every_bound_is_read_and_every_metric_is_defined_once_and_named_alike() -> None:
    tree.nothing_in(unread_bounds(), odd_metrics())


def test_every_module_of_the_platform_is_held_to_know_no_service() -> None:
    """A contract names its sources one by one: what is new beside the services' folders must be among them."""
    contracts = tomllib.loads(tree.text("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    (held,) = (set(one["source_modules"]) for one in contracts if one["name"] == "the platform knows no service")
    of_services = {
        module for one in contracts if one["name"].endswith("no other service") for module in one["source_modules"]
    }
    tops = ("schemas", "sinks", "dataflows", "ingress", "reconciliation")
    found = {tuple(file.removesuffix(".py").split("/")[:2]) for file in tree.sources(*tops)}
    modules = {f"{top}.{name}" for top, name in found if f"*.{name}" not in of_services and name != "__init__"}
    wanted = modules - of_services - {"sinks.clickhouse", "sinks.redis"}  # these hold folders or files of services
    assert (sorted(wanted - held), sorted(held - wanted)) == ([], [])


@cache
def own_names(file: str) -> set[str]:
    """What a module defines or imports, at its top and under conditions there."""
    found: set[str] = set()
    for node in tree.nodes(file):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(one.asname or one.name).partition(".")[0] for one in node.names}
    return found


def names_that_are_not_there(file: str) -> list[str]:
    """mypy does not read tests, and what the proof alone runs would tell it a night later."""
    modules: dict[str, str] = {}
    for node in tree.nodes(file):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for one in node.names:
                path = f"{node.module.replace('.', '/')}/{one.name}.py"
                modules |= {one.asname or one.name: path} if (tree.ROOT / path).is_file() else {}
    rebound = {n.arg for n in tree.nodes(file) if isinstance(n, ast.arg)}
    rebound |= {n.id for n in tree.nodes(file) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return [
        f"{tree.marked(file, n)}: {modules[n.value.id]} has no {n.attr}"
        for n in tree.nodes(file)
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id in modules.keys() - rebound
        if not n.attr.startswith("__") and n.attr not in own_names(modules[n.value.id])
    ]


def test_what_tests_name_in_a_module_of_ours_is_there() -> None:
    tree.nothing_in(*(names_that_are_not_there(file) for file in tree.sources("tests")))


def test_keys_of_tenants_are_opened_under_a_lease_alone() -> None:
    """Who opens them elsewhere would hold them unheard of: an owner and a rotation of root keys wrap, and keep none."""
    opens = {
        file
        for file in tree.sources()
        for node in tree.nodes(file)
        if isinstance(node, ast.Call)
        and (getattr(node.func, "attr", "") == "unwrap" or getattr(node.func, "id", "") == "TenantKey")
    }
    assert opens == {"dataflows/tenancy/mover/endings.py", "ingress/tenancy/tenants.py", "sinks/tenancy/root_keys.py"}


def shown_secrets(file: str) -> list[str]:
    return [
        f"{tree.marked(file, field)}: {ast.unparse(field.target)} would be in the repr of {record.name}"
        for record in tree.nodes(file)
        if isinstance(record, ast.ClassDef) and _has_a_repr_made(record)
        for field in record.body
        if isinstance(field, ast.AnnAssign) and SECRET_NAMES.search(ast.unparse(field.target))
        if field.value is None or "repr=False" not in ast.unparse(field.value)
    ]


def _has_a_repr_made(record: ast.ClassDef) -> bool:
    """By ``dataclass`` or ``Struct``, from all its fields."""
    makers = [ast.unparse(maker) for maker in (*record.decorator_list, *record.bases)]
    own = any(isinstance(part, ast.FunctionDef) and part.name == "__repr__" for part in record.body)
    return not own and any(re.match(r"(\w+\.)*(dataclass|Struct|NamedTuple)\b", maker) for maker in makers)


def test_no_repr_shows_a_secret() -> None:
    """Whatever prints an object, a traceback with local names or a log among others, prints its repr."""
    tree.nothing_in(*(shown_secrets(file) for file in tree.sources(*tree.PACKAGES)))
