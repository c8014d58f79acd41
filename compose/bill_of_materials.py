"""``make sbom``: everything that an installation is made of, as CycloneDX 1.6 in JSON.

Of the locked Python packages (``requirements/dev.txt``, with the hashes of their distributions and who needs them) and
of Kafka's jars (``stack/kafka_jars.json``). The same files give the same bytes: no clock, and a serial number made of
the content. Source: CycloneDX 1.6, ECMA-424.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

Json = dict[str, Any]

LOCK: Final = Path(__file__).parent.parent / "requirements" / "dev.txt"
JARS: Final = Path(__file__).parent / "stack" / "kafka_jars.json"
OURS: Final = "millrace"
_PINNED: Final = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[^]]*\])?==(?P<version>[^ ;\\]+)( *;(?P<when>[^\\]*))?")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_NEEDED_BY: Final = re.compile(r"#(?: via)? +([A-Za-z0-9._-]+)")


class Package(NamedTuple):
    """A locked package: the hashes are of its distributions, ``when`` is its environment marker, "" for always."""

    name: str
    version: str
    when: str
    hashes: tuple[str, ...]
    needed_by: frozenset[str]

    @property
    def purl(self) -> str:
        """Its package URL."""
        return f"pkg:pypi/{self.name}@{self.version}"


def packages(lock: str) -> list[Package]:
    """The packages of a lock file as uv writes it. Raises ValueError for a line that is neither of them."""
    found: list[Package] = []
    for number, line in enumerate(lock.splitlines(), 1):
        text = line.strip()
        if pinned := _PINNED.match(line):
            when = (pinned["when"] or "").strip()
            found.append(Package(pinned["name"], pinned["version"], when, (), frozenset()))
        elif not found or text in ("", "# via"):
            continue
        elif hashed := _HASH.match(text):
            found[-1] = found[-1]._replace(hashes=(*found[-1].hashes, hashed[1]))
        elif needed := _NEEDED_BY.match(text):
            found[-1] = found[-1]._replace(needed_by=found[-1].needed_by | {needed[1]})
        else:
            raise ValueError(f"line {number} of the lock file is no package, hash or reason: {text[:80]}")
    return found


def document(locked: list[Package], jars: dict[str, str], version: str) -> Json:
    """The bill: our own component, what it is made of, and who needs what."""
    components = [_component(one) for one in locked] + [_jar(name, digest) for name, digest in sorted(jars.items())]
    needs: dict[str, set[str]] = {OURS: {f"jar:{name}" for name in jars}}
    for one in locked:
        needs.setdefault(one.purl, set())
        for other in one.needed_by:
            for needing in [OURS] if other == OURS else [p.purl for p in locked if p.name == other]:
                needs.setdefault(needing, set()).add(one.purl)
    content: Json = {
        "metadata": {
            "component": {"type": "application", "bom-ref": OURS, "name": OURS, "version": version},
        },
        "components": components,
        "dependencies": [{"ref": ref, "dependsOn": sorted(needed)} for ref, needed in sorted(needs.items())],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(content, sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
    } | content


def _component(one: Package) -> Json:
    when = {"properties": [{"name": f"{OURS}:when", "value": one.when}]} if one.when else {}
    return {
        "type": "library",
        "bom-ref": one.purl,
        "name": one.name,
        "version": one.version,
        "purl": one.purl,
        "hashes": [{"alg": "SHA-256", "content": digest} for digest in one.hashes],
        **when,
    }


def _jar(name: str, digest: str) -> Json:
    hashes = [{"alg": "SHA-256", "content": digest}]
    return {"type": "file", "bom-ref": f"jar:{name}", "name": name, "hashes": hashes}


def main() -> None:
    """Prints the bill of this tree."""
    found = document(packages(LOCK.read_text()), json.loads(JARS.read_text()), metadata.version(OURS))
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
