"""The command ``millrace``. Each subcommand is a module of this package, or of a room in it, with a typer ``app``.

A module is imported only when its command runs, so that a heavy one never slows ``millrace status``.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer.core import TyperGroup

from compose.services.logs import configure_logs
from compose.stack.errors import StackError

if TYPE_CHECKING:
    from typer._click.core import Command, Context  # typer's own copy of click: its types have no public name

#: subcommand to its line in the help; the module has the command's name
COMMANDS: Final = {
    "up": "Start servers and services, and wait until they are ready.",
    "down": "Stop everything that runs in this home.",
    "status": "Show every process of this home's stack.",
    "info": "Say where everything is: addresses, topics, versions.",
    "backup": "Copy everything that this home holds, while it runs.",
    "restore": "Make a home of a backup.",
    "logs": "Show the log of a server or service.",
    "migrate": "Bring the Postgres schema up to date.",
    "token": "Print a bearer token of the development issuer.",
    "keys": "Replace the keys that tokens are signed with; show those that are believed.",
    "producers": "Show, add and remove programs outside that send commands by Kafka.",
    "check": "Run every invariant over the stored data.",
    "reconcile": "Match settlement reports and bank statements.",
    "export": "Write the ledger for another bookkeeping program.",
    "replay": "Rebuild a projection, compare it and swap it in.",
    "demo": "Take invoices through the whole system and prove the result.",
    "soak": "Kill everything under load for a while and prove the result.",
    "bench": "Measure the system and print JSON.",
    "forecast": "Say what other policies would have made of the past.",
    "parked": "List and resolve parked commands.",
    "access": "Deny merchants, tenants, users, persons or tokens; let them in again.",
    "media": "Refuse contents of social posts; have media scanned and rendered again.",
    "maintenance": "Switch new work of merchants off and on.",
    "cases": "Show what waits for a person.",
    "repair": "Show repairs of the ledger; post what two persons decided.",
    "money": "Decide on money that another person would move by hand.",
    "audit": "Show and verify the record of what operators did.",
    "partitions": "Show who owns what; let halted ones go on; publish events again.",
    "limiter": "Show quota policies, and what a key has left.",
    "tenants": "Make, move, bill and delete tenants, and show who they are and where.",
    "vault": "Rotate and show the keys of the card vault.",
    "checkpoints": "Take recovery checkpoints, to replay from; list and show them.",
}
_ROOMS: Final = {
    "stack": ("up", "down", "status", "info", "backup", "restore", "logs", "migrate"),
    "credentials": ("token", "keys", "producers", "vault"),
    "payments": ("reconcile", "export", "forecast", "cases", "repair", "money"),
    "recovery": ("replay", "parked", "partitions", "checkpoints"),
    "proof": ("demo", "soak", "bench"),
}
_ROOM_OF: Final = {command: f"{room}." for room, commands in _ROOMS.items() for command in commands}


def module_of(command: str) -> str:
    """The name of the module of a command, by which it is imported."""
    return f"{__name__}.{_ROOM_OF.get(command, '')}{command}"


_COMPLETION: Final = ("install_completion", "show_completion")  # of a program; each command would have its own


class LazyCommands(TyperGroup):
    """Finds subcommands by name and imports the one that is called."""

    def list_commands(self, ctx: Context) -> list[str]:  # noqa: ARG002 - as the class it overrides
        """The names of those commands whose module is there."""
        return [name for name in COMMANDS if importlib.util.find_spec(module_of(name))]

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """The command of that module; only its help line when just the list is shown."""
        if cmd_name not in self.list_commands(ctx):
            return None
        gc.disable()  # while modules are imported, nothing goes that was made
        try:
            module = importlib.import_module(module_of(cmd_name))
        finally:
            gc.enable()
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        command.short_help = COMMANDS[cmd_name]
        command.help = command.help or command.short_help
        command.params = [one for one in command.params if one.name not in _COMPLETION]
        return command


app = typer.Typer(cls=LazyCommands, no_args_is_help=True, pretty_exceptions_enable=False)


def _tell_version(asked: bool) -> None:
    if asked:
        from importlib import metadata  # noqa: PLC0415 - every other command starts without it

        print(f"millrace {metadata.version('millrace')}")
        raise typer.Exit


@app.callback()
def millrace(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_tell_version, help="Print the version and end.")
    ] = False,
) -> None:
    """Millrace: payments, tenants, posts and rate limits on one stream-processing spine."""


def main() -> None:
    """Runs one command; what an operator can mend is one line on stderr and exit status 1."""
    configure_logs("warning", sys.stderr)  # stdout is the command's own: a script reads JSON from it
    try:
        app()
    except StackError as error:
        sys.exit(f"millrace: {error}")
    except OSError as error:
        if error.filename is None:
            raise
        sys.exit(f"millrace: {error.filename}: {error.strerror}")  # of a home that cannot be read or written, above all
