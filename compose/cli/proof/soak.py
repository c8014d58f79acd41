"""``millrace soak payments``, ``limiter``, ``social``, ``tenancy``: the system under load and kills, then the proof."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from compose import limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from compose.proof.kit.narrator import Narrator
    from compose.proof.soak.proof import Verdict

_INTERRUPTED: Final = 130
_SEED_MAX: Final = 2**31 - 1

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object; progress goes to stderr.")]

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
    as_json: AsJson = False,
) -> None:
    """Every fault of the processor, every process killed in turn, settlements with lies; exit 1 if anything differs."""
    from compose.proof.soak.payments.soak import soak as run_soak  # noqa: PLC0415 - imports every client

    _run(
        run_soak,
        {"changes": {"merchant_webhooks_loopback": True}},
        minutes=minutes,
        rate=rate,
        seed=seed,
        as_json=as_json,
        what="Payments",
    )


@app.command()
def limiter(
    minutes: Annotated[
        float, typer.Option(min=0, max=limits.SOAK_MINUTES_MAX, help="For how long checks and kills go on.")
    ] = limits.SOAK_MINUTES_DEFAULT,
    seed: Annotated[
        int | None, typer.Option(min=0, max=_SEED_MAX, help="Draws the same checks and kills again.")
    ] = None,
    rate: Annotated[
        float, typer.Option(min=0.1, max=limits.SOAK_CHECKS_MAX_PER_S, help="Identities asked for per second.")
    ] = limits.SOAK_CHECKS_PER_S,
    as_json: AsJson = False,
) -> None:
    """Three gateways, retries at others, all killed in turn, policies changed; exit 1 if one token is missing."""
    from compose.proof.soak.limiter.run import GATEWAYS, SERVICES  # noqa: PLC0415 - the help needs none of it
    from compose.proof.soak.limiter.run import soak as run_soak  # noqa: PLC0415

    alone = {"limiter_gateways": None, "limiter_frames_port": None}
    changes = {"limiter_gateway_processes": GATEWAYS, **alone}
    _run(
        run_soak,
        {"ingresses": 1, "services": SERVICES, "changes": changes},
        minutes=minutes,
        rate=rate,
        seed=seed,
        as_json=as_json,
        what="Identities",
    )


@app.command()
def social(
    minutes: Annotated[
        float, typer.Option(min=0, max=limits.SOAK_MINUTES_MAX, help="For how long histories and kills go on.")
    ] = limits.SOAK_MINUTES_DEFAULT,
    seed: Annotated[
        int | None, typer.Option(min=0, max=_SEED_MAX, help="Draws the same steps and kills again.")
    ] = None,
    histories: Annotated[
        int, typer.Option(min=1, max=limits.SOAK_HISTORIES_MAX, help="How many go on at once, of four users each.")
    ] = limits.SOAK_HISTORIES,
    as_json: AsJson = False,
) -> None:
    """Edits, blocks, privacy, takedowns beside a reference, all killed in turn; exit 1 if a surface differs."""
    from compose.proof.soak.social_run import SERVICES  # noqa: PLC0415 - the help needs none of it
    from compose.proof.soak.social_run import soak as run_soak  # noqa: PLC0415

    _run(
        run_soak,
        {"ingresses": 1, "services": SERVICES},
        minutes=minutes,
        rate=histories,
        seed=seed,
        as_json=as_json,
        what="Steps",
    )


@app.command()
def tenancy(
    minutes: Annotated[
        float, typer.Option(min=0, max=limits.SOAK_MINUTES_MAX, help="For how long lives and kills go on.")
    ] = limits.SOAK_MINUTES_DEFAULT,
    seed: Annotated[
        int | None, typer.Option(min=0, max=_SEED_MAX, help="Draws the same steps and kills again.")
    ] = None,
    lives: Annotated[
        int, typer.Option(min=1, max=limits.SOAK_HISTORIES_MAX, help="How many go on at once, beside a noisy tenant.")
    ] = limits.SOAK_HISTORIES,
    as_json: AsJson = False,
) -> None:
    """Moves, shreds, suspensions, usage twice over beside a model, all killed in turn; exit 1 if anything differs."""
    from compose.proof.soak.tenancy_run import ELSEWHERE, SERVICES  # noqa: PLC0415 - the help needs none of it
    from compose.proof.soak.tenancy_run import soak as run_soak  # noqa: PLC0415

    _run(
        run_soak,
        {"ingresses": 1, "services": SERVICES, "changes": {"worker_processes": ELSEWHERE}},
        minutes=minutes,
        rate=lives,
        seed=seed,
        as_json=as_json,
        what="Steps",
    )


def _run(
    soak_of: Callable[..., Verdict],
    stack_of: dict[str, Any],
    *,
    minutes: float,
    rate: float,
    seed: int | None,
    as_json: bool,
    what: str,
) -> None:
    """A soak on a stack of its own; ends the process by the verdict."""
    from compose.proof.kit.interruption import end_as_interrupted  # noqa: PLC0415
    from compose.proof.kit.narrator import Narrator  # noqa: PLC0415
    from compose.proof.kit.own_stack import forget_other_servers, own_stack  # noqa: PLC0415

    end_as_interrupted()
    narrator = Narrator(on_stderr=as_json)
    chosen = secrets.randbelow(_SEED_MAX) if seed is None else seed
    narrator.say(f"seed {chosen}: the same again with --seed {chosen}")
    for name in forget_other_servers():
        narrator.say(f"{name} is set and not used: the soak runs on servers of its own")
    try:
        with (
            narrator.busy("starting the stack"),
            own_stack("soak", **stack_of, progress=narrator.stack) as stack,
        ):
            narrator.say(f"the stack is ready: {stack.world['base_url']}, home {stack.home}")
            verdict = soak_of(stack, minutes=minutes, rate=rate, seed=chosen, narrator=narrator)
    except KeyboardInterrupt:
        print(f"SOAK FAILED seed={chosen} interrupted=1", flush=True)
        raise typer.Exit(_INTERRUPTED) from None
    _tell(verdict, narrator, as_json=as_json, what=what)
    raise typer.Exit(0 if verdict.is_ok else 1)


def _tell(verdict: Verdict, narrator: Narrator, *, as_json: bool, what: str) -> None:
    from compose.proof.soak.report import show  # noqa: PLC0415

    show(narrator.console, verdict, what=what)
    print(json.dumps(verdict.as_object(narrator.seconds)) if as_json else verdict.line(narrator.seconds), flush=True)
