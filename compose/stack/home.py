"""The home folder: everything one stack keeps. Homes are self-contained, so several stacks run at once.

If two versions of the layout were mixed, a server could start on data that it does not understand; so the
folder carries its format and a home of another format is refused.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from compose import limits
from compose.stack.errors import StackError
from sinks import private_file

if TYPE_CHECKING:
    from pathlib import Path

HOME_FORMAT: Final = 1

_SECRET_BYTES: Final = 32
#: development secrets of webhooks, each in the form that its scheme gives out
_WEBHOOK_SECRETS: Final[dict[str, Callable[[], str]]] = {
    "webhook_stripe": lambda: f"whsec_{secrets.token_urlsafe(24)}",
    "webhook_standard": lambda: f"whsec_{base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()}",
    "webhook_simulator": lambda: f"whsec_{base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()}",
    "webhook_adyen": lambda: secrets.token_hex(_SECRET_BYTES).upper(),
}
_PRIVATE_FOLDER: Final = 0o700
_PRIVATE_FILE: Final = 0o600


def _password() -> str:
    return secrets.token_urlsafe(24)


@dataclass(frozen=True, slots=True)
class Home:
    """Paths inside one home folder; nothing is created before ``prepare``."""

    path: Path

    @property
    def logs(self) -> Path:
        """One log file for each process."""
        return self.path / "logs"

    @property
    def run(self) -> Path:
        """What exists only while a stack runs."""
        return self.path / "run"

    @property
    def state_file(self) -> Path:
        """Written by the supervisor: see ``compose.supervise.state``."""
        return self.run / "state.json"

    @property
    def lock_file(self) -> Path:
        """Locked by the supervisor for as long as it runs."""
        return self.run / "supervisor.lock"

    @property
    def ports_file(self) -> Path:
        """The ports of the last start."""
        return self.path / "ports.json"

    @property
    def secrets(self) -> Path:
        """Generated passwords and keys, a private file each, so that a process opens those alone that it needs."""
        return self.path / "secrets"

    @property
    def format_file(self) -> Path:
        """The layout's version."""
        return self.path / "FORMAT"

    @property
    def restoring(self) -> Path:
        """Beside it: what ``millrace restore`` has of it until it is whole, or left when it was killed."""
        path = self.path.resolve()
        return path.with_name(f".{path.name}.restoring")

    def data(self, server: str) -> Path:
        """The data folder of one server."""
        return self.path / "data" / server

    def log(self, process: str) -> Path:
        """The log file of one process."""
        return self.logs / f"{process}.log"

    def refuse_half_restored(self) -> None:
        """``StackError`` while ``millrace restore`` has not ended here, and after it was killed.

        An empty home in place of the one that was to be restored would take payments as if nothing had been.
        """
        if not self.format_file.exists() and self.restoring.exists():
            raise StackError(
                f"'millrace restore' of {self.path} has not ended: wait for it; if it was stopped, run it again, or "
                f"remove {self.restoring} to begin with an empty home"
            )

    def prepare(self) -> None:
        """The folder exists, is private, is of this format and its disk has room; otherwise ``StackError``."""
        for folder in (self.path, self.logs, self.run, self.path / "data"):
            try:
                folder.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
            except OSError as error:
                raise StackError(f"cannot create {folder}: {error.strerror}; set MILLRACE_HOME elsewhere") from error
        self._check_format()
        self._check_space()

    def _check_format(self) -> None:
        if not self.format_file.exists():
            write_private(self.format_file, f"{HOME_FORMAT}\n")
        found = self.format_file.read_text().strip()
        if found != str(HOME_FORMAT):
            raise StackError(
                f"{self.path} was made by another version (format {found}, this one writes {HOME_FORMAT}): "
                "use that version, or set MILLRACE_HOME to a new folder"
            )

    def _check_space(self) -> None:
        free = shutil.disk_usage(self.path).free
        if free < limits.HOME_FREE_BYTES_MIN:
            raise StackError(
                f"only {free // 2**20} MiB free under {self.path}, {limits.HOME_FREE_BYTES_MIN // 2**20} MiB are "
                "needed: free some disk or set MILLRACE_HOME to another one"
            )

    @property
    def given_secrets(self) -> Path:
        """What an operator gave in the environment, while a stack runs."""
        return self.secrets / "given"

    def secret(self, name: str) -> str:
        """The same generated secret every time, made at the first call; no other one is opened."""
        path = self.secrets / name
        try:
            return path.read_text()
        except FileNotFoundError:
            self._take_over()
            self.path.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
            private_file.write_once(path, _WEBHOOK_SECRETS.get(name, _password)())
            return path.read_text()

    def _take_over(self) -> None:
        """An earlier release kept all of them in one file, which every process read."""
        old = self.path / "passwords.json"
        for name, value in (read_json(old) or {}).items():
            private_file.write_once(self.secrets / name, value)
        old.unlink(missing_ok=True)


def read_json(path: Path) -> Any:
    """The parsed file, or None when there is none."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise StackError(f"{path} is damaged ({error}): remove it and run 'millrace up' again") from error


def write_private(path: Path, text: str) -> None:
    """Replaces the file at once or not at all, readable by its owner only."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE_FILE)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    draft.replace(path)
