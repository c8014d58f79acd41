"""One event however it is written: media types with parameters, seconds with as many digits as a clock has."""

from __future__ import annotations

import json

from dataflows.tenancy.usage.counting import Metered
from dataflows.tenancy.usage.records import metered
from schemas.senders import INGRESS
from schemas.tenancy.instants import parsed
from schemas.tenancy.usage_event import UsageEvent, read, record_key
from tests.each import each
from tests.unit.tenancy.test_usage import GOOD, NOW_US


@each(
    "said",
    ["application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"', 'application/json ; a=b; c="d \\" e"'],
)
def test_json_is_json_whatever_parameters_its_media_type_has(said: str) -> None:
    """RFC 2045, 5.1: names have no case, parameters may follow, and a value may be quoted."""
    value = json.dumps(GOOD | {"datacontenttype": said}).encode()
    found = metered(record_key("tn_1", "/meter", "e1").encode(), value, NOW_US, INGRESS, None)
    assert found == Metered("tn_1", UsageEvent("/meter", "e1", "tokens", 3, None, NOW_US))


@each("digits", range(1, 10))
def test_as_fine_a_time_is_asked_for_as_is_metered(digits: int) -> None:
    """Events say nine digits of a second where clocks do; from and to are read as they are, to the microsecond."""
    text = f"2026-09-21T14:13:19.{'123456789'[:digits]}Z"
    found = read(GOOD | {"time": text}, NOW_US)
    assert isinstance(found, UsageEvent)
    assert found.occurred_at == parsed(text) == NOW_US - 1_000_000 + int("123456789"[:digits].ljust(6, "0")[:6])
