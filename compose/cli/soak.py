"""``millrace soak payments``: the whole system under load and kills for a while, and then the proof."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Annotated, Final

import typer

from schemas import limits

if TYPE_CHECKING:
    from compose.demo.narrator import Narrator
    from compose.soak.verdict import Verdict

_INTERRUPTED: Final = 130
_SEED_MAX: Final = 2**31 - 1

app = typer.Typer()


@app.callback()
def soak() -> None:
    """Run the whole system under load and kills, and prove that nothing was lost or doubled."""


@app.command()
def payments(
    minutes: Annotated[
        float, typer.Option(min=0, max=limits.SOAK_MINUTES_MAX, help="For how long payments and kills go on.")
    ] = limits.SOAK_MINUTES_DEFAULT,
    seed: Annotated[
        int | None, typer.Option(min=0, max=_SEED_MAX, help="Draws the same payments, faults and kills again.")
    ] = None,
    rate: Annotated[
        float, typer.Option(min=0.1, max=limits.SOAK_RATE_MAX_PER_S, help="Payments started per second.")
    ] = limits.SOAK_RATE_PER_S,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object; progress goes to stderr.")] = False,
) -> None:
    """Every fault of the processor, every process killed in turn, settlements with lies; exit 1 if anything differs."""
    from compose.demo.interruption import end_as_interrupted  # noqa: PLC0415 - the help needs none of it
    from compose.demo.narrator import Narrator  # noqa: PLC0415
    from compose.demo.own_stack import forget_other_servers, own_stack  # noqa: PLC0415

    end_as_interrupted()
    narrator = Narrator(on_stderr=as_json)
    chosen = secrets.randbelow(_SEED_MAX) if seed is None else seed
    narrator.say(f"seed {chosen}: the same payments, faults and kills again with --seed {chosen}")
    for name in forget_other_servers():
        narrator.say(f"{name} is set and not used: the soak runs on servers of its own")
    try:
        with (
            narrator.busy("starting the stack"),
            own_stack("soak", changes={"merchant_webhooks_loopback": True}, progress=narrator.stack) as stack,
        ):
            from compose.soak.run import soak as run_soak  # noqa: PLC0415 - imports every client

            narrator.say(f"the stack is ready: {stack.world['base_url']}, home {stack.home}")
            verdict = run_soak(stack, minutes=minutes, rate=rate, seed=chosen, narrator=narrator)
    except KeyboardInterrupt:
        print(f"SOAK FAILED seed={chosen} interrupted=1", flush=True)
        raise typer.Exit(_INTERRUPTED) from None
    _tell(verdict, narrator.seconds, as_json=as_json, narrator=narrator)
    raise typer.Exit(0 if verdict.is_ok else 1)


def _tell(verdict: Verdict, seconds: float, *, as_json: bool, narrator: Narrator) -> None:
    from compose.soak.report import show  # noqa: PLC0415

    show(narrator.console, verdict)
    print(json.dumps(verdict.as_object(seconds)) if as_json else verdict.line(seconds), flush=True)
