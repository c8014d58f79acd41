"""Every codec, compiled as this is imported: for a process that others are forked from, which then share them."""

from __future__ import annotations

from schemas.avro.codec import schemas_by_id

for _schema in schemas_by_id().values():
    _schema.compile()
