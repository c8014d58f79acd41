"""Every file of the repository: no leftovers, nothing of one machine, and data files that agree with one another."""

from __future__ import annotations

import json
import re
import tomllib

import pytest

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


def matching(pattern: re.Pattern[str], names: list[str]) -> list[str]:
    return [
        f"{file}:{number}: {line.strip()[:80]}"
        for file in names
        for number, line in enumerate(tree.text(file).splitlines(), 1)
        if pattern.search(line)
    ]


def test_nothing_is_left_for_later() -> None:
    assert matching(LEFTOVERS, TEXTS) == []


def test_the_source_speaks_of_the_system_only() -> None:
    assert matching(ABOUT_TOOLS, TEXTS) == []


def test_no_path_of_one_machine() -> None:
    assert matching(MACHINE, TEXTS) == []


def test_no_registry_is_named() -> None:
    """Where packages come from is the installer's configuration, never ours."""
    assert matching(REGISTRIES, TEXTS) == []


def test_files_end_with_one_newline_and_have_no_tabs() -> None:
    checked = [f for f in TEXTS if f.endswith((".py", ".sql", ".md", ".toml", ".avsc", ".yml")) and tree.text(f)]
    ragged = [f for f in checked if not tree.text(f).endswith("\n") or tree.text(f).endswith("\n\n")]
    assert ragged == []
    assert [f for f in checked if "\t" in tree.text(f)] == []


@pytest.mark.parametrize("file", [f for f in tree.files(".txt") if f.startswith("requirements/")])
def test_locks_pin_versions_and_hashes(file: str) -> None:
    """One requirement is a line with == and the lines after it that begin with --hash."""
    logical = re.sub(r"\\\n\s*", " ", tree.text(file)).splitlines()
    requirements = [line for line in logical if line.strip() and not line.lstrip().startswith("#")]
    assert requirements
    for line in requirements:
        assert re.match(r"[A-Za-z0-9_.\[\]-]+==[^\s;]+", line), line[:80]
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", line), line[:80]


def test_every_dependency_is_locked() -> None:
    project = tomllib.loads(tree.text("pyproject.toml"))["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["dev"]
    locked = re.findall(r"^([A-Za-z0-9_.-]+)==", tree.text("requirements/dev.txt"), re.MULTILINE)
    names = {re.split(r"[\[><=;~! ]", dependency)[0] for dependency in wanted}
    assert {normal(n) for n in names} - {normal(n) for n in locked} == set()


def normal(name: str) -> str:
    """A package's name as every index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_schema_has_an_id_and_golden_bytes() -> None:
    table = json.loads(tree.text("schemas/avro/ids.json"))
    written = {f.rpartition("/")[2] for f in tree.files(".avsc")}
    assert {row["file"] for row in table.values()} == written
    for stem in (name.removesuffix(".avsc") for name in written):
        for suffix in (".bin", ".json"):
            assert f"schemas/avro/golden/{stem}{suffix}" in tree.files()


def test_every_avro_field_says_what_it_is() -> None:
    undocumented = [
        f"{file}: {field['name']}"
        for file in tree.files(".avsc")
        for field in fields_of(json.loads(tree.text(file)))
        if not field.get("doc") and not isinstance(field["type"], dict)
    ]
    assert undocumented == []


def fields_of(schema: object) -> list[dict[str, object]]:
    """The fields of a schema and of every record inside it."""
    if isinstance(schema, list):
        return [field for part in schema for field in fields_of(part)]
    if not isinstance(schema, dict):
        return []
    own = schema.get("fields", [])
    inside = [field["type"] for field in own] + [schema.get("items"), schema.get("type")]
    return own + [field for part in inside for field in fields_of(part)]


QUERIES = [f for f in tree.files(".sql") if "-- name: " in tree.text(f)]
STATEMENTS = [f for f in tree.files(".sql") if f not in QUERIES]


@pytest.mark.parametrize("file", QUERIES)
def test_every_query_says_who_calls_it(file: str) -> None:
    blocks = re.split(r"^-- name: (\w+)$", tree.text(file), flags=re.MULTILINE)[1:]
    silent = [name for name, body in zip(blocks[::2], blocks[1::2], strict=True) if not body.lstrip().startswith("--")]
    assert silent == []


@pytest.mark.parametrize("file", STATEMENTS)
def test_every_sql_file_begins_with_what_it_is_for(file: str) -> None:
    assert tree.text(file).lstrip().startswith("--")
