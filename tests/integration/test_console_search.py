"""The search of the console: what is typed stands in no address, and no card number of it anywhere."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING
from urllib.parse import quote

import psycopg
import pytest

from tests.worlds.payments.console_world import visitors
from tests.worlds.public_system import merchant, public

if TYPE_CHECKING:
    from tests.worlds.payments.console_world import Visitors
    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["merchant", "public", "visitors"]  # the fixtures of this module
pytestmark = pytest.mark.servers
# two groups of it, however they are kept apart: one alone stands in a hash or a form's token now and then
_CARD = re.compile(r"4242(?:[^0-9A-Za-z]|%[0-9A-F]{2})*4242")


def test_a_pasted_card_number_is_kept_nowhere(public: PublicSystem, visitors: Visitors) -> None:
    """Neither the log of what operators did nor the page has it, in whatever form it was typed, or put into an address."""
    name = f"m_{uuid.uuid4().hex[:8]}"
    reader = visitors(name, "console:read")
    for typed in ("4242424242424242", " 4242 4242 4242 4242", "4242.4242.4242.4242", "card/4242%204242%204242%204242"):
        answers = [
            reader.post("/console/search", "/console", q=typed),
            reader.get("/console/search", params={"q": typed}),
            reader.get("/console/detail/event", params={"id": typed}),
            reader.get(f"/console/story/{quote(typed, safe='')}"),
        ]
        assert {answer.status_code for answer in answers[:2]} == {422}
        assert not any(_CARD.search(answer.text) for answer in answers[:2])
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_operator"]) as connection:
        rows = connection.execute("select log::text from audit_log log where actor = %s", (name,)).fetchall()
    assert len(rows) > 12
    assert [row for row in rows if _CARD.search(row[0])] == []


def test_what_is_typed_is_searched_without_standing_in_an_address(visitors: Visitors, merchant: Merchant) -> None:
    ann, payment = visitors("ann"), merchant.create().json()["result"]["id"]
    found = ann.post("/console/search", "/console", q=payment)
    assert (found.status_code, found.headers["location"]) == (303, f"/console/story/{payment}")
    assert ann.http.post("/console/search", data={"q": payment}).status_code == 403
