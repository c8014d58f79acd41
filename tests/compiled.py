"""What workers need of our sources, made once before a run has them: they begin at one moment, and each would make all of it.

It is the tests' bytecode, and the literals of our modules, which Hypothesis tries as values (3 s for each worker).
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

import pytest
from _pytest.assertion import rewrite  # what pytest imports tests through; it offers no other way to compile them
from hypothesis.configuration import storage_directory
from hypothesis.internal.constants_ast import constants_from_module  # keeps what it found by the source's hash

if TYPE_CHECKING:
    from collections.abc import Sequence

_TESTS: Final = Path(__file__).parent
_REWRITTEN: Final = ("test_*.py", "conftest.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Compiles what nobody compiled yet, on all cores; what is in it has to be there for no worker to start."""
    missing = [path for pattern in _REWRITTEN for path in _TESTS.rglob(pattern) if not _bytecode(path).exists()]
    if sys.dont_write_bytecode or not missing:
        return
    unread = [] if storage_directory("constants").path.exists() else _sources()
    cores = os.cpu_count() or 1
    forked = multiprocessing.get_context("fork")
    parts = [forked.Process(target=_prepare, args=(config, missing[n::cores], unread[n::cores])) for n in range(cores)]
    for part in parts:
        part.start()
    for part in parts:
        part.join()


def _sources() -> list[Path]:
    folders = [folder for folder in _TESTS.parent.iterdir() if not folder.name.startswith(".")]
    return [path for folder in folders for path in folder.rglob("*.py")]


def _prepare(config: pytest.Config, tests: Sequence[Path], sources: Sequence[Path]) -> None:
    for path in sources:
        module = ModuleType(path.stem)
        module.__file__ = str(path)
        constants_from_module(module)
    for path in tests:
        source_hash, code = rewrite._rewrite_test(path, config)
        rewrite.try_makedirs(_bytecode(path).parent)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source_hash, _bytecode(path))


def _bytecode(path: Path) -> Path:
    return rewrite.get_cache_dir(path) / (path.stem + rewrite.PYC_TAIL)
