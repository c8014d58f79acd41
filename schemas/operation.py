"""An operation: one mutating call, declared once. Ingress, owner, codec and OpenAPI read the same declaration.

A client's ``operation`` is ``METHOD path`` with the real id in place of ``{id}``; inside, it is its short name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from schemas import identity, limits
from schemas.fields import validation
from schemas.senders import INGRESS, REPAIRS, kind_of
from schemas.topics import commands_topic

if TYPE_CHECKING:
    from schemas.records import Command

#: what an id in a path may look like, where an operation says nothing else
ID: Final = re.compile(rf"[A-Za-z0-9_]{{1,{limits.AGGREGATE_KEY_LENGTH_MAX}}}")


class Named(NamedTuple):
    """What one call says that can name its aggregate."""

    path_id: str | None
    payload: dict[str, Any]
    scope: str  # of the caller
    idempotency_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One mutating call.

    Its aggregate is what it creates or the ``{id}`` of its path, unless ``aggregate`` finds it: a rule over what the
    call says, which gives "" for what names none. ``path_field``: the payload field that the path's id travels in.
    """

    name: str
    service: str
    method: str
    path: str
    record: str  # the Avro record of the command
    payload: validation.Fields
    summary: str = ""  # one line: what it is, for people who call it or read its schema
    result: str = ""  # the OpenAPI schema of what it answers with
    scope: str | None = None  # the token scope it needs; None = not callable from outside (our own workers, operators)
    refusals: tuple[str, ...] = ()  # codes that its domain and its admission refuse with, beside those of any command
    creates: str | None = None  # the id prefix of what it makes, None when it works on an existing aggregate
    parts_longer: int = 0  # characters that ids of parts of what it makes have more than its own
    read_at: str | None = None  # where what it makes is read by its id; None: below its path; "": nowhere alone
    id_name: str = "id"  # of the path's parameter, as people read it
    id_form: re.Pattern[str] = ID  # what that may look like
    path_field: str | None = None
    aggregate: Callable[[Named], str] | None = None
    together: Callable[[dict[str, Any]], list[dict[str, str]]] | None = None  # what fields must fulfil with each other
    signals: validation.Field | None = None  # what the ingress adds to a command beside the request
    outside: str | None = None  # the kind of caller (``senders.kind_of``) in whose name a program outside may send it
    audited: bool = False  # its route writes the audit log: it has no other door
    body_bytes_max: int = limits.BODY_BYTES_MAX  # of one call; as a line among others, a document's or the usual
    senders: tuple[str, ...] = (INGRESS,)  # the roles that may send it: see schemas.senders
    of_two_persons: Callable[[Command], bool] | None = None  # which of it ``repairs`` may send; None: all
    result_id: str = "id"  # the field of its result that names what it made or changed
    needs_version: bool = False  # refused without an expected version
    document: bool = False  # its payload is one object of the caller's own; ``payload`` is how that travels

    @property
    def is_callers(self) -> bool:
        """Whether the ingress sends it as it was called; what is a document, it seals."""
        return self.scope is not None and not self.audited and not self.document

    def is_from_outside(self, scope: str) -> bool:
        """Whether a trusted program outside, which speaks in this scope, may send it.

        Rule: its key names whom it speaks for, and no scopes of tokens. What takes more than to be that merchant,
        tenant or user (staff's, moderators') is told at the ingress alone, which has seen the token.
        """
        return self.is_callers and self.outside == kind_of(scope)

    def is_from_role(self, role: str, command: Command) -> bool:
        """Whether a role of ours may send this command of it.

        Rule: what is sent for persons is looked up by its owner, and they say nothing that it would take on faith.
        """
        is_taken = role != REPAIRS or self.of_two_persons is None or self.of_two_persons(command)
        return role in self.senders and is_taken

    @property
    def template(self) -> str:
        """``METHOD path`` as documented, the first part of the request hash."""
        return f"{self.method} {self.path}"

    @property
    def topic(self) -> str:
        """The command topic of its service."""
        return commands_topic(self.service)

    def normalize(self, payload: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, str]]]:
        """``validation.normalize`` by this operation's fields, and by what they must fulfil together."""
        result, wrong = validation.normalize(self.payload, payload)
        return result, wrong or (self.together(result) if self.together else [])

    @property
    def made_at(self) -> str | None:
        """The path below which what it makes is read by its id; ``{id}`` in it is its aggregate."""
        if self.creates is None:
            return None
        return (self.path if self.read_at is None else self.read_at) or None

    @property
    def _names_what_it_makes(self) -> bool:
        return self.creates is not None and self.aggregate is None

    def names(self, aggregate_key: str) -> bool:
        """Whether that key, which somebody else chose, is of an aggregate that this API can show, with its parts."""
        if ID.fullmatch(aggregate_key) is None:
            return False
        length_max = limits.AGGREGATE_KEY_LENGTH_MAX - self.parts_longer
        return not self._names_what_it_makes or (
            aggregate_key.startswith(f"{self.creates}_") and len(aggregate_key) <= length_max
        )

    def takes_anothers_id(self, aggregate_key: str, scope: str, idempotency_key: str) -> bool:
        """Whether it would make, under an id that somebody else chose, what another call over HTTP is to make.

        Who knows a caller's name and guesses its next key can reckon that id; what is in its place refuses the call.
        """
        if not self._names_what_it_makes or not identity.is_derived(aggregate_key):
            return False
        return aggregate_key != self.aggregate_key(Named(None, {}, scope, idempotency_key))

    def request_hash(self, aggregate_key: str, payload: dict[str, Any]) -> bytes:
        """What tells a retry of this call from another request. The payload is normal (``normalize``)."""
        return identity.request_hash(self.template, aggregate_key, validation.hashed(self.payload, payload))

    def aggregate_key(self, named: Named) -> str:
        """The aggregate that a call works on: it names the partition, and the owner who decides."""
        if self.aggregate is not None:
            return self.aggregate(named)
        if named.path_id is not None:
            return named.path_id
        return identity.derived_id(self.creates or "", named.scope, self.template, named.idempotency_key)
