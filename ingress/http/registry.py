"""A read-only schema registry in Confluent's wire format, so that stock Kafka clients decode our topics.

Schemas are public and come from the checked-in table; nothing can be registered here.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from schemas import codec

MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_SUBJECT_NOT_FOUND: Final = (40401, "Subject not found.")
_VERSION_NOT_FOUND: Final = (40402, "Version not found.")
_SCHEMA_NOT_FOUND: Final = (40403, "Schema not found.")
_INVALID_VERSION: Final = (42202, "The version must be a number or latest.")

router: Final = APIRouter(tags=["schema registry"])


@router.get("/schemas/ids/{schema_id}", summary="One schema by its id")
async def schema_by_id(schema_id: str) -> Response:
    """The text of a schema, as the deserializers of Kafka clients ask for it."""
    number = int(schema_id) if schema_id.isascii() and schema_id.isdigit() and len(schema_id) < _DIGITS_MAX else -1
    schema = codec.schemas_by_id().get(number)
    return _missing(*_SCHEMA_NOT_FOUND) if schema is None else _json({"schema": schema.text})


@router.get("/subjects", summary="All subjects")
async def subjects() -> Response:
    """The names of all subjects."""
    return _json(sorted({schema.subject for schema in codec.schemas_by_id().values()}))


@router.get("/subjects/{subject}/versions", summary="The versions of a subject")
async def versions(subject: str) -> Response:
    """The version numbers of a subject."""
    found = sorted(schema.version for schema in _of(subject))
    return _json(found) if found else _missing(*_SUBJECT_NOT_FOUND)


@router.get("/subjects/{subject}/versions/{version}", summary="One version of a subject")
async def version_of(subject: str, version: str) -> Response:
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
    return _json({"subject": schema.subject, "version": schema.version, "id": schema.schema_id, "schema": schema.text})


_DIGITS_MAX: Final = 10
_STATUS_DIGITS: Final = 100


def _of(subject: str) -> list[codec.Schema]:
    return [schema for schema in codec.schemas_by_id().values() if schema.subject == subject]


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type=MEDIA_TYPE)


def _missing(error_code: int, message: str) -> Response:
    """Confluent's error document; the first three digits of its code are the status."""
    return _json({"error_code": error_code, "message": message}, error_code // _STATUS_DIGITS)
