"""What clients were told of each counter, beside what the store and the stream have of it: the proofs of the limiter.

Pure. A conversation is one identity until it has a definite answer, over whatever gateways and tries. One that a kill,
a freeze or a slow machine broke may have been charged where nobody heard of it, and one that was admitted without the
store may have been charged by its late answer: that is the only slack there is, and it is counted by name (``maybe``,
``late``). All figures are cost, not requests.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from compose.proof import limits as proof_limits
from compose.proof.soak.proof import Proof
from limiter.frames.frames import APPROXIMATE, DEGRADED, DUPLICATE
from schemas.limiter import limits as limiter_limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from limiter.frames.frames import Answer

#: exact, closed without the store; leased, stale without it; exact, open without it
Quota = Literal["exact", "leased", "open"]
QUOTAS: Final[tuple[Quota, ...]] = ("exact", "leased", "open")
COST_MAX: Final = 3
_KNOWN_S: Final = limiter_limits.LIMIT_IDENTITY_MS / 1_000 - 5  # afterwards a retry may be a new request to the store
Counter = tuple[Quota, str]  # and the user


class Conversation(NamedTuple):
    """One identity and all definite answers that it got, between two monotonic times."""

    counter: Counter
    cost: int
    answers: Sequence[Answer]
    sent_s: float
    told_s: float
    doubts: int = 0  # gateways that may have charged it without saying so, kills left aside


@dataclass(slots=True)
class Heard:
    """What clients were told of one counter."""

    admitted: int = 0  # once for every identity
    uncounted: int = 0  # of it, by failure mode open alone
    again: int = 0  # charged again, as the answers say themselves
    again_anew: int = 0  # of it, in conversations so long that the store may have forgotten their identity
    again_by_leases: int = 0  # of it, where leases paid both: the stream gives these back
    by_leases: int = 0
    refused: int = 0
    refused_by_version: int = 0  # the newest that refused
    maybe: int = 0
    late: int = 0  # admitted without the store, whose answer came too late: it may have charged them all the same
    fresh: int = 0  # allowed by whoever answered, and no repetition: what the stream of decisions adds up
    fresh_maybe: int = 0  # more of it, that nobody heard of


@dataclass(frozen=True, slots=True, kw_only=True)
class Booked:
    """A counter at the store when nothing moves any more."""

    used: int
    reserved: int
    streamed: int  # allowed, as the stream of decisions adds up


@dataclass(frozen=True, slots=True, kw_only=True)
class Leases:
    """What became of all leases of a policy, and of what two of them paid under one identity."""

    granted: int = 0
    reported: int = 0
    assumed: int = 0
    released: int = 0
    refunds: int = 0
    credited: int = 0
    not_credited: int = 0  # found to be charged twice, and nothing to give back any more


@dataclass(slots=True)
class Ledger:
    """Everything that was heard, and what it is judged by."""

    gateways: int
    capacities: dict[Quota, list[int]]  # of each version, in their order
    conversations: list[Conversation] = field(default_factory=list)
    breaks: list[float] = field(default_factory=list)  # when gateways were killed or frozen
    killed: int = 0  # gateways
    problems: list[str] = field(default_factory=list)

    def heard(self) -> dict[Counter, Heard]:
        """By counter."""
        found: dict[Counter, Heard] = defaultdict(Heard)
        for one in self.conversations:
            self._add(found[one.counter], one)
        return dict(found)

    def _add(self, heard: Heard, one: Conversation) -> None:
        allowed = [answer for answer in one.answers if answer.allowed]
        counted = [answer for answer in allowed if not answer.flags & DEGRADED]
        fresh = [answer for answer in counted if not answer.flags & DUPLICATE]
        leased = sum(1 for answer in fresh if answer.flags & APPROXIMATE)
        if allowed:
            heard.admitted += one.cost
            heard.uncounted += one.cost * (not counted)
        else:
            heard.refused += one.cost
            versions = [answer.policy_version for answer in one.answers if not answer.flags & DEGRADED]
            heard.refused_by_version = max(heard.refused_by_version, *versions, 0)
        again, is_long = one.cost * max(0, len(fresh) - 1), one.told_s - one.sent_s > _KNOWN_S
        heard.again += again
        heard.again_anew += again * is_long
        heard.again_by_leases += one.cost * max(0, leased - 1)
        heard.by_leases += one.cost * leased
        heard.fresh += one.cost * sum(1 for answer in allowed if not answer.flags & DUPLICATE)
        doubts = min(self._doubts(one), self.gateways)
        heard.fresh_maybe += one.cost * self.gateways * (doubts > 0)  # asked at two at once, both may have
        degraded = len(allowed) - len(counted)
        if one.counter[0] == "leased":
            heard.late += one.cost * degraded
        elif degraded and (not counted or is_long):
            heard.late += one.cost
        if one.counter[0] == "leased":
            heard.maybe += one.cost * doubts
        elif doubts and (not counted or is_long):  # else the store has counted it, and once
            heard.maybe += one.cost

    def _doubts(self, one: Conversation) -> int:
        """At so many gateways it may have been charged and nobody heard of it."""
        broken = sum(one.sent_s - proof_limits.SOAK_KILL_TAKES_S <= at <= one.told_s for at in self.breaks)
        return one.doubts + broken


def prove(ledger: Ledger, books: dict[Counter, Booked], leases: dict[Quota, Leases]) -> list[Proof]:
    """Every proof over the figures, in the order in which a reader wants them."""
    heard = ledger.heard()
    asked = len(ledger.conversations)
    admitted = sum(one.admitted for one in heard.values())
    return [
        Proof(
            name="every check had a definite answer",
            says=f"{asked} identities, {admitted} admitted",
            problems=ledger.problems,
        ),
        _once(heard),
        _bounded(ledger, heard, books),
        _counted(heard, books, leases),
        _streamed(heard, books),
        _exhausted(ledger, heard, books),
        _settled(heard, leases),
        _given_back(heard, leases),
    ]


def _once(heard: dict[Counter, Heard]) -> Proof:
    stored = {counter: one for counter, one in heard.items() if counter[0] != "leased"}
    return Proof(
        name="no identity was charged twice at the store",
        says=f"{sum(one.admitted for one in stored.values())} admitted, over all gateways; "
        f"{sum(one.again_anew for one in stored.values())} anew, asked again after identities had ended",
        problems=[
            f"{_name(counter)}: {one.again - one.again_anew} charged again"
            for counter, one in stored.items()
            if one.again > one.again_anew
        ],
    )


def _bounded(ledger: Ledger, heard: dict[Counter, Heard], books: dict[Counter, Booked]) -> Proof:
    """Charged at the store: never above the largest capacity; without it each gateway process has its part once."""
    problems, uncounted = [], 0
    for counter, one in heard.items():
        capacity = max(ledger.capacities[counter[0]])
        part = max(1, capacity // ledger.gateways) * (ledger.gateways + ledger.killed)
        over = [
            ("admitted by the store", one.admitted - one.uncounted, capacity),
            ("used at the store", books[counter].used, capacity),
            ("admitted without the store", one.uncounted, part if counter[0] == "open" else 0),
        ]
        problems += [f"{_name(counter)}: {found} {what}, bound {most}" for what, found, most in over if found > most]
        uncounted += one.uncounted
    says = f"{len(heard)} counters of capacity {_capacities(ledger)}; {uncounted} without the store"
    return Proof(name="nobody was admitted more than the bound", says=says, problems=problems)


def _counted(heard: dict[Counter, Heard], books: dict[Counter, Booked], leases: dict[Quota, Leases]) -> Proof:
    """Of leased ones by policy: which counter was given back what, or charged what nobody reported, is not in a sum."""
    problems = [f"{_name(counter)}: {books[counter].reserved} reserved" for counter in heard if books[counter].reserved]
    used = slack = 0
    for quota in QUOTAS:
        mine = [counter for counter in heard if counter[0] == quota]
        for group in [mine] if quota == "leased" else [[counter] for counter in mine]:
            found = sum(books[counter].used for counter in group)
            told = [heard[counter] for counter in group]
            of = leases.get(quota, Leases())
            least = sum(one.admitted - one.uncounted + one.again for one in told) - of.credited
            doubt = sum(one.maybe + one.late for one in told) + of.assumed
            used, slack = used + found, slack + doubt
            if not least <= found <= least + doubt:
                name = quota if quota == "leased" else _name(group[0])
                problems.append(f"{name}: {found} used, must be {least} to {least + doubt}")
    return Proof(
        name="the store has counted what clients were told",
        says=f"{used} used, of which at most {slack} are of conversations that a kill or a slow store broke",
        problems=problems,
    )


def _streamed(heard: dict[Counter, Heard], books: dict[Counter, Booked]) -> Proof:
    """No decision is lost to the stream or in it twice, whatever was killed: a ring outlives its gateway."""
    problems = [
        f"{_name(counter)}: {found} in the stream, must be {one.fresh} to {one.fresh + one.fresh_maybe}"
        for counter, one in heard.items()
        if not one.fresh <= (found := books[counter].streamed) <= one.fresh + one.fresh_maybe
    ]
    says = f"{sum(books[counter].streamed for counter in heard)} allowed, told {sum(o.fresh for o in heard.values())}"
    return Proof(name="the stream adds up to what clients were told", says=says, problems=problems)


def _exhausted(ledger: Ledger, heard: dict[Counter, Heard], books: dict[Counter, Booked]) -> Proof:
    """Whoever was refused by the store under the newest version had used the quota up."""
    problems, refused = [], 0
    for counter, one in heard.items():
        versions = ledger.capacities[counter[0]]
        refused += one.refused
        if counter[0] == "leased" or one.refused_by_version < len(versions):
            continue  # what leases hold may be refused early
        if (left := versions[-1] - books[counter].used) >= COST_MAX:
            problems.append(f"{_name(counter)}: was refused, and {left} are left")
    return Proof(name="nobody was refused what was left", says=f"{refused} refused", problems=problems)


def _settled(heard: dict[Counter, Heard], leases: dict[Quota, Leases]) -> Proof:
    of = leases.get("leased", Leases())
    told = [one for counter, one in heard.items() if counter[0] == "leased"]
    paid, doubt = sum(one.by_leases for one in told), sum(one.maybe for one in told)
    problems = []
    if of.granted != of.reported + of.assumed + of.released:
        problems.append(f"granted {of.granted}, reported + assumed + released {of.reported + of.assumed + of.released}")
    if not paid <= of.reported <= paid + doubt:
        problems.append(f"leases paid {paid} by their answers (and {doubt} maybe), reported {of.reported}")
    if paid and not of.granted:
        problems.append("no lease was settled")
    says = f"{of.granted} = {of.reported} + {of.assumed} + {of.released}; answers say {paid}"
    return Proof(name="granted = reported + assumed + released", says=says, problems=problems)


def _given_back(heard: dict[Counter, Heard], leases: dict[Quota, Leases]) -> Proof:
    of = leases.get("leased", Leases())
    twice = sum(one.again_by_leases for one in heard.values())
    problems = [] if of.credited + of.not_credited >= twice else [f"{twice} paid twice, {of.credited} given back"]
    if of.not_credited:
        problems.append(f"{of.not_credited} were found to be paid twice and stay charged")
    says = f"{twice} by their answers; {of.refunds} refunds gave {of.credited} back"
    return Proof(name="what two leases paid for one identity was given back", says=says, problems=problems)


def _capacities(ledger: Ledger) -> str:
    return ", ".join(f"{quota} {'/'.join(map(str, found))}" for quota, found in ledger.capacities.items())


def _name(counter: Iterable[str]) -> str:
    return ":".join(counter)
