"""What a demo came to, and its last line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compose.proof.demo.limiter.act import limiter_pairs

if TYPE_CHECKING:
    from compose.proof.demo.limiter.run import LimiterVerdict
    from compose.proof.demo.one_of_each import OneOfEach
    from compose.proof.demo.owner_kill import Kill
    from compose.proof.demo.social_act import SocialPlay
    from compose.proof.demo.tally import Tally
    from compose.proof.demo.tenancy_act import TenancyPlay
    from compose.proof.kit.evidence import Evidence
    from reconciliation.check.run import Report


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was done and what was found. No differences and no gaps: OK."""

    tally: Tally
    kill: Kill | None
    played: OneOfEach
    quotas: LimiterVerdict
    social: SocialPlay
    tenancy: TenancyPlay
    evidence: Evidence
    checked: Report

    @property
    def differences(self) -> list[str]:
        """Everything that is not as it must be, but for invariants."""
        return self.tally.problems + self.evidence.differences

    @property
    def is_ok(self) -> bool:
        """Nothing was lost, doubled or unbalanced, and no quota let more through than its bound."""
        return not self.differences and not self.checked.gaps and bool(self.tally.created) and self.quotas.is_ok

    def line(self, seconds: float) -> str:
        """The last line of the demo."""
        tally = self.tally
        pairs = {
            "payments": len(tally.created),
            "captured": tally.captured,
            "duplicates_replayed": tally.duplicates_replayed,
            "invariant_gaps": self.checked.gaps,
            "declined": tally.declined,
            "canceled": tally.ended("canceled"),
            "answers_lost": tally.answers_lost,
            "stale_refused": tally.stale_refused,
            "keys_reused_refused": tally.reused_refused,
            "owners_killed": int(self.kill is not None),
            "acts": sum(not act.problem for act in self.played.acts),
            "breaks_planted": len(self.played.settlement.planted),
            "breaks_found": self.played.settlement.breaks_found,
            "repairs": int(self.played.repair.is_done),
            "differences": len(self.differences),
            **limiter_pairs(self.quotas),
            **self.social.pairs(),
            **self.tenancy.pairs(),
            "seconds": f"{seconds:.1f}",
        }
        text = " ".join(f"{name}={value}" for name, value in pairs.items())
        return f"DEMO {'OK' if self.is_ok else 'FAILED'} {text}"
