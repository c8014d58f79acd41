"""Texts of users under their keys: what travels and is stored says none, and opens in its own place alone."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import services
from schemas.crypto.sealing import SealBroken
from schemas.social import sealed_texts

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
POST = {"id": "po_1", "text": "wordofmine", "display_name": "Ä", "version": 2, "media_ids": []}


@pytest.mark.parametrize(("operation", "field"), sealed_texts.WRITTEN.items())
def test_a_command_travels_without_its_text_and_opens_for_its_user_and_identity_alone(
    operation: str, field: str
) -> None:
    payload: dict[str, Any] = {"post_id": "po_1", field: "wordofmine"}
    signals = sealed_texts.sealed_command(operation, payload, KEY, "u_1", "key-1")
    travels = sealed_texts.travelling(operation, payload)
    assert signals is not None
    assert "wordofmine" not in f"{travels} {signals}"
    assert sealed_texts.is_sealed(operation, signals)
    assert sealed_texts.opened_payload(operation, travels, signals, KEY, "u_1", "key-1") == payload
    for key, user, identity in ((OTHER_KEY, "u_1", "key-1"), (KEY, "u_2", "key-1"), (KEY, "u_1", "key-2")):
        with pytest.raises(SealBroken):
            sealed_texts.opened_payload(operation, travels, signals, key, user, identity)
    declared = services.OPERATIONS[operation]
    said = {name: travels.get(name, field.default) for name, field in declared.payload.items()}
    _, wrong = declared.normalize({name: value for name, value in said.items() if name in travels})
    assert f"payload.{field}" not in {one["field"] for one in wrong}, "an owner would refuse what stands for the text"


@pytest.mark.parametrize("payload", [{"text": ""}, {"text": None}, {}, {"post_id": "po_1"}])
def test_what_says_no_text_travels_as_it_is(payload: dict[str, Any]) -> None:
    assert sealed_texts.sealed_command("edit_post", payload, KEY, "u_1", "key-1") is None
    assert sealed_texts.travelling("edit_post", payload) == payload
    assert not sealed_texts.is_sealed("edit_post", None)


def test_a_result_is_stored_without_its_texts_and_opens_for_its_object_and_version_alone() -> None:
    stored = sealed_texts.sealed_result(POST, KEY, "u_1")
    assert "wordofmine" not in str(stored)
    assert "Ä" not in str(stored)
    opened = sealed_texts.opened_result(stored, KEY, "u_1")
    assert list(opened.items()) == list(POST.items())  # in its order, too
    assert sealed_texts.sealed_result(opened | {"text": "", "display_name": ""}, KEY, "u_1").get("sealed") is None
    for changed, key, user in (
        ({"version": 3}, KEY, "u_1"),
        ({"id": "po_2"}, KEY, "u_1"),
        ({}, OTHER_KEY, "u_1"),
        ({}, KEY, "u_2"),
    ):
        with pytest.raises(SealBroken):
            sealed_texts.opened_result(stored | changed, key, user)
    with pytest.raises(SealBroken):
        sealed_texts.opened_result(stored | {"sealed": {"text": "?"}}, KEY, "u_1")
