"""What is frozen and what may be tried again: every exception that any package of ours raises is of one kind.

Trap 4: a passing failure stored for ever, or a success that is carried out again. The kinds are those of the error
taxonomy; a class without one fails here, as does a refusal that would freeze a passing failure. Source: payments 1.2, 7.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
from enum import Enum
from functools import cache
from types import ModuleType
from typing import Any

import pytest

from ingress.http import problems
from schemas import errors
from tests.tidy import tree


class Kind(Enum):
    """What has happened when it is raised, and what the caller may do."""

    VALIDATION = "nothing was done and nothing is stored: the same again is refused again"
    BUSINESS = "refused by what is so now: said as it is, never retried by itself"
    TRANSIENT = "nothing was done and nothing is stored: the same identity may try again"
    AMBIGUOUS = "it may have been done: only the same identity finds out"


V, B, T, A = Kind.VALIDATION, Kind.BUSINESS, Kind.TRANSIENT, Kind.AMBIGUOUS

#: the nearest ancestor here decides; ``PlatformError`` and ``Exception`` are none on purpose
KINDS: dict[str, Kind] = {
    # the tree of schemas.errors
    "schemas.errors.Rejected": V,
    "schemas.errors.KeyReused": V,
    "schemas.errors.VersionConflict": B,
    "schemas.errors.StateConflict": B,
    "schemas.errors.QuotaExceeded": T,
    "schemas.errors.RequestTimeout": T,
    "schemas.errors.Unavailable": T,
    "schemas.errors.DependencyTimeout": A,
    "schemas.errors.OwnershipLost": T,
    "schemas.errors.Corrupt": V,
    "schemas.crypto.sealing.SealBroken": V,
    "vault.sealing.CardUnreadable": V,
    "schemas.errors.InvariantViolation": T,  # rolled back; the partition waits for an operator, then goes on
    # what a command line or a file may say wrongly, and what an operator has to mend before anything begins
    "compose.stack.errors.StackError": V,
    "typer._click.exceptions.BadParameter": V,
    "typer._click.exceptions.Exit": B,
    "starlette.exceptions.HTTPException": V,  # there is no such path, or no such method of it
    "builtins.ValueError": V,
    "builtins.AttributeError": V,
    "builtins.TypeError": V,
    "builtins.OverflowError": V,
    "builtins.EOFError": V,
    "msgspec.ValidationError": V,
    "schemas.payments.webhook_url.RefusedUrl": V,
    "reconciliation.payments.settlement.line.UnreadableReport": V,
    "reconciliation.payments.settlement.line.Unclassifiable": V,
    "dataflows.payments.webhooks.fields.Surprise": V,
    "compose.stack.clickhouse.errors.QueryError": V,
    "limiter.frames.frames.FrameError": V,
    "compose.proof.demo.limiter.replay.NotAnswered": A,  # it may have been charged
    "limiter.policy.snapshot.SnapshotRefused": V,
    "limiter.policy.shard_map.ShardsRefused": B,
    # a process that cannot go on: it ends before it does anything, or its transaction is rolled back
    "builtins.RuntimeError": T,
    "builtins.AssertionError": T,
    "builtins.StopIteration": T,
    "builtins.KeyError": T,
    "builtins.ProcessLookupError": T,
    "psycopg.OperationalError": T,  # of a session that its bound ended
    "builtins.TimeoutError": A,  # of a child that does not end
    "confluent_kafka.KafkaException": T,
    "cimpl.KafkaException": T,
    "dataflows.owner.process.OtherLaneFailed": T,
    "sinks.clickhouse.plans.LetGo": T,
    "sinks.redis.velocity._StaleEpoch": T,
    "vault.key_file.VaultKeysUnusable": T,
    "vault.hardening.NotHardenedError": T,
    "vault.scrubbing.Withheld": T,
    # calls to others: before anything was sent, or perhaps after
    "dataflows.payments.attempts.http_connection.NotConnectedError": T,
    "dataflows.payments.attempts.http_connection.NoAnswerError": A,
    "builtins.ConnectionError": A,
    "builtins.OSError": T,
    "dataflows.social.media.malware.ScannerSilent": T,
    "httpx.ReadError": A,
    "httpx.RemoteProtocolError": A,
    "sinks.redis.line.LineLost": A,
    "sinks.redis.line.AnswerLate": A,
    "limiter.frames.frame_requests.ConnectionFull": T,  # the same is asked on a new connection
    "vault.forwarding.OutcomeUnknown": A,
    "dataflows.payments.attempts.stripe_transport.ToldByVault": A,
    "compose.proof.bench.http.connection.ConnectionLostError": A,
    # the client of others
    "ingress.client.errors.CallRefused": B,
    "ingress.client.errors.ServiceUnavailable": T,
    "ingress.client.errors.Undecided": A,
    "ingress.client.errors.StillProcessing": A,
    # the outside processor for development, and the programs that prove
    "compose.simulator.errors.SimulatorError": V,
    "compose.simulator.errors.DisputeClosed": B,
    "compose.simulator.errors.Overloaded": T,
    "compose.simulator.errors.BookUnavailable": A,
    "compose.simulator.errors.WebhooksMisconfigured": V,
    "compose.stripe_simulator.app.RefusedByMock": V,
    "compose.stripe_simulator.problems.Refused": B,
    "compose.proof.demo.acts.Unexpected": B,
    "compose.proof.soak.waiting.Unexpected": B,
    "compose.proof.kit.patient_caller.CallRefused": B,
    "compose.proof.kit.patient_caller.NotInTime": A,  # asked again with the same identity, for as long as there was patience
}


def name_of(cls: type) -> str:
    """The class as the table names it, by the shortest module that has it."""
    return f"{cls.__module__}.{cls.__qualname__}"


def kind_of(cls: type[BaseException]) -> Kind | None:
    """The kind of the nearest ancestor that has one."""
    return next((KINDS[name_of(c)] for c in cls.__mro__ if name_of(c) in KINDS), None)


def raised_in(file: str) -> dict[type[BaseException], str]:
    """Class to place of everything that a module raises by name; what was caught and is raised again is skipped."""
    module = importlib.import_module(file.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    found: dict[type[BaseException], str] = {}
    for node in tree.nodes(file):
        if not isinstance(node, ast.Raise) or node.exc is None:
            continue
        said = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        thing = meant(said, module)
        if thing is None:
            assert not ast.unparse(said).rpartition(".")[2][0].isupper(), f"{tree.marked(file, node)}: what is that?"
            continue
        found.setdefault(thing, tree.marked(file, node))
    return found


def meant(said: ast.expr, module: ModuleType) -> type[BaseException] | None:
    """The class, or what a function that makes the exception says it returns; None of a variable."""
    thing = evaluated(ast.unparse(said), module)
    if inspect.isclass(thing):
        return thing if issubclass(thing, BaseException) else None
    if not callable(thing):
        return None
    says = inspect.signature(thing).return_annotation
    home = importlib.import_module(thing.__module__)
    made = evaluated(says, home) if isinstance(says, str) else says
    return None if made in (Exception, BaseException) else made  # what translates hands on what it caught


def evaluated(text: str, module: ModuleType) -> Any:
    try:
        return eval(text, vars(builtins) | vars(module))
    except (NameError, AttributeError):
        return None


@cache
def raised() -> dict[type[BaseException], str]:
    """Everything that any package raises."""
    found: dict[type[BaseException], str] = {}
    for file in tree.sources():
        if not file.endswith("__main__.py"):
            found |= raised_in(file)
    return found


def test_every_exception_that_is_raised_has_a_kind() -> None:
    assert len(raised()) > 40
    assert {f"{name_of(cls)} at {place}" for cls, place in raised().items() if kind_of(cls) is None} == set()


def test_every_error_of_the_platform_has_a_kind() -> None:
    """Also those that no line raises by name yet."""

    def below(cls: type[errors.PlatformError]) -> set[type[errors.PlatformError]]:
        return {cls}.union(*(below(sub) for sub in cls.__subclasses__()))

    raised()  # imports every module
    known = below(errors.PlatformError) - {errors.PlatformError}
    assert {name_of(cls) for cls in known if kind_of(cls) is None} == set()


@pytest.mark.parametrize("kind", Kind)
def test_what_callers_are_told_agrees_with_the_kind(kind: Kind) -> None:
    """Try again exactly where nothing was done, or where the same identity finds out."""
    ours = [cls for cls in raised() if issubclass(cls, errors.PlatformError) and kind_of(cls) is kind]
    told = {cls: problems.row(cls.code) for cls in ours if cls.code in problems.TABLE}
    wrong = {cls.__name__ for cls, row in told.items() if row.retry != (kind in (T, A)) and row.status != 500}
    may_have_been_done_without_identity = {"OutcomeUnknown"}  # the vault's caller has the operation's own identity
    assert wrong - may_have_been_done_without_identity == set()


def test_no_refusal_that_is_stored_is_a_passing_failure() -> None:
    """A refusal of the domain is stored with its command for ever, so none may say "try again"."""
    codes = {
        node.args[0].value: tree.marked(file, node)
        for file in tree.sources()
        if file.startswith("dataflows/payments/domain/")
        for node in tree.nodes(file)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] == "Rejection"
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }
    assert len(codes) > 5
    assert {code: place for code, place in codes.items() if problems.row(code).retry} == {}
    assert {code: place for code, place in codes.items() if problems.row(code).status >= 500} == {}
