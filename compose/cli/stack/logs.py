"""``millrace logs``: the ends of the log files of this home."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from compose import limits
from compose.settings.settings import load_settings
from compose.stack.errors import StackError

if TYPE_CHECKING:
    from pathlib import Path

app = typer.Typer()


@app.command()
def logs(
    server: Annotated[
        str | None, typer.Argument(help="kafka, postgres, owner-0 ...; all of them when left out.")
    ] = None,
    lines: Annotated[int, typer.Option("-n", "--lines", min=1, help="How many lines of each.")] = (
        limits.LOG_TAIL_LINES_DEFAULT
    ),
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until Ctrl-C.")] = False,
) -> None:
    """Show the log of one process, or the ends of all of them."""
    folder = load_settings().the_home().logs
    names = {path.stem: path for path in sorted(folder.glob("*.log"))}
    if not names:
        raise StackError(f"there is no log in {folder} yet: run 'millrace up'")
    if server is not None and server not in names:
        known = ", ".join(names)
        raise StackError(f"no log of {server!r} in {folder}; there are {known}")
    chosen = {server: names[server]} if server is not None else names
    offsets = {name: _print_tail(name, path, lines, label=len(chosen) > 1) for name, path in chosen.items()}
    if follow:
        _follow(chosen, offsets)


def _print_tail(name: str, path: Path, lines: int, *, label: bool) -> int:
    size = path.stat().st_size
    _print(name, _lines_of(path, max(0, size - limits.LOG_TAIL_BYTES_MAX), size)[-lines:], label=label)
    return size


def _follow(chosen: dict[str, Path], offsets: dict[str, int]) -> None:
    try:
        while True:
            for name, path in chosen.items():
                size = path.stat().st_size
                if size < offsets[name]:
                    offsets[name] = 0  # the file was turned over
                if size > offsets[name]:
                    _print(name, _lines_of(path, offsets[name], size), label=len(chosen) > 1)
                    offsets[name] = size
            time.sleep(limits.SUPERVISOR_TICK_S)
    except KeyboardInterrupt:
        return


def _lines_of(path: Path, begin: int, end: int) -> list[str]:
    with path.open("rb") as file:
        file.seek(begin)
        return file.read(end - begin).decode(errors="replace").splitlines()


def _print(name: str, lines: list[str], *, label: bool) -> None:
    prefix = f"{name}: " if label else ""
    sys.stdout.writelines(f"{prefix}{line}\n" for line in lines)
    sys.stdout.flush()
