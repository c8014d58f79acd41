"""Every file of the repository: no leftovers, nothing of one machine, and data files that agree with one another."""

from __future__ import annotations

import json
import re
import tomllib

from tests.tidy import tree

LEFTOVERS = re.compile(r"\b(FIXME|TODO)\b|#\s*XXX\b|<{7} |>{7} ")
ABOUT_TOOLS = re.compile(
    r"\b(claude|anthropic|openai|chatgpt|copilot|LLMs?|language model|AI (assistant|tool|agent|session)s?|"
    r"previous session|coding agent|system prompt|prompt engineering)\b",
    re.IGNORECASE,
)
MACHINE = re.compile(r"(?<![\w./~}-])/(root|work|home|Users)/[A-Za-z]|\bC:\\\\")
REGISTRIES = re.compile(
    r"\b(pypi\.org|pythonhosted\.org|repo1?\.maven(\.apache)?\.org|registry\.npmjs\.org|ghcr\.io|quay\.io|"
    r"(--)?(extra-)?index-url|find-links)\b"
)
TEXTS = [f for f in tree.files() if not f.startswith(tree.HERE)]
SCHEMAS = [file for file in tree.files(".avsc") if file.startswith("schemas/")]


def matching(pattern: re.Pattern[str], what: str) -> list[str]:
    return [
        f"{file}:{number}: {what}: {line.strip()[:80]}"
        for file in TEXTS
        if pattern.search(tree.text(file))  # in all of it at once, and a line at a time only to say where
        for number, line in enumerate(tree.text(file).splitlines(), 1)
        if pattern.search(line)
    ]


def ragged() -> list[str]:
    checked = [f for f in TEXTS if f.endswith((".py", ".sql", ".md", ".toml", ".avsc", ".yml")) and tree.text(f)]
    ends = [f for f in checked if not tree.text(f).endswith("\n") or tree.text(f).endswith("\n\n")]
    tabs = [f for f in checked if "\t" in tree.text(f)]
    return [f"{f}: must end with one newline" for f in ends] + [f"{f}: has tabs" for f in tabs]


def test_every_file_is_finished_speaks_of_the_system_only_and_of_no_one_machine() -> None:
    """Where packages come from is the installer's configuration, never ours."""
    tree.nothing_in(
        matching(LEFTOVERS, "left for later"),
        matching(ABOUT_TOOLS, "not about the system"),
        matching(MACHINE, "a path of one machine"),
        matching(REGISTRIES, "names a registry"),
        ragged(),
    )


def unpinned(file: str) -> list[str]:
    """One requirement is a line with == and the lines after it that begin with --hash."""
    logical = re.sub(r"\\\n\s*", " ", tree.text(file)).splitlines()
    requirements = [line for line in logical if line.strip() and not line.lstrip().startswith("#")]
    without_version = [line for line in requirements if not re.match(r"[A-Za-z0-9_.\[\]-]+==[^\s;]+", line)]
    without_hash = [line for line in requirements if not re.search(r"--hash=sha256:[0-9a-f]{64}", line)]
    empty = [] if requirements else [f"{file}: requires nothing"]
    versions = [f"{file}: has no version: {line[:80]}" for line in without_version]
    return empty + versions + [f"{file}: has no hash: {line[:80]}" for line in without_hash]


def unlocked() -> list[str]:
    project = tomllib.loads(tree.text("pyproject.toml"))["project"]
    wanted = [one for extra in project["optional-dependencies"].values() for one in extra] + project["dependencies"]
    locked = re.findall(r"^([A-Za-z0-9_.-]+)==", tree.text("requirements/dev.txt"), re.MULTILINE)
    names = {normal(re.split(r"[\[><=;~! ]", dependency)[0]) for dependency in wanted}
    return [f"pyproject.toml: {name} is not locked" for name in sorted(names - {normal(n) for n in locked})]


def normal(name: str) -> str:
    """A package's name as every index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_dependency_is_locked_with_its_version_and_hash() -> None:
    locks = [f for f in tree.files(".txt") if f.startswith("requirements/")]
    tree.nothing_in([] if locks else ["there is no lock"], *map(unpinned, locks), unlocked())


def schemas_apart_from_their_table() -> list[str]:
    table = json.loads(tree.text("schemas/avro/ids.json"))
    written = {f.rpartition("/")[2] for f in SCHEMAS}
    odd = written ^ {row["file"] for row in table.values() if "file" in row}
    stems = [f"{row['subject'].rpartition('-')[2]}.v{row['version']}" for row in table.values()]
    golden = [f"tests/contracts/golden_files/{stem}{end}" for stem in stems for end in (".bin", ".json")]
    missing = sorted(set(golden) - set(tree.files()))
    only_one = [f"{name}: is a schema, or has an id, but not both" for name in sorted(odd)]
    return only_one + [f"{file}: the golden bytes are missing" for file in missing]


def undocumented(file: str) -> list[str]:
    fields = fields_of(json.loads(tree.text(file)))
    silent = [field["name"] for field in fields if not field.get("doc") and not isinstance(field["type"], dict)]
    return [f"{file}: the field {name} does not say what it is" for name in silent]


def fields_of(schema: object) -> list[dict[str, object]]:
    """The fields of a schema and of every record inside it."""
    if isinstance(schema, list):
        return [field for part in schema for field in fields_of(part)]
    if not isinstance(schema, dict):
        return []
    own = schema.get("fields", [])
    inside = [field["type"] for field in own] + [schema.get("items"), schema.get("type")]
    return own + [field for part in inside for field in fields_of(part)]


def test_every_schema_has_an_id_and_golden_bytes_and_every_field_says_what_it_is() -> None:
    tree.nothing_in(schemas_apart_from_their_table(), *map(undocumented, SCHEMAS))


def silent_sql(file: str) -> list[str]:
    """A file of queries says of each who calls it, a file of statements begins with what it is for."""
    if "-- name: " not in tree.text(file):
        return [] if tree.text(file).lstrip().startswith("--") else [f"{file}: does not begin with what it is for"]
    blocks = re.split(r"^-- name: (\w+)$", tree.text(file), flags=re.MULTILINE)[1:]
    silent = [name for name, body in zip(blocks[::2], blocks[1::2], strict=True) if not body.lstrip().startswith("--")]
    return [f"{file}: {name} does not say who calls it" for name in silent]


def test_every_query_says_who_calls_it_and_every_sql_file_what_it_is_for() -> None:
    tree.nothing_in(*map(silent_sql, tree.files(".sql")))
