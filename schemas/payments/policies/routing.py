"""The document of a routing policy, as operators publish it and owners decide by it: rules as data, read strictly.

A document that reads without an error can be evaluated without one, so nothing that an operator publishes can stop an
owner. The first rule that fits a charge decides; what no rule fits goes to the default processor.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct, field

from schemas import errors, limits
from schemas.fields import currency
from schemas.payments import limits as payments_limits

#: it stands in ``attempt.route``, in words that are read again: neither ":" nor ";"
Name = Annotated[
    str, Meta(pattern=rf"^[A-Za-z0-9][A-Za-z0-9 _.-]{{0,{payments_limits.ROUTING_NAME_LENGTH_MAX - 1}}}\Z")
]
Code = Annotated[str, Meta(pattern=r"^[A-Z]{3}\Z")]
Country = Annotated[str, Meta(pattern=r"^[A-Z]{2}\Z")]
Word = Annotated[str, Meta(pattern=r"^[a-z0-9_]{1,64}\Z")]
Merchant = Annotated[str, Meta(min_length=1, max_length=limits.SCOPE_LENGTH_MAX)]
Minor = Annotated[int, Meta(ge=0, le=limits.AMOUNT_MINOR_MAX)]
Weight = Annotated[int, Meta(ge=0, le=payments_limits.ROUTING_WEIGHT_MAX)]
_CHOICES: Final = Meta(max_length=payments_limits.ROUTING_CHOICES_MAX)


class AmountRange(Struct, frozen=True, forbid_unknown_fields=True):
    """Minor units of one currency, both ends included."""

    least: Minor = 0
    most: Minor = limits.AMOUNT_MINOR_MAX


class Conditions(Struct, frozen=True, forbid_unknown_fields=True):
    """What a charge has to be; what is left out fits every charge. What is not known of a charge fits no condition."""

    currency: Annotated[tuple[Code, ...], _CHOICES] = ()
    amount: Annotated[dict[Code, AmountRange], _CHOICES] = field(default_factory=dict)  # by currency; others do not fit
    network: Annotated[tuple[Word, ...], _CHOICES] = ()
    merchant: Annotated[tuple[Merchant, ...], _CHOICES] = ()
    country: Annotated[tuple[Country, ...], _CHOICES] = ()  # of the card


class Candidate(Struct, frozen=True, forbid_unknown_fields=True):
    """A processor that may serve the charges of a rule."""

    processor: Word
    weight: Weight = 1  # of ``by_weight``; with 0 it only stands in for others


class RoutingRule(Struct, frozen=True, forbid_unknown_fields=True):
    """Which processors serve the charges that fit, and in which order they are preferred."""

    name: Name
    candidates: Annotated[tuple[Candidate, ...], Meta(min_length=1, max_length=payments_limits.ROUTING_CANDIDATES_MAX)]
    when: Conditions = Conditions()
    choose: Literal["in_order", "by_weight", "by_success_rate"] = "in_order"
    #: codes of an issuer's refusal after which another processor may be tried, beside definitive failures
    retryable_declines: Annotated[tuple[Word, ...], _CHOICES] = ()


class RoutingPolicy(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One version of the rules; version 0 has none. The version is given when it is published."""

    version: int = 0
    rules: Annotated[tuple[RoutingRule, ...], Meta(max_length=payments_limits.ROUTING_RULES_MAX)] = ()
    #: further processors that one confirm may try
    failovers_max: Annotated[int, Meta(ge=0, le=payments_limits.ROUTING_FAILOVERS_MAX)] = 1
    #: outcomes of a processor within its window; with fewer, its rates say nothing
    sample_min: Annotated[int, Meta(ge=1, le=payments_limits.ROUTING_SAMPLE_MAX)] = (
        payments_limits.ROUTING_SAMPLE_DEFAULT
    )
    #: failed and unknown outcomes in basis points; a processor past it is taken out
    failure_rate_max_bps: Annotated[int, Meta(ge=1, le=10_000)] = payments_limits.ROUTING_FAILURE_RATE_BPS_DEFAULT


_decoder: Final = msgspec.json.Decoder(RoutingPolicy)
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


def read(body: bytes, processors: Collection[str]) -> RoutingPolicy:
    """The policy that a document is; ``processors`` are the configured ones. Raises InvalidCommand with every fault."""
    try:
        policy = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason, _, path = str(error).partition(" - at ")
        raise errors.InvalidCommand([_fault(path.strip("`").removeprefix("$.") or "policy", reason)]) from error
    if found := faults(policy, processors):
        raise errors.InvalidCommand(found)
    return policy


def canonical(policy: RoutingPolicy) -> str:
    """The document as it is stored: without the version, which is a column of its own."""
    return _encode({name: value for name, value in msgspec.to_builtins(policy).items() if name != "version"}).decode()


def faults(policy: RoutingPolicy, processors: Collection[str]) -> list[dict[str, str]]:
    """What the types cannot say: every {field, reason} that forbids the policy; empty = it may be published."""
    found = [_fault("version", "is given by us")] if policy.version else []
    names = [rule.name for rule in policy.rules]
    for n, rule in enumerate(policy.rules):
        at = f"rules[{n}]"
        if names.index(rule.name) < n:
            found.append(_fault(f"{at}.name", "is the name of another rule"))
        codes = {*rule.when.currency, *rule.when.amount}
        found += [
            _fault(f"{at}.when", f"{c} is no currency with a minor unit")
            for c in sorted(codes)
            if not currency.is_currency(c)
        ]
        if any(amount.least > amount.most for amount in rule.when.amount.values()):
            found.append(_fault(f"{at}.when.amount", "must not end before it begins"))
        found += _candidate_faults(rule, f"{at}.candidates", processors)
    return found


def needs_network(policy: RoutingPolicy) -> bool:
    """Whether a rule asks for the network of the card."""
    return any(rule.when.network for rule in policy.rules)


def _candidate_faults(rule: RoutingRule, at: str, processors: Collection[str]) -> list[dict[str, str]]:
    names = [candidate.processor for candidate in rule.candidates]
    found = [_fault(f"{at}[{n}].processor", "is not configured") for n, p in enumerate(names) if p not in processors]
    if len(set(names)) < len(names):
        found.append(_fault(at, "must name a processor once"))
    if rule.choose == "by_weight" and not any(candidate.weight for candidate in rule.candidates):
        found.append(_fault(at, "must have a weight above 0"))
    return found


def _fault(where: str, reason: str) -> dict[str, str]:
    return {"field": where, "reason": reason}
