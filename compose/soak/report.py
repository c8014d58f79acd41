"""The verdict as a reader wants it: what was done, what was proved, and first of all what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from schemas import limits

if TYPE_CHECKING:
    from rich.console import Console

    from compose.soak.verdict import Verdict


def show(console: Console, verdict: Verdict) -> None:
    """Kinds, disturbances, proofs, problems."""
    console.print()
    console.print(_kinds(verdict))
    console.print()
    console.print(_disturbances(verdict))
    console.print()
    console.print(_proofs(verdict))
    for problem in verdict.problems[: limits.SOAK_PROBLEMS_SHOWN_MAX]:
        console.print(f"[red]differs[/red] {escape(problem)}", soft_wrap=True)
    if (more := len(verdict.problems) - limits.SOAK_PROBLEMS_SHOWN_MAX) > 0:
        console.print(f"and {more} more: --json shows all")
    console.print()


def _kinds(verdict: Verdict) -> Table:
    table = Table(title="Payments", title_justify="left", box=None, pad_edge=False)
    for _ in range(2):
        table.add_column("kind")
        table.add_column("", justify="right")
    counts = [(name, str(count)) for name, count in verdict.by_kind.items()]
    half = (len(counts) + 1) // 2
    for left, right in zip(counts[:half], [*counts[half:], ("", "")], strict=False):
        table.add_row(*left, *right)
    return table


def _disturbances(verdict: Verdict) -> Table:
    table = Table(title="Disturbances", title_justify="left", box=None, pad_edge=False, show_header=False)
    for one in verdict.disturbances:
        table.add_row(escape(one))
    return table


def _proofs(verdict: Verdict) -> Table:
    table = Table(title="Proofs", title_justify="left", box=None, pad_edge=False)
    for column in ("", "proof", "over"):
        table.add_column(column, overflow="fold")
    for proof in verdict.proofs:
        mark = "[green]holds[/green]" if proof.holds else f"[red]{len(proof.problems)} differ[/red]"
        table.add_row(mark, escape(proof.name), escape(proof.says))
    return table
