"""What happens to one payment of the soak and how it must end. Pure: the same seed draws the same payments.

A plan names the money that must be received, refunded and disputed in the end, whatever is killed meanwhile: with the
processor's faults, lost answers and duplicates only the way there differs.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from compose.proof import limits

State = Literal["succeeded", "canceled", "requires_payment_method", "processing"]
Outcome = Literal["won", "lost"]
Risk = Literal["", "blocked", "approved", "rejected"]

MERCHANTS: Final = ("m_soak_north", "m_soak_south", "m_soak_east")
#: exponents 2, 0, 3 and 4
CURRENCIES: Final = ("EUR", "EUR", "USD", "JPY", "BHD", "CLF")
WHOLE: Final = 100  # percent
REFUSED_EVERYWHERE: Final = "tok_sim_decline"  # by every processor, for lack of funds
APPROVED_NUMBER: Final = "4242424242424242"
DECLINED_NUMBER: Final = "4000000000000002"


class Care(Enum):
    """How carefully the caller and its network go about one command."""

    PLAIN = "plain"
    LOST = "lost"  # the answer gets lost; the same identity asks again
    TWICE = "twice"  # again, after the answer
    AT_ONCE = "at_once"  # several times at once


_CARES: Final = (Care.PLAIN,) * 6 + (Care.LOST,) * 2 + (Care.TWICE, Care.AT_ONCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of payment; captures, refunds and the dispute in percent of the amount. The last capture is final."""

    name: str
    card: str = "tok_sim_approve"  # of the simulator, or a number that goes through the vault
    second_card: str = ""  # tried after a decline
    action: Literal["", "done", "failed"] = ""  # what the payer does where the card's bank wants to hear of him
    captures: tuple[int, ...] = ()  # none: automatic capture
    cancel: Literal["", "before_confirm", "after_authorize"] = ""
    refunds: tuple[int, ...] = ()
    races: bool = False  # two refunds of all that is left, at once: one of them is refused
    dispute: int = 0
    outcome: Outcome = "lost"
    evidence: str = ""  # submitted against the dispute; to the simulator it is what decides
    risk: Risk = ""  # what the rules, or an operator whom they ask, say of the confirm

    @property
    def is_manual(self) -> bool:
        """Whether the merchant captures by himself."""
        return bool(self.captures) or self.cancel == "after_authorize"

    @property
    def fails(self) -> bool:
        """Whether no card of this kind ever pays."""
        return (
            self.risk == "blocked"
            or self.action == "failed"
            or (self.second_card or self.card) in (REFUSED_EVERYWHERE, DECLINED_NUMBER)
        )

    @property
    def fails_over(self) -> bool:
        """Whether its first charge is refused as the rules try again elsewhere, where it is refused, too."""
        return self.card == REFUSED_EVERYWHERE


#: what the processor gets wrong, beside plain payments; every token of its table but the one that books another amount
_FAULTS: Final = ("slow", "timeout_after_commit", "error_before_commit", "error_after_commit", "garbage",
                  "webhook_only", "webhook_first", "webhook_storm")  # fmt: skip
#: books one minor unit more than asked: for a person, who may not be asked about every tenth payment
WRONG_AMOUNT: Final = "tok_sim_wrong_amount"

KINDS: Final = (
    Kind(name="plain"),
    *(Kind(name=fault.replace("_", " "), card=f"tok_sim_{fault}") for fault in _FAULTS),
    *(Kind(name=f"held, {fault}", card=f"tok_sim_{fault}", captures=(60, 40)) for fault in _FAULTS[1:4]),
    Kind(name="wrong amount", card=WRONG_AMOUNT),
    Kind(name="declined", card=REFUSED_EVERYWHERE),
    Kind(name="declined, then another card", card=REFUSED_EVERYWHERE, second_card="tok_sim_approve"),
    Kind(name="card in the vault", card=APPROVED_NUMBER),
    Kind(name="card in the vault, declined", card=DECLINED_NUMBER),
    Kind(name="payer's action, done", card="tok_sim_requires_action", action="done"),
    Kind(name="payer's action, failed", card="tok_sim_requires_action", action="failed"),
    Kind(name="held, payer's action", card="tok_sim_requires_action", action="done", captures=(60, 40)),
    Kind(name="captured whole", captures=(WHOLE,)),
    Kind(name="captured in part", captures=(70,)),
    Kind(name="captured three times", captures=(50, 30, 20)),
    Kind(name="canceled before", cancel="before_confirm"),
    Kind(name="canceled while held", cancel="after_authorize"),
    Kind(name="refunded in parts", refunds=(20, 30)),
    Kind(name="refunded whole", refunds=(WHOLE,)),
    Kind(name="refund, answer lost", card="tok_sim_timeout_after_commit", refunds=(40,)),
    Kind(name="refund, storm", card="tok_sim_webhook_storm", refunds=(40,)),
    Kind(name="refund that fails later", card="tok_sim_refund_fails_later", refunds=(50,)),
    Kind(name="two refunds for the last cent", races=True),
    Kind(name="captured in part, refunds race", captures=(70,), races=True),
    Kind(name="dispute won", dispute=WHOLE, outcome="won"),
    Kind(name="dispute lost", dispute=WHOLE, outcome="lost"),
    Kind(name="disputed in part, rest refunded", dispute=40, races=True),
    Kind(name="captured in part, disputed, rest refunded", captures=(70,), dispute=30, races=True),
    Kind(name="evidence wins", dispute=WHOLE, outcome="won", evidence="winning_evidence"),
    Kind(
        name="evidence loses, answers lost", card="tok_sim_timeout_after_commit", dispute=60, evidence="losing_evidence"
    ),
    Kind(name="blocked by risk", risk="blocked"),
    Kind(name="reviewed and approved", risk="approved"),
    Kind(
        name="reviewed and approved, answer lost", card="tok_sim_timeout_after_commit", risk="approved", refunds=(30,)
    ),
    Kind(name="reviewed, held, captured", risk="approved", captures=(60, 40)),
    Kind(name="reviewed and rejected", risk="rejected"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One payment from its creation to its end, in minor units."""

    number: int
    kind: Kind
    merchant: str
    amount: int
    currency: str
    seed: str

    def care(self, step: str) -> Care:
        """How one command of it is called."""
        return random.Random(f"{self.seed}:{step}").choice(_CARES)

    def part(self, percent: int) -> int:
        """A share of the amount, at least one minor unit."""
        return max(1, self.amount * percent // WHOLE)

    @property
    def captures(self) -> tuple[int, ...]:
        """The amounts that the merchant captures; where they are the whole, the last one takes what rounding left."""
        amounts = [self.part(share) for share in self.kind.captures]
        if sum(self.kind.captures) == WHOLE:
            amounts[-1] = self.amount - sum(amounts[:-1])
        return tuple(amounts)

    @property
    def refunds(self) -> tuple[int, ...]:
        """The amounts of its refunds, one after the other."""
        return tuple(self.part(share) for share in self.kind.refunds)

    @property
    def state(self) -> State:
        """The state in which it must end."""
        if self.kind.cancel or self.kind.risk == "rejected":
            return "canceled"
        if self.kind.fails:
            return "requires_payment_method"
        return "processing" if self.kind.card == WRONG_AMOUNT else "succeeded"

    @property
    def received(self) -> int:
        """What must have been received."""
        if self.state != "succeeded":
            return 0
        return sum(self.captures) if self.kind.is_manual else self.amount

    @property
    def disputed(self) -> int:
        """What its bank takes back."""
        return self.part(self.kind.dispute) if self.kind.dispute else 0

    @property
    def lost(self) -> int:
        """What stays with the payer's bank."""
        return self.disputed if self.kind.outcome == "lost" else 0

    @property
    def refunded(self) -> int:
        """What must count as refunded; a refund that failed later does not."""
        if self.kind.card == "tok_sim_refund_fails_later":
            return 0
        return self.received - self.disputed if self.kind.races else sum(self.refunds)


def draw(seed: int, number: int) -> Plan:
    """The plan of that number; every kind comes once within each round of them."""
    name = f"{seed}:{number}"
    chance = random.Random(name)
    turn, place = divmod(number, len(KINDS))
    return Plan(
        number=number,
        kind=random.Random(f"{seed}:round:{turn}").sample(KINDS, len(KINDS))[place],
        merchant=chance.choice(MERCHANTS),
        amount=chance.randint(limits.SOAK_AMOUNT_MINOR_MIN, limits.SOAK_AMOUNT_MINOR_MAX),
        currency=chance.choice(CURRENCIES),
        seed=name,
    )
