"""Which role of an operator an action needs."""

from __future__ import annotations

import pytest

from ingress.identity.roles import FINANCE, OPERATOR, OPERATORS, PLATFORM, RISK, ROLES, SUPPORT, scopes_for
from schemas.payments.operations import ON_ACCOUNTS
from schemas.payments.policies.kinds import READERS

DECIDED = {
    FINANCE: (
        *("account.convert_currency", "account.hold_reserve", "account.release_reserve"),
        *("account.record_payout_outcome", "account.allow_payout_destination", "account.show_destinations"),
        *("money.approve", "money.reject", "repair.propose", "repair.approve"),
        *("repair.reverse", "attempt.propose_outcome", "attempt.approve_outcome", "fees_policy.publish"),
        *("processor_fees_policy.publish", "bank_rules_policy.publish", "reference_rates_policy.publish"),
    ),
    RISK: ("account.freeze_account", "account.unfreeze_account", "risk.review", "risk_policy.publish"),
    SUPPORT: ("attempt.ask", "case.close", "case.reopen", "signing_key.revoke", "signature_requirement.set"),
    PLATFORM: ("routing_policy.publish", "maintenance_policy.publish", "parked.decide"),
}


@pytest.mark.parametrize("role", ROLES)
def test_what_a_role_decides_and_no_other_does(role: str) -> None:
    for action in DECIDED[role]:
        assert scopes_for(action) == (OPERATOR, role), action


@pytest.mark.parametrize(
    "action", ["case.list", "case.read", "case.read_closing", "attempt.list_outcomes", "risk.read"]
)
def test_every_role_reads(action: str) -> None:
    assert scopes_for(action) == OPERATORS


@pytest.mark.parametrize("action", ["", "case", "something.new", "case.readies", "unlisted.delist"])
def test_what_nobody_has_thought_of_needs_them_all(action: str) -> None:
    wanted = (OPERATOR, SUPPORT) if action.startswith("case") else (OPERATOR,)
    assert scopes_for(action) == wanted


def test_every_policy_and_every_command_on_an_account_has_its_role() -> None:
    actions = [f"{kind}_policy.publish" for kind in READERS] + [f"account.{name}" for name in ON_ACCOUNTS]
    assert {action: len(scopes_for(action)) for action in actions} == dict.fromkeys(actions, 2)
