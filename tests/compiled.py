"""The tests' bytecode, made once before a run has workers: they begin at one moment, and each would make all of it."""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from _pytest.assertion import rewrite  # what pytest imports tests through; it offers no other way to compile them

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
    cores = os.cpu_count() or 1
    forked = multiprocessing.get_context("fork")
    parts = [forked.Process(target=_compile, args=(config, missing[n::cores])) for n in range(cores)]
    for part in parts:
        part.start()
    for part in parts:
        part.join()


def _compile(config: pytest.Config, paths: Sequence[Path]) -> None:
    for path in paths:
        source_hash, code = rewrite._rewrite_test(path, config)
        rewrite.try_makedirs(_bytecode(path).parent)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source_hash, _bytecode(path))


def _bytecode(path: Path) -> Path:
    return rewrite.get_cache_dir(path) / (path.stem + rewrite.PYC_TAIL)
