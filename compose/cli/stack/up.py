"""``millrace up``: everything runs and is ready, or one line says why not."""

from __future__ import annotations

import json
import signal
import sys
import time
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from compose import limits
from compose.cli.stack.status_table import status_table
from compose.settings.settings import load_settings
from compose.stack.errors import StackError
from compose.stack.varnish import NOT_INSTALLED
from compose.supervise import launch
from compose.supervise.state import StackState, read_state

app = typer.Typer()


@app.command()
def up(
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return when ready and leave it running.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print addresses and processes as one JSON object.")] = False,
    servers_only: Annotated[bool, typer.Option("--servers-only", help="Start no service of ours.")] = False,
) -> None:
    """Start servers and services, and wait until they are ready; run again, it prints the same.

    A stack that ran before goes on: this command ends only what it started itself.
    """
    settings = load_settings()
    if as_json:
        state = launch.up(settings, servers_only=servers_only, tied=not detach)
        stays = not detach and launch.is_started_here(state)
        asked = _asked_to_end() if stays else []  # before anybody hears that it runs, and ends it
        print(json.dumps(launch.world(settings, state)), flush=True)
    else:
        console = Console()
        with Live(console=console, transient=True) as live:
            state = launch.up(
                settings,
                servers_only=servers_only,
                tied=not detach,
                progress=lambda state: live.update(status_table(state)),
            )
        stays = not detach and launch.is_started_here(state)
        asked = _asked_to_end() if stays else []
        console.print(status_table(state))
        if not servers_only:
            console.print(f"ready: {settings.addresses().base_url}")
            if settings.may_have_media_cache() and not settings.addresses().media_cache_port:
                console.print(NOT_INSTALLED)
            if settings.issuer is None:
                console.print(
                    "for development: the issuer of this home signs tokens (MILLRACE_ISSUER names a real one)"
                )
    if stays:
        _stay(asked, state, live_table=not as_json)
    elif not detach:
        print("it ran before, and goes on; 'millrace down' stops it", file=sys.stderr)


def _asked_to_end() -> list[int]:
    """From here on Ctrl-C and TERM are noted in the list, and end nothing by themselves."""
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _frame: asked.append(number))
    return asked


def _stay(asked: list[int], ours: StackState, *, live_table: bool) -> None:
    """Shows the stack until Ctrl-C or TERM, then stops it; one that somebody else started meanwhile is left alone."""
    settings = load_settings()
    state: StackState | None = ours
    with Live(console=Console(quiet=not live_table)) as live:
        while not asked and state is not None and state.running() and state.supervisor == ours.supervisor:
            live.update(status_table(state))
            time.sleep(limits.SUPERVISOR_TICK_S)
            state = read_state(settings.the_home())
    if state is None or state.supervisor == ours.supervisor:
        launch.down(settings)
    if not asked:
        raise StackError(f"the supervisor ended; see {settings.the_home().log('supervisor')}")
