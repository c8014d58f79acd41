"""Staff, and what an operator may decide, by role: support, finance, risk, platform. ``operator`` has all of them.

Every role reads what operators read. What an action decides needs the role of its first word here; an action that
stands nowhere here needs ``operator``.
"""

from __future__ import annotations

import re
from typing import Any, Final

OPERATOR: Final = "operator"
_PREFIX: Final = f"{OPERATOR}:"
SUPPORT: Final = f"{_PREFIX}support"
FINANCE: Final = f"{_PREFIX}finance"
RISK: Final = f"{_PREFIX}risk"
PLATFORM: Final = f"{_PREFIX}platform"
ROLES: Final = (SUPPORT, FINANCE, RISK, PLATFORM)
#: any of these is an operator's
OPERATORS: Final = (OPERATOR, *ROLES)
#: looks at the console, and decides nothing
CONSOLE_READ: Final = "console:read"
#: whoever has one of these sees everybody's business, and is nobody of it
STAFF: Final = frozenset((CONSOLE_READ, *OPERATORS))

_READS: Final = re.compile(r"\w+\.(read|list)(_\w+)?")
#: actions whose role is not that of their first word
_BY_ACTION: Final = {
    "account.freeze_account": RISK,
    "account.unfreeze_account": RISK,
    "attempt.ask": SUPPORT,
    **dict.fromkeys(("access.deny_subject", "access.deny_token", "access.lift_subject", "access.lift_token"), PLATFORM),
}
_BY_WORD: Final = {
    # money that moves by hand, and what prices it
    **dict.fromkeys(("account", "money", "repair", "attempt"), FINANCE),
    **dict.fromkeys(
        ("invoice", "fees_policy", "processor_fees_policy", "bank_rules_policy", "reference_rates_policy"), FINANCE
    ),
    # who may pay, and what is looked at
    **dict.fromkeys(("risk", "risk_policy", "access"), RISK),
    # what merchants and their payments need
    **dict.fromkeys(("case", "signing_key", "signature_requirement", "grant"), SUPPORT),
    # how the installation works
    **dict.fromkeys(
        ("routing_policy", "maintenance_policy", "parked", "usage", "move", "isolation", "media", "placement"), PLATFORM
    ),
}


def scopes_for(action: str) -> tuple[str, ...]:
    """The scopes of which a caller needs one for an action, as the audit log names it."""
    if _READS.fullmatch(action):
        return OPERATORS
    role = _BY_ACTION.get(action) or _BY_WORD.get(action.partition(".")[0])
    return (OPERATOR,) if role is None else (OPERATOR, role)


def by_operators(action: str) -> dict[str, Any]:
    """Whose call it is, as the OpenAPI document says it: an operator's, of a role that may do this action."""
    return {"tags": ["operators"], "security": [{"bearer": [scope]} for scope in scopes_for(action)]}
