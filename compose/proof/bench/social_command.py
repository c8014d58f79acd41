"""``millrace bench social``: fan-out into homes and reads of them, on a stack of its own."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from schemas import limits


def social(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    followers: Annotated[
        int, typer.Option(min=1, max=limits.PUSH_FOLLOWERS_MAX, help="Followers of the author who posts.")
    ] = limits.BENCH_FOLLOWERS_DEFAULT,
    posts: Annotated[int, typer.Option(min=1, max=limits.COMMANDS_LINES_MAX, help="Posts that are fanned out.")] = 500,
    reads: Annotated[int, typer.Option(min=1, max=limits.COMMANDS_LINES_MAX, help="Reads of a home.")] = 1_000,
) -> None:
    """Measure fan-out (deliveries a second, and how late a post is) and reads of a home, full and not there."""
    from compose.proof.bench.social_run import SocialBench  # noqa: PLC0415 - the help needs none of it
    from compose.proof.kit.narrator import Narrator  # noqa: PLC0415
    from compose.proof.kit.own_stack import own_stack  # noqa: PLC0415

    narrator = Narrator(on_stderr=True)
    with (
        narrator.busy("starting a stack"),
        own_stack("bench", owners=1, ingresses=1, services=("ingress",), progress=narrator.stack) as stack,
    ):
        result = SocialBench(stack, followers=followers, posts=posts, reads=reads).run()
    if as_json:
        print(json.dumps(result, indent=1))
    else:
        for name, found in result.items():
            print(f"{name:16} {found}")
