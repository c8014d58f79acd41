"""What the documents say exists: links, commands, targets, folders, files."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.util import find_spec
from pathlib import PurePosixPath

from compose.cli import COMMANDS, module_of
from compose.settings.settings import Settings
from sinks.postgres.roles import ROLES
from tests.tidy import tree

DOCUMENTS = tree.files(".md")
MAKEFILE_TARGETS = set(re.findall(r"^(\w+):", tree.text("Makefile"), re.MULTILINE))
FOLDER_LINES_MAX = 130
PROSE_COLUMNS_MAX = 110
PATHS = re.compile(r"`((?:" + "|".join((*tree.PACKAGES, "tests", "requirements")) + r")/[\w./*-]+)`")
FILES = frozenset(tree.files())
FOLDERS = frozenset(str(parent) for file in FILES for parent in PurePosixPath(file).parents)


def links_to_nothing(file: str) -> list[str]:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", tree.text(file))
    local = [t for t in targets if not re.match(r"[a-z]+:", t)]
    here = (tree.ROOT / file).parent
    return [f"{file}: links to {t}, which is not there" for t in local if not (here / t).exists()]


def unknown_targets(file: str) -> list[str]:
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", tree.text(file), re.DOTALL))
    unknown = sorted(set(re.findall(r"\bmake ([a-z]+)\b", code)) - MAKEFILE_TARGETS)
    return [f"{file}: names `make {name}`, which does not exist" for name in unknown]


@cache
def exists(named: str) -> bool:
    """A folder, a file, a module without its ending, or the beginning of a file's name; a star is any."""
    if named.rstrip("/") in FOLDERS or named in FILES or f"{named}.py" in FILES:
        return True
    known = map(PurePosixPath, FILES)
    return any(f.match(named) or f.match(f"{named}.py") or f.match(f"{named}*") for f in known)


def paths_to_nothing(file: str) -> list[str]:
    named = PATHS.findall(tree.text(file))
    return [f"{file}: names {path}, which is not there" for path in named if not exists(path)]


def test_what_documents_name_exists() -> None:
    tree.nothing_in(
        *(rule(file) for rule in (links_to_nothing, unknown_targets, paths_to_nothing) for file in DOCUMENTS),
        [f"millrace {name} has no module {module_of(name)}" for name in COMMANDS if not find_spec(module_of(name))],
    )


def test_every_setting_is_in_the_table_of_settings() -> None:
    """A role's password by the role's name."""
    table = tree.text("compose/README.md")
    passwords = {f"postgres_{role.removeprefix('millrace_')}_password": role for role in ROLES}
    named = {
        name: rf"`{passwords[name].removeprefix('millrace_')}`"
        if name in passwords
        else rf"`(MILLRACE)?_{name.upper()}`"
        for name in Settings.model_fields
    }
    tree.nothing_in([f"compose/README.md: no {name}" for name, form in named.items() if not re.search(form, table)])


#: whose blocks a test runs, by the language that they say: what says none is a picture or names targets of make
RUN = {
    "bash": {"README.md", "docs/payments.md", "docs/tenants.md", "limiter/operating.md"},
    "python": {"docs/limits.md"},
    "sql": {"docs/dictionary.md"},
    "yaml": {"limiter/envoy.md"},
    "": {"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"},
}


def test_every_block_of_a_document_is_run_by_a_test() -> None:
    found: dict[str, set[str]] = {}
    for file in DOCUMENTS:
        for language in re.findall(r"^```(\w*)\n.*?^```$", tree.text(file), re.MULTILINE | re.DOTALL):
            found.setdefault(language, set()).add(file)
    assert found == RUN


def test_every_library_has_its_line_in_the_architecture() -> None:
    """By its name in a first column; what it is for stands beside it."""
    extras = tomllib.loads(tree.text("pyproject.toml"))["project"]["optional-dependencies"]
    wanted = {re.match(r"[\w.-]+", one)[0] for extra in extras.values() for one in extra}
    table = tree.text("ARCHITECTURE.md").partition("## Libraries")[2]
    named = set(re.findall(r"[\w.-]+", " ".join(re.findall(r"^\|([^|]*)\|", table, re.MULTILINE))))
    tree.nothing_in([f"ARCHITECTURE.md: no library {name}" for name in sorted(wanted - named)])


def without_one_title(file: str) -> list[str]:
    outside = re.sub(r"```.*?```", "", tree.text(file), flags=re.DOTALL)
    titles = [line for line in outside.splitlines() if line.startswith("# ")]
    first = tree.text(file).startswith("# ")
    return [] if first and len(titles) == 1 else [f"{file}: one title, and it comes first; found {titles}"]


def too_wide(file: str) -> list[str]:
    """Prose is read as it is written; a table or one long piece of code cannot be broken."""
    prose = re.sub(r"```.*?```", lambda fence: "\n" * fence[0].count("\n"), tree.text(file), flags=re.DOTALL)
    numbered = enumerate(prose.splitlines(), 1)
    wide = [
        n
        for n, line in numbered
        if len(line) > PROSE_COLUMNS_MAX and not re.match(r"\||\s*(?:[-*] )?`[^`]*`\S*$", line)
    ]
    return [f"{file}:{n} is wider than {PROSE_COLUMNS_MAX} characters" for n in wide]


def test_prose_is_no_wider_than_a_window() -> None:
    tree.nothing_in(*map(too_wide, DOCUMENTS))


def unexplained(folder: str) -> list[str]:
    file = f"{folder}/README.md"
    if file not in FILES:
        return [f"{folder}: has no README.md"]
    lines = len(tree.text(file).splitlines())
    return [f"{file}: {lines} lines are more than one reads"] if lines > FOLDER_LINES_MAX else []


def test_every_document_has_a_title_and_every_top_folder_explains_itself_in_short() -> None:
    tree.nothing_in(*map(without_one_title, DOCUMENTS), *map(unexplained, (*tree.PACKAGES, "tests")))
