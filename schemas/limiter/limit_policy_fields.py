"""What values the payload of a quota policy may have. What they must fulfil together is in ``limit_policy``."""

from __future__ import annotations

from typing import Any, Final, get_args

from schemas import limits
from schemas.client_network import V4_BITS, V6_BITS, client_network
from schemas.limiter import calendar_windows, limit_audit, limit_key, limit_policy
from schemas.validation import Check, Field, Fields, boolean, choice, clean_text, identity


def _whole(smallest: int, largest: int) -> Check:
    reason = f"must be an integer from {smallest} to {largest}"
    return lambda value: None if type(value) is int and smallest <= value <= largest else reason


_capacity_range: Final = _whole(1, limit_policy.CAPACITY_MAX)


def _capacity(value: object) -> str | None:
    """Zero is a mistake more often than a wish: who wishes it says so."""
    reason = _capacity_range(value)
    return f"{reason}; algorithm deny refuses everything" if reason and value == 0 else reason


def _limit_scope(value: object) -> str | None:
    wanted = set(limit_policy.KEY_PARTS)
    if not isinstance(value, dict) or value.keys() - {limit_policy.NETWORK} != wanted:
        return "must have tenant, user and route, each a value or *, and may have a network"
    for name in limit_policy.KEY_PARTS:
        if reason := _named(name, value[name]):
            return f"{name} {reason}"
    network = _without_any_network(value).get(limit_policy.NETWORK, limit_policy.ANY)
    if reason := clean_text(network, limits.LIMIT_KEY_PART_LENGTH_MAX):
        return f"network {reason}"
    return _network(network)


def _named(name: str, value: object) -> str | None:
    """Why no key has such a part."""
    if reason := clean_text(value, limits.LIMIT_KEY_PART_LENGTH_MAX):
        return reason
    try:
        form = _form_of(name, str(value))
    except ValueError as error:
        return str(error)
    return "must not be * by another name" if form == limit_policy.ANY != value else None


def _form_of(name: str, text: str) -> str:
    return limit_key.normal_route(text) if name == "route" else limit_key.normal_name(text)


def _normal_scope(scope: dict[str, Any]) -> dict[str, Any]:
    """As keys are: a policy for an alias of a key is one for the key, and a retry by another alias hashes alike."""
    return {
        name: _form_of(name, text) if name in limit_policy.KEY_PARTS else text
        for name, text in _without_any_network(scope).items()
    }


def _without_any_network(scope: dict[str, Any]) -> dict[str, Any]:
    """As a scope was written before there were networks: a retry hashes alike."""
    any_network = scope.get(limit_policy.NETWORK) in (None, limit_policy.ANY)
    return {name: text for name, text in scope.items() if not (any_network and name == limit_policy.NETWORK)}


def _network(text: str) -> str | None:
    """One spelling for one network: two policies of the same scope are seen to be."""
    if text == limit_policy.ANY:
        return None
    try:
        found = str(client_network(text))
    except ValueError:
        return "network must be a network such as 192.0.2.0/24 or 2001:db8::/32, without host bits and zone, or *"
    return None if found == text else f"network must be written as {found}"


def _key_parts(value: object) -> str | None:
    allowed = limit_policy.COUNTED_BY
    if not isinstance(value, list) or not value or len(set(map(str, value))) < len(value):
        return "must be a list of different key parts"
    return None if all(part in allowed for part in value) else "must be of " + ", ".join(allowed)


def _calendar(value: object) -> str | None:
    """Whose windows, by which clocks."""
    units = get_args(calendar_windows.Unit)
    if not isinstance(value, dict) or value.keys() != {"unit", "time_zone"}:
        return "must have unit and time_zone"
    if not isinstance(value["unit"], str) or value["unit"] not in units:
        return "unit must be one of " + ", ".join(units)
    if not isinstance(value["time_zone"], str) or value["time_zone"] not in calendar_windows.time_zones():
        return "time_zone must be the IANA name of a time zone, such as Europe/Berlin or UTC"
    return None


PUBLISH_POLICY: Final[Fields] = {
    "policy_id": Field(identity, None, nullable=True),  # absent = a new policy
    "scope": Field(_limit_scope, normal=_normal_scope),
    "per": Field(_key_parts, list(limit_policy.KEY_PARTS)),  # the parts that a counter is kept by
    "algorithm": Field(choice(*get_args(limit_policy.Algorithm))),
    "capacity": Field(_capacity, None, nullable=True),  # of what is counted
    "refill_rate": Field(_whole(1, limit_policy.CAPACITY_MAX), None, nullable=True),
    "refill_period_ms": Field(_whole(1, limits.LIMIT_WINDOW_MS_MAX), 1_000),
    "window_ms": Field(_whole(1, limits.LIMIT_WINDOW_MS_MAX), None, nullable=True),
    "slots": Field(_whole(1, limits.LIMIT_SLOTS_MAX), 10),
    "strict": Field(boolean, default=False),
    "consistency": Field(choice(*get_args(limit_policy.Consistency)), "leased"),
    "failure_mode": Field(choice(*get_args(limit_policy.FailureMode)), "closed"),
    "shadow": Field(boolean, default=False),
    "audit": Field(limit_audit.wrong_audit, "full"),
    "calendar": Field(_calendar, None, nullable=True, later=True),  # in place of window_ms
    "boundary_guard": Field(_whole(1, limit_policy.CAPACITY_MAX), None, nullable=True, later=True),
    # how wide the networks are that counters are kept by
    "network_prefix_v4": Field(_whole(1, V4_BITS), None, nullable=True, later=True),
    "network_prefix_v6": Field(_whole(1, V6_BITS), None, nullable=True, later=True),
}
