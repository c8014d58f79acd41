"""What operators publish and owners decide by, by kind: read strictly at the door.

So no owner meets what it cannot evaluate. A published body is canonical JSON with every default written out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any, Final, TypeVar

import msgspec

from schemas import errors
from schemas.operators import maintenance
from schemas.payments import limits
from schemas.payments.policies import bank_rules, fee_policy, processor_fees, reference_rates, risk_policy, routing

#: the document that a published body of a kind holds, as canonical JSON; raises InvalidCommand
Reader = Callable[[dict[str, Any], Collection[str]], str]

#: these price money, move it, or say which of it nobody looks at: what one person publishes waits for another who says
#: the same; ``policy_publish`` in the database asks for them
OF_TWO_PERSONS: Final = ("fees", "routing", "reference_rates", "processor_fees", "bank_rules")
_T = TypeVar("_T")
_AT: Final = re.compile(r"(?P<reason>.*?) - at (?:`key` in )?`\$\.?(?P<field>.*)`\Z", re.DOTALL)
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


def canonical(kind: str, document: dict[str, Any], processors: Collection[str]) -> str:
    """What is stored of a document. Raises InvalidCommand with every {field, reason} that forbids it."""
    return READERS[kind](document, processors)


def _checked(type_: type[_T], faults: Callable[[_T], list[dict[str, str]]], text: Callable[[_T], str]) -> Reader:
    def read(document: dict[str, Any], _: Collection[str]) -> str:
        try:
            found = msgspec.convert(document, type_)
        except msgspec.ValidationError as error:
            raise errors.InvalidCommand([fault_of(error)]) from error
        if told := faults(found):
            raise errors.InvalidCommand(told[: limits.POLICY_FAULTS_TOLD_MAX])
        return text(found)

    return read


def _as_json(document: object) -> str:
    return _encode(document).decode()


def _routing(document: dict[str, Any], processors: Collection[str]) -> str:
    return routing.canonical(routing.read(_encode(document), processors))


def _maintenance(document: dict[str, Any], _: Collection[str]) -> str:
    try:
        return maintenance.canonical(document)
    except msgspec.ValidationError as error:
        raise errors.InvalidCommand([fault_of(error)]) from error


def fault_of(error: msgspec.ValidationError) -> dict[str, str]:
    """The {field, reason} that msgspec's message tells; the field is empty for the whole document."""
    if match := _AT.match(str(error)):
        return {"field": match["field"], "reason": match["reason"]}
    return {"field": "", "reason": str(error)}


READERS: Final[dict[str, Reader]] = {
    "risk": _checked(risk_policy.RiskDocument, risk_policy.faults, _as_json),
    "routing": _routing,
    "fees": _checked(fee_policy.FeePolicy, fee_policy.faults, fee_policy.canonical),
    "maintenance": _maintenance,
    "bank_rules": _checked(bank_rules.BankRules, bank_rules.faults, _as_json),
    "reference_rates": _checked(reference_rates.ReferenceRates, reference_rates.faults, reference_rates.canonical),
    "processor_fees": _checked(processor_fees.ProcessorFees, processor_fees.faults, _as_json),
}
