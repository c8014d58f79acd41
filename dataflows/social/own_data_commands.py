"""Commands of what is one's own as a whole. From the commit of an erasure on, nobody sees anything of its user."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from dataflows.owner.service import Committed, NewEvent
from dataflows.social.asking import Asking
from dataflows.social.batch import SocialBatch
from dataflows.social.domain.own_data import Erasure, Export, rendered_erasure, rendered_export
from dataflows.social.domain.records import Author
from dataflows.social.handler import Handler, Payload, WorkerHandler, committed
from schemas import identity
from schemas.records import Command, Rejection
from schemas.refusals import stale, wrong_value

_USER: Final = "user:"
_NOT_ONESELF: Final = wrong_value("payload.confirm", "must be the caller's own id")
_NOT_RUNNING: Final = Rejection("state_conflict", "There is no such erasure that runs, or something is still there.")


def _asks_export(asking: Asking, user: str, payload: Payload) -> None:
    del payload
    asking.authors.add(user)


def _export(batch: SocialBatch, caller: Author, command: Command, now: int) -> Committed | Rejection:
    if refused := stale(command.expected_version, 0):
        return refused
    export_id = identity.derived_id("ex", command.scope, command.operation, command.idempotency_key)
    export = Export(export_id=export_id, user_id=caller.user_id, version=1, created_at=now)
    batch.exports.put(export)
    return committed(rendered_export(export), caller, "export_requested", target_id=export_id, state="ready")


def _asks_erasure(asking: Asking, user: str, payload: Payload) -> None:
    del payload
    asking.lock(user)
    asking.erasures.add(user)


def _erase(batch: SocialBatch, caller: Author, command: Command, now: int) -> Committed | Rejection:
    """The one row that hides everything; what is there is taken away afterwards, step by step."""
    if command.payload["confirm"] != caller.user_id:
        return _NOT_ONESELF
    if refused := stale(command.expected_version, caller.version):
        return refused
    erasure_id = identity.derived_id("er", command.scope, command.operation, command.idempotency_key)
    erasure = Erasure(
        user_id=caller.user_id,
        erasure_id=erasure_id,
        state="running",
        jws=None,
        version=1,
        created_at=now,
        updated_at=now,
    )
    gone = structs.replace(caller, state="deleting", display_name="", version=caller.version + 1, updated_at=now)
    batch.authors.put(gone)
    batch.erasures.put(erasure)
    return committed(rendered_erasure(erasure), caller, "erasure_begun", target_id=erasure_id, state="running")


def _asks_certificate(asking: Asking, payload: Payload) -> None:
    # Of the erasure alone it is known whose it is: the aggregate of the command says it.
    asking.erasure_ids.add(str(payload.get("erasure_id")))


def _certify(batch: SocialBatch, command: Command, now: int) -> Committed | Rejection:
    """The end of an erasure; never with anything that is still there."""
    user = command.aggregate_key.removeprefix(_USER)
    known, author = batch.erasures.get(user), batch.authors.get(user)
    if known is None or author is None or known.erasure_id != command.payload["erasure_id"]:
        return _NOT_RUNNING
    if known.state != "running" or command.payload["reachable"] != 0:
        return _NOT_RUNNING
    jws = str(command.payload["jws"])
    after = structs.replace(known, state="complete", jws=jws, version=known.version + 1, updated_at=now)
    batch.erasures.put(after)
    batch.authors.put(structs.replace(author, state="deleted", version=author.version + 1, updated_at=now))
    body = {
        "kind": "user_erased",
        "target_id": after.erasure_id,
        "state": after.state,
        "post_id": None,
        "pushed": False,
    }
    return Committed(rendered_erasure(after), (NewEvent(after.version, command.aggregate_key, body),))


HANDLERS: Final[dict[str, Handler]] = {
    "request_export": Handler(_asks_export, _export),
    "erase_user": Handler(_asks_erasure, _erase),
}
WORKER_HANDLERS: Final[dict[str, WorkerHandler]] = {"certify_erasure": WorkerHandler(_asks_certificate, _certify)}
