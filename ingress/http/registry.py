"""A read-only schema registry in Confluent's wire format, so that stock Kafka clients read and write our topics.

Schemas are public and come from the checked-in table; nothing new can be registered here. Subjects are named as by
Confluent's TopicRecordNameStrategy: topic, a dash, the record's name with its namespace. The shorter names of before,
without the namespace, are still found. Query values are Confluent's; those that make no difference here (nothing is
deleted, no schema refers to another one) are taken and mean nothing.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ingress.http import problems
from ingress.http.requests import reading, strict_json
from schemas import errors, limits
from schemas.avro import codec

if TYPE_CHECKING:
    from collections.abc import Mapping

MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_SUBJECT_NOT_FOUND: Final = (40401, "Subject not found.")
_VERSION_NOT_FOUND: Final = (40402, "Version not found.")
_SCHEMA_NOT_FOUND: Final = (40403, "Schema not found.")
_INVALID_VERSION: Final = (42202, "The version must be a number or latest.")
_INVALID_SCHEMA: Final = (42201, 'Send a schema: {"schema": "..."}.')
_READ_ONLY: Final = (42205, "The registry is read-only, and the subject has no such schema.")
#: the newest reader reads every older version (schemas/README.md)
_COMPATIBILITY: Final = "BACKWARD_TRANSITIVE"
_TYPES: Final = (MEDIA_TYPE, "application/vnd.schemaregistry+json", *reading.JSON)

#: where the routes of this module begin: clients of Kafka ask there, for any subject and without a token
PATHS: Final = ("/schemas/", "/subjects", "/config")
EVERYTHING: Final = -1  # as a limit
NUMBER_MAX: Final = 2**31 - 1
_EVERY_CONTEXT: Final = ":*:"

router: Final = APIRouter(tags=["schema registry"])


@router.get("/schemas/ids/{schema_id}", summary="One schema by its id")
async def schema_by_id(request: Request, schema_id: str) -> Response:  # noqa: ARG001 - whose query is looked at
    """The text of a schema, as the deserializers of Kafka clients ask for it, whatever subject they have in mind."""
    number = int(schema_id) if schema_id.isascii() and schema_id.isdigit() and len(schema_id) < _DIGITS_MAX else -1
    schema = codec.schemas_by_id().get(number)
    return _missing(*_SCHEMA_NOT_FOUND) if schema is None else _json({"schema": schema.text})


@router.get("/subjects", summary="All subjects")
async def subjects(request: Request) -> Response:
    """The names of all subjects, or of those that begin so."""
    begin = request.query_params.get("subjectPrefix", "").removeprefix(_EVERY_CONTEXT)
    found = sorted({_subject(schema) for schema in codec.schemas_by_id().values()})
    return _listed(request, [name for name in found if name.startswith(begin)])


@router.get("/subjects/{subject}/versions", summary="The versions of a subject")
async def versions(request: Request, subject: str) -> Response:
    """The version numbers of a subject."""
    found = sorted(schema.version for schema in _of(subject))
    return _listed(request, found) if found else _missing(*_SUBJECT_NOT_FOUND)


@router.get("/subjects/{subject}/versions/{version}", summary="One version of a subject")
async def version_of(request: Request, subject: str, version: str) -> Response:  # noqa: ARG001 - as above
    """One version of a subject by its number, or the newest as ``latest``."""
    found = {schema.version: schema for schema in _of(subject)}
    if not found:
        return _missing(*_SUBJECT_NOT_FOUND)
    if version == "latest":
        number = max(found)
    elif version.isascii() and version.isdigit() and len(version) < _DIGITS_MAX:
        number = int(version)
    else:
        return _missing(*_INVALID_VERSION)
    if number not in found:
        return _missing(*_VERSION_NOT_FOUND)
    schema = found[number]
    return _json(_shown(schema))


@router.get("/config", summary="How versions go together")
async def config(request: Request) -> Response:  # noqa: ARG001 - as above
    """The one level of compatibility, of every subject."""
    return _json({"compatibilityLevel": _COMPATIBILITY})


@router.get("/config/{subject}", summary="How the versions of a subject go together")
async def config_of(request: Request, subject: str) -> Response:
    """The level of compatibility of a subject; by ``defaultToGlobal`` of any."""
    is_known = _is_true(request, "defaultToGlobal") or _of(subject)
    return _json({"compatibilityLevel": _COMPATIBILITY}) if is_known else _missing(*_SUBJECT_NOT_FOUND)


@router.post("/subjects/{subject}", summary="Which version a schema is")
async def look_up(request: Request, subject: str) -> Response:
    """The version of a subject that has this schema, as serializers ask that register nothing."""
    asked = await _asked(request)
    if not _of(subject):
        return _missing(*_SUBJECT_NOT_FOUND)
    found = _found(subject, asked)
    if asked is None:
        return _missing(*_INVALID_SCHEMA)
    return _missing(*_SCHEMA_NOT_FOUND) if found is None else _json(_shown(found))


@router.post("/subjects/{subject}/versions", summary="The id of a schema that is there")
async def register(request: Request, subject: str) -> Response:
    """As a serializer asks that registers what it writes: known schemas have their id, nothing new is taken."""
    asked = await _asked(request)
    found = _found(subject, asked)
    if asked is None:
        return _missing(*_INVALID_SCHEMA)
    return _missing(*_READ_ONLY) if found is None else _json({"id": found.schema_id})


def refusal(error: errors.PlatformError | HTTPException, headers: Mapping[str, str]) -> Response:
    """What was refused before a route of this module could answer, as clients of Confluent's read it."""
    if isinstance(error, HTTPException):
        status, message = error.status_code, str(error.detail)
    else:
        status, message = problems.row(error.code).status, error.public
    answer = _missing(status, message, status)
    answer.headers.update(headers)
    return answer


_DIGITS_MAX: Final = 10
_STATUS_DIGITS: Final = 100


def _of(subject: str) -> list[codec.Schema]:
    return [schema for schema in codec.schemas_by_id().values() if subject in (_subject(schema), schema.subject)]


def _subject(schema: codec.Schema) -> str:
    topic, _, _ = schema.subject.rpartition("-")
    return f"{topic}-{_full_name(schema.text)}"


@cache
def _full_name(text: str) -> str:
    named = msgspec.json.decode(text)
    return f"{named['namespace']}.{named['name']}"


def _shown(schema: codec.Schema) -> dict[str, Any]:
    found = {"subject": _subject(schema), "version": schema.version, "id": schema.schema_id}
    return {**found, "schema": schema.text}


async def _asked(request: Request) -> Any:
    """The schema that a body holds, as JSON; None when it holds none."""
    raw = await reading.body(request, _TYPES, limits.BODY_BYTES_MAX)
    try:
        said = strict_json.parse(raw)
        text = said.get("schema") if isinstance(said, dict) else None
        return strict_json.parse(text.encode()) if isinstance(text, str) else None
    except (errors.MalformedRequest, UnicodeEncodeError):
        return None


def _found(subject: str, asked: Any) -> codec.Schema | None:
    """The version that says what this schema says; what either says for people does not count."""
    wanted = _bare(asked)
    return next((one for one in _of(subject) if _bare(msgspec.json.decode(one.text)) == wanted), None)


def _bare(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_bare(part) for part in schema]
    if isinstance(schema, dict):
        return {name: _bare(part) for name, part in schema.items() if name != "doc"}
    return schema


def _listed(request: Request, found: list[Any]) -> Response:
    """A list, or the part of it that is asked for. Raises MalformedRequest."""
    first, limit = _number(request, "offset", 0), _number(request, "limit", EVERYTHING)
    if _is_true(request, "deletedOnly") or _is_true(request, "deleted_only"):
        found = []
    return _json(found[first:][: None if limit == EVERYTHING else limit])


def _is_true(request: Request, name: str) -> bool:
    return request.query_params.get(name, "").lower() == "true"


def _number(request: Request, name: str, otherwise: int) -> int:
    """From the value that stands for nothing said, up to ``NUMBER_MAX``."""
    text = request.query_params.get(name, str(otherwise))
    is_number = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX and int(text) <= NUMBER_MAX
    if not is_number and text != str(otherwise):
        raise errors.MalformedRequest(f"The query value {name} must be a number from {otherwise} to {NUMBER_MAX}.")
    return int(text)


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type=MEDIA_TYPE)


def _missing(error_code: int, message: str, status: int | None = None) -> Response:
    """Confluent's error document; the first three digits of its code are the status."""
    return _json({"error_code": error_code, "message": message}, status or error_code // _STATUS_DIGITS)
