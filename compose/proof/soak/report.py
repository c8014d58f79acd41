"""The verdict as a reader wants it: what was done, what was proved, and first of all what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from compose.proof import limits

if TYPE_CHECKING:
    from rich.console import Console

    from compose.proof.soak.proof import Verdict


def show(console: Console, verdict: Verdict, *, what: str = "Payments") -> None:
    """Kinds, outages, proofs, problems."""
    console.print()
    console.print(_kinds(verdict, what))
    console.print()
    console.print(_outages(verdict))
    console.print()
    console.print(_proofs(verdict))
    for problem in verdict.problems[: limits.SOAK_PROBLEMS_SHOWN_MAX]:
        console.print(f"[red]differs[/red] {escape(problem)}", soft_wrap=True)
    if (more := len(verdict.problems) - limits.SOAK_PROBLEMS_SHOWN_MAX) > 0:
        console.print(f"and {more} more: --json shows all")
    console.print()


def _kinds(verdict: Verdict, what: str) -> Table:
    table = Table(title=what, title_justify="left", box=None, pad_edge=False)
    for _ in range(2):
        table.add_column("kind")
        table.add_column("", justify="right")
    counts = [(name, str(count)) for name, count in verdict.by_kind.items()]
    half = (len(counts) + 1) // 2
    for left, right in zip(counts[:half], [*counts[half:], ("", "")], strict=False):
        table.add_row(*left, *right)
    return table


def _outages(verdict: Verdict) -> Table:
    title = "Outages: seconds until a command sent afterwards was answered, the longest wait, and until all was ready"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("process")
    table.add_column("was")
    for column in ("times", "answered", "at most", "longest wait", "ready", "at most"):
        table.add_column(column, justify="right")
    for one in verdict.outages:
        seconds = (one.answered_median_s, one.answered_max_s, one.longest_wait_s, one.ready_median_s, one.ready_max_s)
        table.add_row(one.name, one.how, str(one.times), *(f"{value:.1f}" for value in seconds))
    return table


def _proofs(verdict: Verdict) -> Table:
    table = Table(title="Proofs", title_justify="left", box=None, pad_edge=False)
    for column in ("", "proof", "over"):
        table.add_column(column, overflow="fold")
    for proof in verdict.proofs:
        mark = "[green]holds[/green]" if proof.holds else f"[red]{len(proof.problems)} differ[/red]"
        table.add_row(mark, escape(proof.name), escape(proof.says))
    return table
