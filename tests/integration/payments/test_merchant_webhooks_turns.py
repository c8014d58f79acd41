"""Whose deliveries are sent next: merchants take turns, however many slow endpoints one of them has."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest
from prometheus_client import CollectorRegistry

from dataflows.payments.merchant_webhooks.metrics import MerchantWebhookMetrics
from dataflows.payments.merchant_webhooks.store import DeliveryStore
from schemas.payments import limits
from schemas.payments.webhook_secret import WebhookSecretKeys
from sinks.postgres.session import INDEXED
from sinks.postgres.sql_files import queries
from tests.integration.test_check_invariants import rows_handled
from tests.worlds.sink_stage import new_stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import World
    from tests.worlds.sink_stage import Stage

pytestmark = pytest.mark.servers
SHARE = limits.MERCHANT_WEBHOOK_SENDS_MERCHANT_MAX
#: each merchant has so many endpoints, and each of those as many deliveries due; the first merchant's are the oldest
_PLANTED = """
with endpoint as (
    insert into merchant_webhook_endpoint (id, merchant_id, url, events)
    select format('we_%%s_%%s', m.name, n), m.name, format('https://%%s.example/%%s', m.name, n), array['*']
    from unnest(%(merchants)s::text[]) as m (name), generate_series(1, %(endpoints)s) as n returning id, merchant_id
)
insert into merchant_webhook_delivery (id, endpoint_id, event_id, aggregate_key, seq, operation, body, next_at)
select format('wd_%%s_%%s', e.id, n), e.id, format('evt_%%s', n), format('pi_%%s', n), n, 'create_payment_intent', '',
       now() - (case when e.merchant_id = (%(merchants)s::text[])[1] then 60 else 1 end) * interval '1 second'
from endpoint e, generate_series(1, %(endpoints)s) as n
"""


_QUIET = """
insert into merchant_webhook_endpoint (id, merchant_id, url, events)
select format('we_quiet_%%s', n), format('quiet_%%s', n), format('https://quiet.example/%%s', n), array['*']
from generate_series(1, %(endpoints)s) as n
"""


@pytest.fixture(scope="module")
def stage(stack: World) -> Iterator[Stage]:
    with new_stage(stack.settings, payments=1) as made:
        yield made


@pytest.fixture(scope="module")
def store(stage: Stage) -> Iterator[DeliveryStore]:
    """A slow merchant with many endpoints, and two others."""
    metrics = MerchantWebhookMetrics(CollectorRegistry())
    with psycopg.connect(stage.dsn(), autocommit=True) as connection:
        connection.execute(_PLANTED, {"merchants": ["slow", "quick", "other"], "endpoints": 20})
    with closing(DeliveryStore(stage.dsn("millrace_worker"), "turns", WebhookSecretKeys(), metrics)) as made:
        yield made


def claimed(store: DeliveryStore, count: int, sends: dict[str, int]) -> Counter[str]:
    """Deliveries claimed, by merchant."""
    return Counter(claim.merchant_id for claim in store.claim(count, [], sends))


def test_no_merchant_has_more_than_its_share(store: DeliveryStore) -> None:
    assert claimed(store, 100, {}) == {"slow": SHARE, "quick": SHARE, "other": SHARE}
    assert claimed(store, 100, {"slow": SHARE, "quick": SHARE - 3}) == {"quick": 3, "other": SHARE}


def test_what_becomes_free_goes_to_who_has_the_fewest_under_way(store: DeliveryStore) -> None:
    """One slow merchant's deliveries are the oldest, and its endpoints the first: others do not wait for them."""
    assert claimed(store, 3, {}) == {"slow": 1, "quick": 1, "other": 1}
    assert claimed(store, 2, {"slow": SHARE - 1, "other": 2}) == {"quick": 2}
    assert claimed(store, 3, {"slow": 2, "quick": 1, "other": 3}) == {"quick": 2, "slow": 1}


def test_a_claim_is_nobody_elses_and_of_an_endpoint_that_has_room(store: DeliveryStore) -> None:
    first = store.claim(SHARE, [], {})
    busy = [claim.endpoint_id for claim in first]
    second = store.claim(100, busy, {})
    assert not {claim.id for claim in first} & {claim.id for claim in second}
    assert not set(busy) & {claim.endpoint_id for claim in second}
    most = Counter(claim.endpoint_id for claim in (*first, *second)).most_common(1)[0][1]
    assert most <= limits.MERCHANT_WEBHOOK_SENDS_ENDPOINT_MAX


def test_who_is_not_let_in_is_told_nothing_until_it_is_again(stage: Stage, store: DeliveryStore) -> None:
    """Whoever has a merchant's token may have named the endpoint, too: events go there as little as answers."""
    deny = "select access_deny('merchant', 'denied', %s, 'its token was stolen', 'ann', 100, interval '1 hour')"
    with psycopg.connect(stage.dsn(), autocommit=True) as connection:
        connection.execute("delete from merchant_webhook_delivery")
        connection.execute(_PLANTED, {"merchants": ["denied", "beside"], "endpoints": 2})
        connection.execute(deny, (False,))
        assert claimed(store, 100, {}) == {"beside": 4}
        connection.execute("select access_lift('merchant', 'denied', 'it has a new one', 'ann')")
        assert claimed(store, 100, {}) == {"denied": 4}, "nothing is lost"
        connection.execute("update merchant_webhook_delivery set next_at = now() - interval '1 second'")
        connection.execute(deny, (True,))
        assert claimed(store, 100, {}) == {"denied": 4, "beside": 4}, "only tokens of before are refused"


def test_a_claim_costs_what_waits_and_not_what_there_is(stage: Stage) -> None:
    """Three endpoints of twenty thousand have something due: what a platform does twice a second for ever."""
    asked = {
        "count": 32, "busy": [], "merchants": [], "sends": [], "merchant_max": SHARE,
        "endpoint_max": limits.MERCHANT_WEBHOOK_SENDS_ENDPOINT_MAX, "lease_s": 1,
    }  # fmt: skip
    sql = queries("sinks.postgres.queries.payments", "merchant_webhooks.sql")["deliveries_claim"]
    with psycopg.connect(stage.dsn(), options=INDEXED) as connection, connection.transaction(force_rollback=True):
        connection.execute("delete from merchant_webhook_delivery")
        connection.execute(_QUIET, {"endpoints": 20_000})
        connection.execute(_PLANTED, {"merchants": ["due_1", "due_2", "due_3"], "endpoints": 1})
        ((explained,),) = connection.execute(f"explain (analyze, timing off, format json) {sql}".encode(), asked)
    assert explained[0]["Plan"]["Actual Rows"] == 3
    assert rows_handled(explained[0]["Plan"]) < 200, explained
