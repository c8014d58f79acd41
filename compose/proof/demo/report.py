"""The demo's result as tables: the timeline of one payment, counts, ledger, the processor's book, ClickHouse, check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from schemas.fields.currency import format_minor

if TYPE_CHECKING:
    from rich.console import Console

    from compose.proof.demo.one_of_each import OneOfEach
    from compose.proof.demo.owner_kill import Kill
    from compose.proof.demo.repair import Repair
    from compose.proof.demo.tally import StoryOutcome, Tally
    from compose.proof.demo.timeline import Stop
    from compose.proof.kit.evidence import Evidence
    from reconciliation.check.run import Report


def show_timeline(console: Console, told: StoryOutcome, stops: list[Stop]) -> None:
    """One payment through every stop."""
    story = told.story
    amount = f"{format_minor(story.amount, story.currency)} {story.currency}"
    title = f"Invoice {story.invoice.number}, {amount}, {story.kind.card}, {told.intent_id}"
    if story.disturbance.value != "none":
        title += f", {story.disturbance.value}"
    table = _table(title, ("ms", "right"), ("stop", "left"), ("what", "left"))
    for stop in stops:
        at = f"{(stop.at - told.began_at) / 1_000:.1f}" if stop.has_time else ""
        table.add_row(at, stop.place, escape(stop.what))
    console.print(table)


def show_counts(console: Console, tally: Tally, evidence: Evidence, kill: Kill | None) -> None:
    """What was done, from outside and inside."""
    counts = evidence.counts
    rows = [
        ("payments created", len(tally.created)),
        ("  that brought money", tally.captured),
        ("  canceled", tally.ended("canceled")),
        ("  declined at least once", tally.declined),
        ("duplicates sent / replayed", f"{tally.duplicates_sent} / {tally.duplicates_replayed}"),
        ("answers lost, asked again", tally.answers_lost),
        ("answered 202, found out later", tally.resumed),
        ("stale versions refused", tally.stale_refused),
        ("reused keys refused", tally.reused_refused),
        ("commands committed / refused", f"{counts['commands_committed']} / {counts['commands_refused']}"),
        ("facts from the processor", counts["facts"]),
        ("attempts / sends", f"{counts['attempts']} / {counts['sends']}"),
        ("ledger transactions / lines", f"{counts['ledger_txns']} / {counts['ledger_entries']}"),
        ("events", counts["events"]),
        ("parked records", counts["parked"]),
    ]
    if kill is not None:
        moved = "not taken over" if kill.moved_after_s is None else f"taken over after {kill.moved_after_s:.1f} s"
        rows.append((f"{kill.name} killed with {kill.partitions} partitions", moved))
    table = _table("Counts", ("", "left"), ("", "right"), header=False)
    for name, value in rows:
        table.add_row(name, str(value))
    console.print(table)


def show_one_of_each(console: Console, played: OneOfEach) -> None:
    """Every act: what was done, how it ended, what it posted; then the breaks as planted and as found."""
    table = _table(
        "One of each", *((c, "left") for c in ("act", "what happens", "how it ended", "ledger transactions"))
    )
    for act in played.acts:
        table.add_row(act.name, act.says, escape(act.ended), ", ".join(act.posted))
    console.print(table)
    console.print()
    done = played.settlement
    columns = (("break", "left"), ("the processor's report says", "left"), ("found as", "left"), ("off by", "right"))
    table = _table("A settlement with planted breaks, reconciled", *columns)
    for one in done.planted:
        found = done.found.get(one.payment.intent_id)
        off = f"{format_minor(found.amount, found.currency)} {found.currency}" if found and found.currency else ""
        table.add_row(one.kind, one.says, found.found_class if found else "[red]not found[/red]", off)
    console.print(table)
    others = len(done.found) - done.breaks_found
    console.print(
        f"{done.matched} lines matched, {done.breaks_found} of {len(done.planted)} breaks found, {others} others."
    )
    console.print()
    _show_repair(console, played.repair)


def _show_repair(console: Console, repair: Repair) -> None:
    """What two persons wrote off, and what it did to the balances."""
    columns = (("account", "left"), *((name, "right") for name in ("before", "change", "after")))
    table = _table("A repair: proposed by one person, approved by another", *columns)
    for row in repair.preview:
        amounts = (format_minor(row[name], row["currency"]) for name in ("before", "change", "after"))
        table.add_row(escape(row["account_id"]), *amounts)
    console.print(table)
    alone = "refused" if repair.is_own_approval_refused else "[red]not refused[/red]"
    console.print(f"The author's own approval was {alone}; approved by another person it was {repair.state}.")


def show_trial_balance(console: Console, evidence: Evidence) -> None:
    """Every kind of account in every currency; debits minus credits, and the sums that must agree."""
    currencies = sorted({row["currency"] for row in evidence.trial_balance})
    table = _table("Ledger: debits minus credits", ("account", "left"), *((c, "right") for c in currencies))
    balance = {(row["account"], row["currency"]): row["debits"] - row["credits"] for row in evidence.trial_balance}
    for account in sorted({row["account"] for row in evidence.trial_balance}):
        table.add_row(account, *(format_minor(balance.get((account, c), 0), c) for c in currencies))
    table.add_section()
    for side in ("debits", "credits"):
        sums = {c: sum(row[side] for row in evidence.trial_balance if row["currency"] == c) for c in currencies}
        table.add_row(f"all {side}", *(format_minor(sums[c], c) for c in currencies))
    console.print(table)


def show_book(console: Console, evidence: Evidence) -> None:
    """What the processor says it did, beside what the ledger says."""
    columns = (("effect", "left"), ("currency", "left"), *((name, "right") for name in ("book", "", "ledger", " ")))
    table = _table("The processor's book against the ledger", *columns)
    for (section, currency), line in evidence.book.items():
        table.add_row(
            section,
            currency,
            str(line.book_count),
            format_minor(line.book_minor, currency),
            str(line.ledger_count),
            format_minor(line.ledger_minor, currency),
        )
    console.print(table)


def show_volumes(console: Console, evidence: Evidence) -> None:
    """ClickHouse's volume and success rate per merchant, currency and hour, beside Postgres's numbers."""
    columns = ("merchant", "currency", "hour", "intents", "succeeded", "refused", "received", "Postgres received")
    table = _table("ClickHouse against Postgres", *((c, "left" if n < 3 else "right") for n, c in enumerate(columns)))  # noqa: PLR2004 - the names stand left
    ours = {_key(row): row for row in evidence.volume_postgres}
    for row in evidence.volume_clickhouse:
        mine = ours.get(_key(row))
        currency = row["currency"]
        table.add_row(
            row["merchant_id"],
            currency,
            f"{row['hour']:%Y-%m-%d %H:%M}",
            *(str(row[name]) for name in ("intents", "intents_succeeded", "intents_refused")),
            format_minor(int(row["received_minor"]), currency),
            "missing" if mine is None else format_minor(mine["received_minor"], currency),
        )
    console.print(table)


def show_check(console: Console, report: Report) -> None:
    """Every invariant with its gaps."""
    table = _table("millrace check", ("id", "left"), ("invariant", "left"), ("gaps", "right"))
    for finding in report.invariants:
        note = f" [dim]({escape(finding.note)})[/dim]" if finding.note else ""
        table.add_row(finding.id, escape(finding.title) + note, f"[red]{finding.gaps}[/red]" if finding.gaps else "0")
    console.print(table)


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["merchant_id"], row["currency"], row["hour"]


def _table(title: str, *columns: tuple[str, str], header: bool = True) -> Table:
    table = Table(
        title=escape(title), title_justify="left", title_style="bold", box=None, pad_edge=False, show_header=header
    )
    for name, justify in columns:
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type] # literals above
    return table
