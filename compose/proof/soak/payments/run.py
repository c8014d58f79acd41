"""What one soak did and saw: its proofs compare it with what the stores say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from compose.proof.soak.payments.caller import Counts
from compose.proof.soak.payments.settlements import Books

if TYPE_CHECKING:
    from compose.proof.kit.acknowledged import Acknowledgements
    from compose.proof.kit.narrator import Narrator
    from compose.proof.kit.own_stack import OwnStack
    from compose.proof.soak.disturbance import Disturber
    from compose.proof.soak.payments.accounts import Freezer, Payouts
    from compose.proof.soak.payments.operators import Operators
    from compose.proof.soak.payments.plans import Plan
    from compose.proof.soak.payments.shop import Shop


@dataclass(slots=True)
class Run:
    """What one soak did and saw; the verdict is made of it."""

    seed: int
    stack: OwnStack
    narrator: Narrator
    acknowledged: Acknowledgements
    shop: Shop
    counts: Counts = field(default_factory=Counts)
    books: Books = field(default_factory=Books)
    made: dict[str, Plan] = field(default_factory=dict)  # by payment id
    problems: list[str] = field(default_factory=list)
    started: int = 0
    ended: int = 0
    disturber: Disturber | None = None
    operators: Operators | None = None
    payouts: Payouts | None = None
    freezer: Freezer | None = None
