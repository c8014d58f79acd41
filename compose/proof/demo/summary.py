"""What a demo came to, in a line for each act, each with its mark; what differs stands below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compose.proof import limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from compose.proof.demo.verdict import Verdict


def sum_up(console: Console, verdict: Verdict) -> None:
    """Prints it."""
    console.print()
    for is_well, line in _acts(verdict):
        console.print(f"{'[green]✓[/green]' if is_well else '[red]✗[/red]'} {line}", soft_wrap=True)
    for difference in verdict.differences[: limits.DEMO_PROBLEMS_SHOWN_MAX]:
        console.print(f"[red]differs[/red] {difference}", markup=True, soft_wrap=True)
    console.print("[dim]--verbose shows what was compared, --keep leaves it running[/dim]")


def _acts(verdict: Verdict) -> Iterator[tuple[bool, str]]:
    tally, kill, played, checked = verdict.tally, verdict.kill, verdict.played, verdict.checked
    quotas, social, tenancy = verdict.quotas, verdict.social, verdict.tenancy
    settlement, repair = played.settlement, played.repair
    acts = [act.problem for act in played.payments]
    yield not tally.problems, f"{len(tally.created)} payments made, {tally.duplicates_replayed} retries replayed"
    yield kill is not None and kill.moved_after_s is not None, "an owner killed half-way, its partitions taken over"
    yield not any(acts), f"{len(acts)} refunds, disputes and holds, each posted as it must be"
    found = f"{settlement.breaks_found} of {len(settlement.planted)} planted breaks found in a settlement"
    yield settlement.breaks_found == len(settlement.planted), found
    yield repair.is_done, "the ledger repaired by two persons"
    yield quotas.is_ok, "quotas beside an exact oracle, a gateway killed, no bound passed"
    yield social.is_ok, f"{social.homes} homes exact; a privacy change, a takedown, an erasure seen at once"
    moved = f"a tenant moved under {tenancy.writes} writes, its mover killed; {tenancy.events} events metered once"
    yield tenancy.is_ok, moved
    yield not checked.gaps, f"{len(checked.invariants)} invariants, {checked.gaps} gaps"
