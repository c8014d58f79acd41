"""What the demo counted, and everything that was not as it must be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compose.proof.demo.stories import Story
    from compose.proof.kit.journal import Journal
    from ingress.client import Committed


@dataclass(slots=True)
class StoryOutcome:
    """One payment as it went: what was asked, what was answered, how it ended."""

    story: Story
    journal: Journal
    began_at: int  # microseconds since the epoch
    commands: dict[str, Committed] = field(default_factory=dict)  # by idempotency key, first answers
    intent: dict[str, Any] = field(default_factory=dict)  # as it was read in the end
    ended_at: int = 0
    refusals: int = 0

    @property
    def intent_id(self) -> str:
        """'' when it was never created."""
        return next((done.event["aggregate_key"] for done in self.commands.values()), "")


@dataclass(slots=True)
class Tally:
    """Counts over all payments."""

    duplicates_sent: int = 0
    duplicates_replayed: int = 0
    stale_refused: int = 0
    reused_refused: int = 0
    resumed: int = 0  # answered 202, found out through the operation
    problems: list[str] = field(default_factory=list)  # whatever is not as it must be
    told: list[StoryOutcome] = field(default_factory=list)

    def problem(self, text: str) -> None:
        """Notes something that must not be; the demo fails with it."""
        self.problems.append(text)

    @property
    def created(self) -> list[StoryOutcome]:
        """The payments that exist."""
        return [told for told in self.told if told.intent_id]

    def ended(self, state: str) -> int:
        """How many payments ended in this state."""
        return sum(told.intent.get("state") == state for told in self.told)

    @property
    def captured(self) -> int:
        """How many payments brought money."""
        return sum(told.intent.get("amount_received", 0) > 0 for told in self.told)

    @property
    def declined(self) -> int:
        """How many were declined at least once."""
        return sum(told.story.kind.card == "tok_sim_decline" for told in self.created)

    @property
    def answers_lost(self) -> int:
        """How many answers got lost on purpose; the client asked again with the same identity."""
        return sum(exchange.was_lost for told in self.told for exchange in told.journal.exchanges)
