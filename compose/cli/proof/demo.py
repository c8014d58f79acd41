"""``millrace demo``: invoices through the whole system, an owner killed half-way, and the proof."""

from __future__ import annotations

import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from compose import limits
from compose.proof.demo.limiter.command import limiter

if TYPE_CHECKING:
    from compose.proof.demo.invoices import Invoices
    from compose.proof.demo.social_cast import Cast
    from compose.proof.kit.narrator import Narrator

_INTERRUPTED = 130

app = typer.Typer()
app.command(name="limiter")(limiter)


@app.callback(invoke_without_command=True)
def demo(
    context: typer.Context,
    orders: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Invoices as CSV, also gzipped; without it they are generated, always the same."
        ),
    ] = None,
    social: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="With musae_git_edges.csv.gz (who follows whom) and posts_emoji_val.txt (posts); else generated.",
        ),
    ] = None,
    rate: Annotated[
        float, typer.Option(min=0.1, max=limits.DEMO_RATE_MAX_PER_S, help="Payments started per second.")
    ] = limits.DEMO_RATE_PER_S,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the stack and its data when done, and say how to use it.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show one payment through every store, and all that was compared.")
    ] = False,
) -> None:
    """Take invoices from HTTP to ledger and ClickHouse, kill an owner half-way; exit 1 if anything differs."""
    from compose.proof.demo.invoice_generator import generated_invoices  # noqa: PLC0415
    from compose.proof.demo.invoices import read_invoices  # noqa: PLC0415
    from compose.proof.demo.social_cast import generated_cast, read_cast  # noqa: PLC0415
    from compose.proof.kit.interruption import end_as_interrupted  # noqa: PLC0415 - the help needs none of it
    from compose.proof.kit.narrator import Narrator  # noqa: PLC0415
    from compose.stack.errors import StackError  # noqa: PLC0415

    if context.invoked_subcommand is not None:
        return
    end_as_interrupted()
    narrator = Narrator(verbose=verbose)
    invoices = read_invoices(orders) if orders else generated_invoices(limits.DEMO_INVOICE_COUNT)
    cast = read_cast(social) if social else generated_cast()
    try:
        is_ok = _run(narrator, invoices, rate, cast, keep=keep)
    except StackError:
        raise
    except KeyboardInterrupt:
        print("DEMO FAILED interrupted=1", flush=True)
        raise typer.Exit(_INTERRUPTED) from None
    except Exception as error:  # noqa: BLE001 - the last line must tell, whatever it was
        traceback.print_exc()
        print(f"DEMO FAILED error={type(error).__name__}", flush=True)
        raise typer.Exit(1) from None
    raise typer.Exit(0 if is_ok else 1)


def _run(narrator: Narrator, invoices: Invoices, rate: float, cast: Cast, *, keep: bool) -> bool:
    from compose.proof.kit.own_stack import forget_other_servers, own_stack  # noqa: PLC0415

    for name in forget_other_servers():
        narrator.say(f"{name} is set and not used: the demo runs on servers of its own")
    with ExitStack() as leaving:
        with narrator.busy("starting the stack"):
            stack = leaving.enter_context(own_stack("demo", tied=not keep, progress=narrator.stack))
            from compose.proof.demo.run import demonstrate, how_to_use  # noqa: PLC0415 - imports every client
        narrator.say(f"the stack is ready: {stack.world['base_url']}, home {stack.home}")
        # Kept also when the demo breaks off: then it is wanted most. Ctrl-C removes it all the same.
        stack.keep = keep
        try:
            verdict = demonstrate(stack, invoices, rate, narrator, cast)
        except KeyboardInterrupt:
            stack.keep = False
            raise
        if keep:
            for line in how_to_use(stack):
                narrator.console.print(line, soft_wrap=True, markup=False)
        else:
            leaving.enter_context(narrator.busy("stopping the stack and removing its home"))
    print(verdict.line(narrator.seconds), flush=True)
    return verdict.is_ok
