"""Kafka's jars are known by their bytes: no other code runs in the broker."""

from __future__ import annotations

import hashlib
import json
import re
from importlib import resources
from typing import TYPE_CHECKING

import pytest

from compose.stack import kafka_jars
from compose.stack.errors import StackError

if TYPE_CHECKING:
    from pathlib import Path

KNOWN = json.loads((resources.files("compose.stack") / "kafka_jars.json").read_bytes())


def test_the_list_is_of_this_release() -> None:
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in KNOWN.values())
    for coordinates in (kafka_jars.KAFKA, kafka_jars.LOGGING):
        _, artifact, version = coordinates.split(":")
        assert f"{artifact}-{version}.jar" in KNOWN


def test_a_jar_with_other_bytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good, other, stranger = (tmp_path / name for name in ("kafka-clients-4.1.1.jar", "jose4j-0.9.6.jar", "x.jar"))
    for jar in (good, other, stranger):
        jar.write_bytes(jar.name.encode())
    digests = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in (good, other)}
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "kafka_jars.json").write_text(json.dumps(digests))
    monkeypatch.setattr(kafka_jars.resources, "files", lambda _package: folder)
    assert kafka_jars.require_known([str(good), str(other)]) == [str(good), str(other)]
    other.write_bytes(other.read_bytes() + b" and more")
    for jars in ([good, other], [stranger]):
        with pytest.raises(StackError, match=f"{jars[-1].name} is not the jar"):
            kafka_jars.require_known([str(jar) for jar in jars])
