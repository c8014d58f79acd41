"""What a person may propose to the ledger, and the one command that an approved proposal becomes.

Pure: templates become balanced entries, entries are judged against the accounts that a repair may touch. Accounts that
are the image of payments (holds, refunds in flight, disputes, unsettled money) are not among them: facts change them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from schemas import limits
from schemas.errors import InvalidCommand
from schemas.fields import validation
from schemas.fields import value_types as types
from schemas.fields.validation import Field, ValueType
from schemas.operators import decision_note
from schemas.payments import facts, value_types
from schemas.records import Command

Entry = dict[str, Any]  # account_id, debit, credit, currency

LEDGER_SCOPE: Final = "ledger:repair"
_REFERENCE: Final = "repair:"
#: of a transaction in the ledger, by the template of its proposal
KIND: Final = "repair"
KIND_OF_REVERSAL: Final = "repair_reversal"
REVERSAL: Final = "reversal"
TEMPLATES: Final = ("write_off", "move_from_suspense", "reverse")
SIDES: Final = ("loss", "gain")
_NAME: Final = rf"[A-Za-z0-9_-]{{1,{limits.SCOPE_LENGTH_MAX}}}"
#: debits grow what we own and spend, credits what we owe and earn
_ACCOUNT: Final = re.compile(
    r"(?:(?:cash|payout_in_transit|processor_receivable|processor_reserve|processor_fee_expense|dispute_fee_expense"
    r"|recon_suspense|recon_loss_expense|recon_gain_income|merchant_available|merchant_reserved)"
    rf":{_NAME}|platform_fee_income|rounding|chargeback_loss)\Z"
)


def _account(value: object) -> str | None:
    is_account = isinstance(value, str) and _ACCOUNT.match(value) is not None
    return None if is_account else "must be an account that a repair may touch, without its currency"


def _name(value: object) -> str | None:
    return None if isinstance(value, str) and re.fullmatch(_NAME, value) else "must be a name"


_ACCOUNT_TYPE: Final = ValueType(_account, "string", {"type": "string"})
_NAME_TYPE: Final = ValueType(_name, "string", {"type": "string", "pattern": f"^{_NAME}$"})
PROPOSAL: Final[validation.Fields] = {
    "template": Field(types.choice(*TEMPLATES), "absent: the entries are given", None, nullable=True),
    "entries": Field(value_types.ENTRIES, "balanced per currency", None, nullable=True),
    "amount": Field(types.AMOUNT, "minor units", None, nullable=True),
    "currency": Field(types.CURRENCY, "ISO 4217", None, nullable=True),
    "account": Field(_ACCOUNT_TYPE, "without its currency", None, nullable=True),
    "processor": Field(_NAME_TYPE, "absent: the case's own", None, nullable=True),
    "side": Field(types.choice(*SIDES), "whose side a write-off takes", None, nullable=True),
    "reference": Field(types.TEXT, "of the transaction that is reversed", None, nullable=True),
    **decision_note.REQUIRED,
}
#: what each form of a proposal needs; what is neither needed nor optional has no meaning and is refused
_NEEDED: Final = {
    None: {"entries"},
    "write_off": {"amount", "currency"},
    "move_from_suspense": {"amount", "currency", "account"},
    "reverse": {"reference"},
}
_OPTIONAL: Final = {"write_off": {"account", "side", "processor"}, "move_from_suspense": {"side", "processor"}}


def read_proposal(payload: dict[str, Any]) -> dict[str, Any]:
    """The payload with every field of its form. Raises InvalidCommand with all that is wrong."""
    found, wrong = validation.normalize(PROPOSAL, payload)
    if not wrong:
        template = found["template"]
        needed = _NEEDED[template]
        given = {name for name, value in found.items() if value is not None} - {"template", "note"}
        wrong = [{"field": f"payload.{n}", "reason": "is required"} for n in sorted(needed - given)]
        odd = given - needed - _OPTIONAL.get(template, set())
        wrong += [{"field": f"payload.{n}", "reason": "has no meaning here"} for n in sorted(odd)]
    if wrong:
        raise InvalidCommand(wrong)
    return found


def entries_of(proposal: dict[str, Any], processor: str | None, mirrored: list[Entry] | None) -> list[Entry]:
    """The entries that a proposal means; ``mirrored`` those of a reversed transaction. Raises InvalidCommand."""
    template = proposal["template"]
    if template is None:
        return [dict(entry) for entry in proposal["entries"]]
    if template == "reverse":
        if mirrored is None:
            raise InvalidCommand([{"field": "payload.reference", "reason": "is of no transaction in the ledger"}])
        return mirrored
    party = proposal["processor"] or processor
    if party is None:
        raise InvalidCommand([{"field": "payload.processor", "reason": "is required: the case names none"}])
    suspense = f"recon_suspense:{party}"
    if template == "move_from_suspense":
        side, debit, credit = proposal["side"] or "gain", suspense, str(proposal["account"])
    else:
        side = proposal["side"] or "loss"
        account = proposal["account"] or suspense
        debit, credit = account, f"recon_gain_income:{party}"
        if side == "loss":
            return _transfer(f"recon_loss_expense:{party}", account, proposal)
    if side == "loss":  # what is missing is charged to the account
        debit, credit = credit, debit
    return _transfer(debit, credit, proposal)


def _transfer(debit: str, credit: str, proposal: dict[str, Any]) -> list[Entry]:
    amount, currency = proposal["amount"], proposal["currency"]
    return [
        {"account_id": f"{debit}:{currency}", "debit": amount, "credit": 0, "currency": currency},
        {"account_id": f"{credit}:{currency}", "debit": 0, "credit": amount, "currency": currency},
    ]


def require_sound(entries: Sequence[Entry], currency: str | None) -> None:
    """Raises InvalidCommand unless the entries balance on accounts that a repair may touch, in the case's currency."""
    wrong: list[dict[str, str]] = []
    totals: dict[str, int] = {}
    for n, entry in enumerate(entries):
        where, code = f"payload.entries[{n}]", entry["currency"]
        account, _, suffix = entry["account_id"].rpartition(":")
        if not _ACCOUNT.match(account):
            wrong.append({"field": f"{where}.account_id", "reason": "is no account that a repair may touch"})
        if suffix != code:
            wrong.append({"field": f"{where}.currency", "reason": "is not the currency of the account"})
        if currency is not None and code != currency:
            wrong.append({"field": f"{where}.currency", "reason": f"is not the currency of the case, {currency}"})
        if (entry["debit"] > 0) == (entry["credit"] > 0):
            wrong.append({"field": where, "reason": "must have a debit or a credit above zero"})
        totals[code] = totals.get(code, 0) + entry["debit"] - entry["credit"]
    wrong += [
        {"field": "payload.entries", "reason": f"do not balance in {code}: debits and credits differ by {abs(rest)}"}
        for code, rest in totals.items()
        if rest
    ]
    if wrong:
        raise InvalidCommand(wrong, "The entries cannot be posted; see errors.")


def reference_of(proposal_id: str) -> str:
    """Of the ledger transaction: unique, so that a proposal posts once whatever is retried."""
    return _REFERENCE + proposal_id


def proposals_named(commands: Sequence[Command]) -> list[str]:
    """The ids of the proposals that repairs among these say they are of."""
    return [c.idempotency_key.removeprefix(_REFERENCE) for c in commands if c.scope == LEDGER_SCOPE]


def command_of(
    proposal_id: str, template: str, entries: list[Entry], note: str, author: str, approver: str, issued_at: int
) -> Command:
    """The command of an approved proposal: the same identity and hash whoever sends it, whenever (microseconds)."""
    reference = reference_of(proposal_id)
    payload: dict[str, object] = {
        "reference": reference,
        "kind": KIND_OF_REVERSAL if template == REVERSAL else KIND,
        "entries": [{name: e[name] for name in ("account_id", "debit", "credit", "currency")} for e in entries],
        "note": f"{note} (proposed by {author}, approved by {approver})",
    }
    return facts.fact_command(
        "post_journal",
        scope=LEDGER_SCOPE,
        key=reference,
        aggregate_key=facts.journal_id(reference),
        payload=payload,
        trace_id=facts.trace_of(LEDGER_SCOPE, reference),
        issued_at=issued_at,
    )
