"""Whatever an operation declares is one thing: what its check takes, its Avro carries and its JSON Schema allows."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingress.http.openapi import commands
from schemas.avro import codec
from schemas.services import OPERATIONS
from tests.contracts import golden
from tests.each import each
from tests.worlds.payload_strategies import payloads


@each("name", OPERATIONS)
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_is_taken_travels_and_is_documented(name: str, data: st.DataObject) -> None:
    operation = OPERATIONS[name]
    given_: dict[str, Any] = data.draw(payloads(operation))
    normal, errors = operation.normalize(given_)
    if errors:  # of what fields must fulfil together
        assert operation.together is not None
        return
    schema = commands.payload(operation)
    jsonschema_rs.validator_for(schema).validate(json.loads(json.dumps(given_)))
    envelope = golden.RECORDS[operation.record]
    _, fields = codec.decode(codec.encode(operation.record, envelope | {"payload": normal}))
    # a list that was left out is an empty tuple before it travels: no list of a declaration may change
    as_read = {name: list(value) if value == () else value for name, value in normal.items()}
    assert {name: fields["payload"][name] for name in normal} == as_read
