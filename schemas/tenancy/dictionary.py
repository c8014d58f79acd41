"""What analysts find of tenants in Postgres: each table and column that the reader's role sees, in words.

The comments of the database (``COMMENT ON``, by a migration) and docs/dictionary.md say the same; tests compare them.
Who changes a word here writes the next migration with it.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Table(NamedTuple):
    """A table in words, and its columns in their order."""

    says: str
    columns: dict[str, str]


_TENANT: Final = {"tenant_id": "whose"}
_PLACE: Final = "the partition of commands that its owner decides"
_US: Final = "microseconds since the epoch"
TABLES: Final[dict[str, Table]] = {
    "tenant": Table(
        "A row for each tenant, deleted ones too: an id is never used again",
        {
            "tenant_id": "its id",
            "partition": _PLACE,
            "name": "what people call it",
            "tier": "standard or enterprise",
            "state": "provisioning, active, suspended, offboarding, exported, deleting, deleted",
            "suspension": "read_only or blocked; null unless suspended",
            "reason": "why it is suspended or leaves",
            "timezone": "the zone of its days and months",
            "home_currency": "the currency of its invoices",
            "quotas": "limits by dimension, as texts; an empty one is none",
            "prices": "minor units a unit, or tiers, by dimension",
            "placement_id": "where its data is",
            "generation": "rises with every move, back and forth",
            "key_ref": "which keys seal its payloads",
            "policy_version": "rises with every change of what it may",
            "version": "of the tenant",
            "certificate_id": "of its deletion",
            "created_at": _US,
            "updated_at": _US,
        },
    ),
    "placement": Table(
        "A place for the data of tenants",
        {
            "placement_id": "its id",
            "region": "where it is",
            "mode": "pooled, partitioned (a schema) or dedicated (a database)",
            "shard_or_database": "the schema; the name of a dedicated database ends with it",
            "state": "provisioning, active, retired",
            "tenant_id": "whose own it is; null when many share it",
        },
    ),
    "quota_usage": Table(
        "What is used of a hard quota, counted in the commit",
        _TENANT | {"dimension": "such as resources", "used": "how much now"},
    ),
    "usage_conflict": Table(
        "Events of usage that contradict one that counted: the first stays",
        _TENANT
        | {
            "source": "who metered it",
            "event_id": "with tenant and source, the identity that was used again",
            "dimension": "what it said",
            "quantity": "how much it said",
            "subject": "for whom it said",
            "occurred_at": "when it said",
            "digest": "of these four",
            "conflict_id": "its id",
            "seen_at": "when it came",
        },
    ),
    "tenant_history": Table(
        "What of a tenant was changed, by whom and when; rows are only added",
        _TENANT
        | {
            "version": "of the tenant, which the change made",
            "at": "when, in microseconds since 1970",
            "made_by": "in whose name; of what processes do by themselves, their role",
            "operation": "the command; null = what processes do by themselves",
            "request_id": "of that command",
            "changed": "by name, what it was and what it is",
            "person": "who did it; null = a process by itself, or changed before that was kept",
        },
    ),
    "billing_run": Table(
        "A period that is billed, and on which terms; never changed",
        _TENANT
        | {
            "number": "1, 2, 3 of its tenant",
            "billing_run_id": "its id",
            "invoice_id": "of the invoice that it makes",
            "partition": _PLACE,
            "period_from": "the first instant",
            "period_to": "behind the last instant",
            "grace_s": "seconds that late usage is waited for",
            "currency": "of the invoice",
            "prices": "of that moment, by dimension",
            "created_at": "when it was asked for",
            "made_by": "in whose name it was asked for; null = made before that was kept",
            "person": "who asked for it; null = made before that was kept",
        },
    ),
    "tenant_invoice": Table(
        "An invoice that stands; never changed. It is paid by the payment intent whose reference is its id",
        _TENANT
        | {
            "ordinal": "in the order in which they were made",
            "invoice_id": "its id",
            "run_number": "the billing run",
            "cut": "of each partition of counted usage, the last place that it takes up",
            "document": "its bytes, JSON",
            "created_at": "when it was made",
            "entries": "the last billing entry that it takes up",
            "credit_left": "minor units of credit that it leaves to the next",
            "late_rule": "at which prices its late usage is: 1 of its own run, 2 of the run of the old period",
            "meter_version": "how the usage of its lines was counted, and is proved; null = made before lines said so",
            "returned": "the void ones, by their ordinals, whose credit it gives back; null = made before that was so",
        },
    ),
    "billing_entry": Table(
        "A correction of usage or credit, said by a person; in the next invoice",
        _TENANT
        | {
            "number": "1, 2, 3 of its tenant",
            "entry_id": "its id",
            "partition": _PLACE,
            "kind": "adjustment or credit",
            "dimension": "of an adjustment",
            "quantity": "of an adjustment: more or less than was metered",
            "unit_price": "of an adjustment: minor units a unit",
            "at": "when that was used",
            "period_from": "of the billed period that it corrects",
            "period_to": "of the billed period that it corrects",
            "amount": "of credit: minor units",
            "reason": "why, for people",
            "created_at": "when it was said",
            "made_by": "in whose name it was said; null = made before that was kept",
            "person": "who said it; null = made before that was kept",
        },
    ),
    "support_grant": Table(
        "Access of support to a tenant: asked for, approved by another person, for a time",
        _TENANT
        | {
            "grant_id": "its id",
            "partition": _PLACE,
            "requester": "who asked",
            "reason": "why",
            "ticket": "what it is about",
            "scopes": "what it allows, separated by spaces",
            "duration_s": "seconds in force, from when it is active",
            "state": "requested, approved, active, denied, revoked, reviewed; active past expires_at is over",
            "needs_consent": "whether the tenant has to agree",
            "approvers": "who approved",
            "consented_by": "who of the tenant agreed",
            "ended_by": "who denied or revoked it",
            "created_at": "when it was asked for",
            "expires_at": "when its time is over; null until it is active",
            "version": "of the grant",
            "break_glass": "whether it is an emergency, which two others approve",
            "reviewed_by": "who reviewed it, when it was over",
            "reviewed_at": "when",
            "findings": "what was found then",
            "masked_fields": "which fields no answer under it has, separated by spaces",
            "not_before": "before which nothing is answered under it, and from which its time counts",
            "asked_duration_s": "seconds that were asked for, where the tenant consented to less",
            "asked_masked_fields": "masks that were asked for, where the tenant consented to less",
        },
    ),
    "tenant_audit": Table(
        "A row for each call of support, written before its answer",
        _TENANT
        | {
            "seq": "1, 2, 3 of its tenant",
            "at": "when it began",
            "actor": "who called",
            "grant_id": "under which grant",
            "action": "method and path; of one row of refused calls, how many more there were",
            "object": "the id asked for",
            "result": "begun (nobody got the answer), done, refused",
            "begin_link": "place in the chain of the tenant's log of what was written when it began",
            "begin_hash": "SHA-256 of the link before and of that",
            "end_link": "place in the chain of its result; null where it has none of its own",
            "end_hash": "SHA-256 of the link before and of that",
        },
    ),
    "noisy_caller": Table(
        "Callers that had others of their partition wait",
        {
            "topic": "of the commands; database: statements of the ingress, and the partition is its process",
            "caller": "as commands name it: tenant:tn_..., or staff",
            "partition": "of the topic",
            "share_percent": "of what the partition's owner did in the last such window",
            "units_left": "that waited at once: commands, and each KiB of them; of the database: milliseconds",
            "windows": "of ten seconds, in a row",
            "since": "the first of them",
            "seen_at": "the last of them",
            "move_proposed_at": "when a move to a dedicated database was proposed",
        },
    ),
    "isolation_violation": Table(
        "What a probe of the isolation monitor found",
        {
            "number": "1, 2, 3",
            "seen_at": "when",
            "probe": "which",
            "evidence": "what",
            "resolved_at": "when a person had looked at it",
            "resolved_by": "who",
            "note": "what it was",
            "place": "1, 2, 3 without a gap, in the order in which they were committed",
        },
    ),
}
