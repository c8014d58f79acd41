"""From where a call comes: one form for every spelling, which policies it brings into force, and who is believed."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limiter.edge.client_address import client_address
from limiter.policy.keys import key_parts
from limiter.policy.policies import PolicySet
from schemas import errors
from schemas.client_network import client_network, widened
from schemas.limiter.operations import OPERATIONS
from tests.each import each
from tests.worlds.limiter.counter_server import listed, policies, policy

PROXIES = (client_network("10.0.0.0/8"), client_network("2001:db8:ffff::/48"))
BY_NETWORK = ["tenant", "network"]


@pytest.mark.parametrize(
    ("alias", "network"),
    [
        ("192.0.2.7", "192.0.2.7/32"),
        ("::ffff:192.0.2.7", "192.0.2.7/32"),
        ("::FFFF:C000:0207", "192.0.2.7/32"),
        ("::ffff:192.0.2.0/120", "192.0.2.0/24"),
        ("2001:DB8:0:0::1", "2001:db8::1/128"),
        ("2001:db8::/32", "2001:db8::/32"),
        ("::/0", "::/0"),
    ],
)
def test_every_spelling_of_a_network_is_one(alias: str, network: str) -> None:
    assert str(client_network(alias)) == network


@each("text", ["", "*", "fe80::1%eth0", "10.0.0.1/8", "010.0.0.1", "1.2.3", "host", "10.0.0.1:80"])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(errors.InvalidCommand):
        key_parts("t", "u", "/r", text)


@given(st.ip_addresses(), st.integers(1, 32), st.integers(1, 128))
def test_a_widened_network_holds_what_it_came_from(address: Any, v4: int, v6: int) -> None:
    """And is no wider than asked, unless it was before."""
    one = client_network(str(address))
    wide = widened(one, v4, v6)
    assert one.network_address in wide
    assert wide.prefixlen == (v4 if wide.version == 4 else v6)


def governing(found: PolicySet, client: str | None, tenant: str = "t") -> list[str]:
    return sorted(level.id_ for level in found.levels(key_parts(tenant, "u", "/r", client)))


def test_the_narrowest_network_wins_and_names_outweigh_it() -> None:
    found = policies(
        policy("pl_any"),
        policy("pl_wide", scope={"network": "10.0.0.0/8"}),
        policy("pl_narrow", scope={"network": "10.1.0.0/16"}),
        policy("pl_six", scope={"network": "2001:db8::/32"}),
        policy("pl_named", scope={"tenant": "vip"}),
    )
    assert governing(found, "10.1.2.3") == ["pl_narrow"]
    assert governing(found, "::ffff:10.2.0.1") == ["pl_wide"]
    assert governing(found, "2001:db8::9") == ["pl_six"]
    assert governing(found, "192.0.2.1") == governing(found, None) == ["pl_any"]
    assert governing(found, "10.1.2.3", tenant="vip") == ["pl_named"]


def test_a_call_from_nowhere_is_not_counted_by_network() -> None:
    found = policies(policy("pl_a"), policy("pl_b", per=BY_NETWORK))
    assert governing(found, None) == ["pl_a"]
    assert governing(found, "192.0.2.1") == ["pl_a", "pl_b"]


def counted(client: str, **changes: Any) -> str:
    (level,) = policies(policy(per=BY_NETWORK, **changes)).levels(key_parts("t", "u", "/r", client))
    return level.counted_by(key_parts("t", "u", "/r", client)).partition("\x1f")[2]


def test_counters_are_kept_by_networks() -> None:
    assert counted("192.0.2.7") == counted("::ffff:192.0.2.200") == "192.0.2.0/24"
    assert counted("2001:db8:0:1ff::1") == "2001:db8:0:100::/56"
    assert counted("192.0.2.7", network_prefix_v4=32) == "192.0.2.7/32"
    assert counted("2001:db8:0:1ff::1", network_prefix_v6=64) == "2001:db8:0:1ff::/64"
    assert counted("10.0.0.0/8") == "10.0.0.0/8"  # a proxy told no more


def test_counters_of_policies_without_networks_are_where_they_were() -> None:
    (level,) = policies(policy()).levels(key_parts("t", "u", "/r"))
    assert level.counted_by(key_parts("t", "u", "/r", "192.0.2.1")) == "t\x1fu\x1f/r"


@given(st.ip_addresses(), st.ip_addresses(), st.integers(1, 32), st.integers(1, 128), st.integers(8, 32))
def test_clients_that_are_not_told_apart_have_the_same_levels_and_counters(
    one: Any, other: Any, v4: int, v6: int, named: int
) -> None:
    scope = {"network": str(ipaddress.ip_network((str(ipaddress.IPv4Address("10.1.2.3")), named), strict=False))}
    found = policies(
        policy("pl_a", per=BY_NETWORK, network_prefix_v4=v4, network_prefix_v6=v6), policy("pl_b", scope=scope)
    )
    near = widened(client_network(str(one)), 31, 127)  # a neighbour, half of the time the same for every policy
    for client in (str(other), str(near[-1])):
        if found.network_of(str(one)) == found.network_of(client):
            here, there = (key_parts("t", "u", "/r", address) for address in (str(one), client))
            assert [(level.id_, level.counted_by(here)) for level in found.levels(here)] == [
                (level.id_, level.counted_by(there)) for level in found.levels(there)
            ]


def test_while_no_policy_is_by_network_clients_are_one() -> None:
    assert policies(policy()).network_of("192.0.2.1") is None
    with pytest.raises(errors.InvalidCommand):
        policies(policy()).network_of("nowhere")


@each("network", ["10.0.0.1/8", "10.0.0.1", "fe80::%1/64", "2001:DB8::/32", "::ffff:10.0.0.0/104", "x", "", [], 7])
def test_a_policy_names_a_network_in_one_way(network: Any) -> None:
    scope = {"tenant": "*", "user": "*", "route": "*", "network": network}
    payload = {"scope": scope, "algorithm": "fixed_window", "capacity": 1, "window_ms": 1_000}
    _, wrong = OPERATIONS["publish_policy"].normalize(payload)
    assert [row["field"] for row in wrong] == ["payload.scope"]


def test_any_network_said_or_not_is_the_same_request() -> None:
    scope = {"tenant": "*", "user": "*", "route": "*"}
    payload = {"scope": scope, "algorithm": "fixed_window", "capacity": 1, "window_ms": 1_000}
    for network in ("*", None):  # null is what Avro makes of one that was not said
        said = payload | {"scope": scope | {"network": network}}
        assert OPERATIONS["publish_policy"].normalize(said) == OPERATIONS["publish_policy"].normalize(payload)


def came_from(peer: str | None, *forwarded: str) -> str | None:
    headers = [(b"x-forwarded-for", text.encode()) for text in forwarded]
    scope = {"type": "http", "client": None if peer is None else (peer, 1), "headers": headers}
    return client_address(scope, PROXIES)


@each(
    ("peer", "forwarded", "client"),
    [
        ("192.0.2.1", (), "192.0.2.1"),
        ("192.0.2.1", ("203.0.113.9",), "192.0.2.1"),  # a stranger's word
        ("10.0.0.1", (), "10.0.0.1"),
        ("10.0.0.1", ("203.0.113.9",), "203.0.113.9"),
        ("::ffff:10.0.0.1", ("203.0.113.9",), "203.0.113.9"),
        ("10.0.0.1", ("1.1.1.1, 203.0.113.9",), "203.0.113.9"),  # the client wrote the first
        ("10.0.0.1", ("1.1.1.1", "203.0.113.9, 10.0.0.2"), "203.0.113.9"),
        ("10.0.0.1", ("203.0.113.9, 2001:db8:ffff::1",), "203.0.113.9"),
        ("10.0.0.1", ("10.0.0.3, 10.0.0.2",), "10.0.0.3"),
        ("10.0.0.1", ("203.0.113.9, unknown, 10.0.0.2",), "10.0.0.2"),
        ("10.0.0.1", ("203.0.113.0/24",), "10.0.0.1"),
        ("10.0.0.1", (",,,",), "10.0.0.1"),
        ("10.0.0.1", ("203.0.113.9" + ", 10.0.0.2" * 100,), "10.0.0.2"),
        (None, ("203.0.113.9",), None),
        ("/run/socket", ("203.0.113.9",), None),
    ],
)
def test_only_trusted_proxies_are_believed(peer: str | None, forwarded: tuple[str, ...], client: str | None) -> None:
    assert came_from(peer, *forwarded) == client


def test_a_view_of_a_key_names_what_is_by_network_and_says_whose_counter_it_shows() -> None:
    """Without a client the counted ones that may govern the key; with one those that do, lists too."""
    narrow = policy("pl_narrow", scope={"network": "192.0.2.0/28"}, per=["user", "network"])
    wide = policy("pl_wide", per=["network"], shadow=True)
    elsewhere = policy("pl_other", scope={"tenant": "other"}, per=["network"])
    block = listed("deny", "pl_block", scope={"network": "198.51.100.0/24"}, per=["route"])
    found = policies(narrow, wide, elsewhere, block, policy("pl_plain"))
    from_anywhere = key_parts("t", "u", "/r")
    shown = {level.id_: level.network_from(from_anywhere) for level in found.by_network(from_anywhere)}
    assert shown == {"pl_narrow": "192.0.2.0/28", "pl_wide": None}
    for client, expected in (
        ("192.0.2.9", {"pl_narrow": "192.0.2.0/24", "pl_wide": "192.0.2.0/24"}),
        ("198.51.100.7", {"pl_block": "198.51.100.0/24", "pl_wide": "198.51.100.0/24"}),
    ):
        parts = key_parts("t", "u", "/r", client)
        assert {level.id_: level.network_from(parts) for level in found.by_network(parts)} == expected
