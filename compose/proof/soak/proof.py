"""Comparisons of two independent accounts of what happened, and the verdict that they come to."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from compose.proof.soak.outages import Outages


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One comparison. ``problems`` empty: it holds."""

    name: str
    says: str
    problems: list[str]

    @property
    def holds(self) -> bool:
        """Nothing differs."""
        return not self.problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the soak came to."""

    seed: int
    figures: dict[str, int]
    by_kind: dict[str, int]
    disturbances: list[str]
    outages: list[Outages] = field(default_factory=list)
    proofs: list[Proof] = field(default_factory=list)

    @property
    def is_ok(self) -> bool:
        """Every proof holds."""
        return all(proof.holds for proof in self.proofs)

    @property
    def problems(self) -> list[str]:
        """Everything that differs, over all proofs."""
        return [problem for proof in self.proofs for problem in proof.problems]

    def as_object(self, seconds: float) -> dict[str, Any]:
        """What --json prints."""
        proofs = [asdict(proof) | {"holds": proof.holds} for proof in self.proofs]
        return {"ok": self.is_ok, "seconds": round(seconds, 1), **asdict(self), "proofs": proofs}

    def line(self, seconds: float) -> str:
        """The last line of the soak."""
        pairs = {"seed": self.seed, **self.figures, "disturbances": len(self.disturbances)}
        pairs |= {"proofs": len(self.proofs), "problems": len(self.problems), "seconds": round(seconds)}
        text = " ".join(f"{name}={value}" for name, value in pairs.items())
        return f"SOAK {'OK' if self.is_ok else 'FAILED'} {text}"
