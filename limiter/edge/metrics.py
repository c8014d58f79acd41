"""What a gateway tells its operator; every name here, with what a high value means. Counted elsewhere, read here."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from limiter.store.lease_clock import lease_clock_ns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from limiter.decide.limiter import Limiter
    from limiter.policy.follower import SnapshotFollower
    from limiter.store.sharded_store import ShardedStore
    from limiter.stream.decisions import Recorder
    from limiter.stream.kafka_blocks import KafkaBlocks


class ShardMetrics(Collector):
    """Where a gateway's counters are."""

    def __init__(self, store: ShardedStore, registry: CollectorRegistry = REGISTRY) -> None:
        self._store = store
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Called from the thread that answers /metrics: plain reads only."""
        # Lower than on other gateways: this one does not get the snapshots, and shards will refuse it.
        version = self._store.map.version
        yield GaugeMetricFamily("millrace_limiter_shard_map_version", "Shard map in use", value=version)
        epochs = GaugeMetricFamily("millrace_limiter_shard_epoch", "Epoch of a shard in the map", labels=("shard",))
        learning = GaugeMetricFamily("millrace_limiter_shard_learning", "1: grants no leases", labels=("shard",))
        fenced = GaugeMetricFamily("millrace_limiter_shard_fenced", "1: refuses our epoch", labels=("shard",))
        ahead = GaugeMetricFamily("millrace_limiter_clock_skew_seconds", "Our clock less a shard's", labels=("shard",))
        now_ns = lease_clock_ns()
        for name, store in list(self._store.stores.items()):
            epochs.add_metric((name,), store.epoch)
            learning.add_metric((name,), now_ns < store.learning_until_ns)
            # 1 for longer than a change takes: the map and the store differ; `millrace limiter shards` says what to do.
            fenced.add_metric((name,), store.fenced_by is not None)
            if store.clock_ahead_s is not None:
                # Beyond 0.25 either way: calendar windows, debts after a failover and expiry go by a wrong clock.
                ahead.add_metric((name,), store.clock_ahead_s)
        yield from (epochs, learning, fenced, ahead)
        # Growing for longer than a change takes: the same.
        refused = self._store.refused_calls
        yield CounterMetricFamily("millrace_limiter_stale_epochs", "Calls refused by their epoch", value=refused)


class GatewayMetrics(Collector):
    """The metrics of one gateway process: read when they are asked for, so that no decision pays for them."""

    def __init__(
        self,
        limiter: Limiter,
        recorder: Recorder,
        blocks: KafkaBlocks,
        follower: SnapshotFollower,
        registry: CollectorRegistry = REGISTRY,
    ) -> None:
        self._limiter = limiter
        self._recorder = recorder
        self._blocks = blocks
        self._follower = follower
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Called from the thread that answers /metrics: plain reads only."""
        recorder, limiter = self._recorder, self._limiter
        outcomes = recorder.outcomes
        decisions = CounterMetricFamily("millrace_limiter_decisions", "Decisions by outcome", labels=("outcome",))
        for outcome, count in outcomes.named().items():
            decisions.add_metric((outcome,), count)
        yield decisions
        # `near_limit` high against `allowed`: four fifths are used; `denied`: callers of this policy are over it.
        by_policy = CounterMetricFamily("millrace_limiter_policy_decisions", "By policy", labels=("policy", "what"))
        for policy_id, what, count in recorder.by_policy.named():
            by_policy.add_metric((policy_id, what), count)
        yield by_policy
        # Upper buckets: the store is slow, or far; past the bound of a call the failure mode decides.
        waits = limiter.store_waits
        histogram = HistogramMetricFamily("millrace_limiter_store_seconds", "Waits for the store")
        histogram.add_metric((), waits.cumulative(), waits.total_s)
        yield histogram
        # High: the policy would refuse so many, if it were not in shadow mode.
        shadow = CounterMetricFamily("millrace_limiter_shadow_refusals", "Refusals in shadow", labels=("policy",))
        for policy_id, count in list(outcomes.refused_in_shadow.items()):
            shadow.add_metric((policy_id,), count)
        yield shadow
        # Low against decisions that were allowed, where policies are leased: keys are asked for too seldom to hold one.
        leased = outcomes.from_leases
        yield CounterMetricFamily("millrace_limiter_lease_decisions", "Allowed out of leases", value=leased)
        # High against decisions: leases do not help (few requests a key, or every policy is exact).
        yield CounterMetricFamily("millrace_limiter_store_calls", "Calls of the store", value=limiter.store_calls)
        # Any: the counter store did not answer, and failure modes decided.
        yield CounterMetricFamily("millrace_limiter_degraded", "Decisions without the store", value=limiter.degraded)
        degraded_s = outcomes.degraded_s
        yield CounterMetricFamily("millrace_limiter_degraded_seconds", "Time in which they did", value=degraded_s)
        # Any: failure mode open let through so much cost uncounted: quotas may be exceeded by at most that.
        overshoot = outcomes.overshoot
        yield CounterMetricFamily("millrace_limiter_overshoot", "Cost allowed by failure modes", value=overshoot)
        yield GaugeMetricFamily("millrace_limiter_leases", "Leases held", value=limiter.leases())
        # Any: Kafka is away for long; totals of keys are too low by as much.
        gap = recorder.gap()
        yield CounterMetricFamily("millrace_limiter_gap", "Decisions lost to the stream", value=gap)
        if recorder.charges is not None:
            # Any: Kafka is away for long; retries of these at other gateways stay charged.
            lost = recorder.charges.gap
            yield CounterMetricFamily("millrace_limiter_identities_gap", "Charges not told to others", value=lost)
        failed = self._blocks.failed
        yield CounterMetricFamily("millrace_limiter_blocks_failed", "Blocks that Kafka did not take", value=failed)
        # Any: somebody offers snapshots that are not ours, or keys were rotated in the wrong order.
        refused = self._follower.refused
        yield CounterMetricFamily("millrace_limiter_snapshots_refused", "Policy snapshots refused", value=refused)
        left_s = self._follower.expires_in_s(time.time())
        if left_s is not None:
            # Below 3,000: nobody renews it; negative: it has expired and is used for want of another.
            yield GaugeMetricFamily("millrace_limiter_snapshot_expires_seconds", "Validity left", value=left_s)
        # 1: policies are too old, failure modes decide.
        lapsed = float(self._follower.is_lapsed)
        yield GaugeMetricFamily("millrace_limiter_snapshot_lapsed", "Too old to decide by", value=lapsed)
        # Lower than on other gateways: this one decides by old policies.
        yield GaugeMetricFamily("millrace_limiter_revision", "Revision of the policies in use", value=limiter.revision)
