"""The ingress's metrics by name; each comment says what a high value means."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

# Its rate by status is the traffic; many 409 or 422: a client misbehaves; any 500: a bug of ours.
ANSWERS: Final = Counter("millrace_ingress_answers", "Commands answered, by status", ["status"])
# High: owners, Kafka or Postgres are slow; compare with millrace_owner_commit_seconds.
DECISION_SECONDS: Final = Histogram(
    "millrace_ingress_decision_seconds",
    "From the sending of a call's commands to the end of its wait",
    buckets=(0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1, 2, 5, 10, 30),
)
# Near its bound (COMMANDS_IN_FLIGHT_MAX): callers are about to hear 503.
IN_FLIGHT: Final = Gauge("millrace_ingress_commands_in_flight", "Commands that a call waits for")
# Above zero: replies get lost (results topic, a fenced owner); callers wait longer and lose nothing.
FOUND_IN_STORE: Final = Counter(
    "millrace_ingress_results_found_in_store", "Decisions that came from Postgres and not from the reply topic"
)
# 1: an operator has switched new work of merchants off (`millrace maintenance show` says why); alike in every process.
MAINTENANCE: Final = Gauge("millrace_ingress_maintenance", "Whether new work of merchants is refused")
# 1: whether tenants are apart is in doubt, and none of them is served (`millrace tenants isolation` says why).
SAFE_MODE: Final = Gauge("millrace_ingress_safe_mode", "Whether all calls of tenants are refused")
# 1: the disk of this home's servers is nearly full, and new work is refused; free more than 512 MiB.
DISK_CLOSED: Final = Gauge("millrace_ingress_disk_closed", "Whether new work is refused for want of disk")
# Above zero: commands of so many partitions wait. Start owners (without_owner); `millrace partitions list` (halted).
STANDING_STILL: Final = Gauge(
    "millrace_ingress_partitions_standing_still",
    "Partitions that nobody decides, as /readyz saw it",
    ["service", "why"],
)
# Near its bound (EVENT_STREAMS_MAX): new streams are refused.
STREAMS: Final = Gauge("millrace_ingress_event_streams", "Open event streams")
# Above zero: queries fail or time out; the circuit opens after some in a row.
STORE_FAILURES: Final = Counter("millrace_ingress_store_failures", "Queries that failed")
# Any: somebody has too many requests under way (REQUESTS_OF_CALLERS_MAX, _OF_STRANGERS_MAX); others are served.
SLOTS_REFUSED: Final = Counter("millrace_ingress_slots_refused", "Requests past the bound of their caller", ["kind"])
# Any: somebody looks for ids or tokens, or takes far too much along; see the audit log and the case suspicious_access.
ANOMALIES: Final = Counter("millrace_ingress_suspicious_accesses", "Findings about who asks for what", ["kind"])
# Above zero for long: the issuer's keys are stale; past the bound every call is refused with 503.
KEYS_UNREADABLE: Final = Counter("millrace_ingress_keys_unreadable", "Failed reads of the issuer's keys")
# Above zero: confirms were decided without counts (valkey) or the card's fingerprint (store): the rules provide for it.
SIGNALS_UNKNOWN: Final = Counter(
    "millrace_ingress_risk_signals_unknown", "Confirms whose risk signals were not gathered, by cause", ["cause"]
)
# Refusals above their usual: a caller's clock, key or proxy changes what it signs; or somebody tries.
SIGNATURES: Final = Counter("millrace_ingress_signatures", "Signed or to be signed requests, by outcome", ["outcome"])
