"""The policies of a dry run: those in force, with the ones of a file in their place or beside them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from compose.stack.errors import StackError
from limiter.policy.policies import PolicySet
from schemas.limiter.limit_policy import as_policy
from schemas.limiter.operations import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from schemas.limiter.limit_policy import LimitPolicy

_OF_THE_SERVER: Final = ("id", "object", "version", "active_version", "created_at", "updated_at")


class UnusablePolicies(StackError):
    """The file says nothing that could be published; the text says where and why."""


def other_policies(in_force: list[LimitPolicy], file: Path | None, without: Collection[str]) -> PolicySet:
    """What would be in force. Raises UnusablePolicies."""
    found = {policy.policy_id: policy for policy in in_force}
    if missing := set(without) - found.keys():
        raise UnusablePolicies(f"{', '.join(sorted(missing))} is not in force, see 'millrace limiter policies'")
    for policy_id in without:
        del found[policy_id]
    for number, payload in enumerate(_payloads(file) if file else [], 1):
        policy = _policy(number, payload, found)
        found[policy.policy_id] = policy
    return PolicySet(list(found.values()), 0)


def _payloads(file: Path) -> list[Any]:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise UnusablePolicies(f"{file} cannot be read: {error}") from error
    if isinstance(found, dict):
        found = found.get("data", [found])
    if not isinstance(found, list) or not found:
        raise UnusablePolicies(f"{file} must hold a list of policies, as 'millrace limiter policies --json' has it")
    return found


def _policy(number: int, payload: Any, in_force: dict[str, LimitPolicy]) -> LimitPolicy:
    if not isinstance(payload, dict):
        raise UnusablePolicies(f"policy {number} is no object")
    plain = {name: value for name, value in payload.items() if name not in _OF_THE_SERVER}
    result, wrong = OPERATIONS["publish_policy"].normalize(plain)
    if wrong:
        said = "; ".join(f"{error['field']} {error['reason']}" for error in wrong)
        raise UnusablePolicies(f"policy {number} could not be published: {said}")
    policy_id = result.pop("policy_id") or f"new_{number}"
    version = in_force[policy_id].version + 1 if policy_id in in_force else 1
    return as_policy(result, policy_id, version)
