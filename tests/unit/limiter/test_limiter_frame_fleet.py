"""Which gateway a client asks, and under which identity it asks the next one; how many share an open quota."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from compose.settings.limiter_gateways import gateway_addresses, gateways_everywhere
from compose.settings.settings import Settings, load_settings
from compose.stack.errors import StackError
from limiter.frames.frame_fleet import Spread, _Asking
from limiter.frames.frame_requests import Check, GatewayUnavailable
from limiter.frames.frames import Answer

if TYPE_CHECKING:
    from pathlib import Path

ADDRESSES = ["/run/a.sock", "/run/b.sock", ("127.0.0.1", 7001)]
USERS = [f"u{n}" for n in range(300)]
ALLOWED = Answer(True, 1, 0, 0, 1, 1)


def homes(addresses: list[str | tuple[str, int]]) -> dict[str, str | tuple[str, int]]:
    spread = Spread(addresses)
    return {user: addresses[spread.order("t", user, "/r")[0]] for user in USERS}


def test_every_client_asks_the_same_gateway_whatever_the_order_of_its_list() -> None:
    assert homes(ADDRESSES) == homes(ADDRESSES[::-1])
    assert {where: sum(h == where for h in homes(ADDRESSES).values()) > 60 for where in ADDRESSES} == dict.fromkeys(
        ADDRESSES, True
    )


def test_a_gateway_that_joins_takes_its_own_keys_only() -> None:
    before, after = homes(ADDRESSES[:2]), homes(ADDRESSES)
    assert {after[user] for user in USERS if after[user] != before[user]} == {ADDRESSES[2]}


def test_the_next_gateway_is_asked_under_the_same_identity() -> None:
    """Also under one that was made here; what was answered is not asked again."""
    asking = _Asking(Spread(ADDRESSES), [Check("t", user, "/r") for user in USERS])
    asked: dict[str, list[bytes | None]] = {}
    lost, *answered = asking.parts()
    for part in answered:
        asking.answered(part, [ALLOWED] * len(part[1]))
    asking.failed(lost, GatewayUnavailable(cause="gone"))
    first = asking.checks(lost)
    again = asking.parts()
    assert sorted(place for part in again for place in part[1]) == lost[1]
    assert lost[0] not in {part[0] for part in again}
    for check in first + [check for part in again for check in asking.checks(part)]:
        asked.setdefault(check.user, []).append(check.identity)
    assert all(one is not None and one == other for one, other in asked.values())
    for part in again:
        asking.answered(part, [ALLOWED] * len(part[1]))
    assert asking.parts() == []
    assert asking.answers() == [ALLOWED] * len(USERS)


def test_who_did_not_answer_is_asked_last_and_when_nobody_answers_that_is_said() -> None:
    spread = Spread(ADDRESSES)
    home, *others = spread.order("t", "u", "/r")
    spread.away(home)
    assert spread.tries("t", "u", "/r") == [*others, home]
    asking = _Asking(spread, [Check("t", "u", "/r")])
    for _ in range(2):
        asking.failed(asking.parts()[0], GatewayUnavailable(cause="gone"))
    last = asking.parts()[0]
    assert last[0] == home
    with pytest.raises(GatewayUnavailable):
        asking.failed(last, GatewayUnavailable(cause="gone"))


@pytest.mark.parametrize("addresses", [[], ["/run/a.sock", "/run/a.sock"]])
def test_a_fleet_has_each_gateway_once(addresses: list[str]) -> None:
    with pytest.raises(ValueError, match="each once"):
        Spread(addresses)


def test_gateways_share_an_open_quota_by_their_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of this machine, unless the fleet is larger; fewer than this machine runs is a mistake."""
    assert gateways_everywhere(Settings(home=tmp_path)) == 1
    three = Settings(home=tmp_path, limiter_gateway_processes=3, limiter_frames_port=7000)
    assert gateways_everywhere(three) == 3
    assert [(g.name, g.socket.name, g.port) for g in gateway_addresses(three)] == [
        (f"limiter_gateway-{n}", f"limiter-{n}.sock", 7000 + n) for n in range(3)
    ]
    monkeypatch.setenv("MILLRACE_LIMITER_GATEWAY_PROCESSES", "3")
    monkeypatch.setenv("MILLRACE_LIMITER_GATEWAYS", "12")
    assert gateways_everywhere(load_settings(tmp_path)) == 12
    monkeypatch.setenv("MILLRACE_LIMITER_GATEWAYS", "2")
    with pytest.raises(StackError, match=r"MILLRACE_LIMITER_GATEWAYS is wrong: .*this machine alone runs 3"):
        load_settings(tmp_path)
    monkeypatch.delenv("MILLRACE_LIMITER_GATEWAYS")
    monkeypatch.setenv("MILLRACE_LIMITER_FRAMES_PORT", "65534")
    with pytest.raises(StackError, match=r"MILLRACE_LIMITER_FRAMES_PORT is wrong: .*at most 65533"):
        load_settings(tmp_path)
