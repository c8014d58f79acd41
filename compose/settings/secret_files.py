"""Secrets by file: ``MILLRACE_REDIS_URL_FILE`` names the file in which ``MILLRACE_REDIS_URL`` lies.

An environment is read by whoever reads /proc, and goes to every child. So our processes are given no secret in theirs,
only where each lies; a file is read by those that need what is in it, when they need it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, get_args
from urllib.parse import urlsplit, urlunsplit

from pydantic import SecretStr

from compose.settings.unknown_variables import PREFIX
from compose.stack.errors import StackError
from sinks import private_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_settings import BaseSettings

    from compose.stack.home import Home

_SUFFIX: Final = "_file"


class FileSecret(SecretStr):
    """A secret that is read when it is asked for. StackError when it cannot be."""

    def __init__(self, path: Path) -> None:
        super().__init__("")
        self.path = path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretStr) and self.get_secret_value() == other.get_secret_value()

    __hash__ = SecretStr.__hash__

    def __bool__(self) -> bool:
        return True  # by its length it would be read

    def __len__(self) -> int:
        return len(self.get_secret_value())

    def get_secret_value(self) -> str:
        """The text of the file without a last line end; an empty one is no secret, and no word to make one instead."""
        try:
            text = self.path.read_text().rstrip("\n")
        except OSError as error:
            raise StackError(f"{self.path} cannot be read: {error.strerror}") from error
        if not text:
            raise StackError(f"{self.path} is empty")
        return text


class SettingsWithSecrets(Protocol):
    """What is handed over."""

    postgres_dsn: SecretStr | None

    def the_home(self) -> Home:
        """The home folder."""

    def environment_without_secrets(self) -> dict[str, str]:
        """The variables of what is no secret."""


def secret_fields(model: type[BaseSettings]) -> dict[str, bool]:
    """The settings that are secrets, and whether each is one by name."""
    arguments = {name: get_args(field.annotation) for name, field in model.model_fields.items()}
    return {name: str in found for name, found in arguments.items() if SecretStr in found}


def variables(model: type[BaseSettings]) -> set[str]:
    """The names of the variables that name files, as a setting is called."""
    return {f"{name}{_SUFFIX}" for name in secret_fields(model)}


def from_files(model: type[BaseSettings], environment: Mapping[str, str]) -> dict[str, Any]:
    """The secrets that lie in files, by setting; none is read. StackError for one that is given twice."""
    found: dict[str, Any] = {}
    for name, is_by_name in secret_fields(model).items():
        variable = f"{PREFIX}{name.upper()}"
        text = environment.get(f"{variable}{_SUFFIX.upper()}")
        if not text:
            continue
        if variable in environment:
            raise StackError(f"{variable} and {variable}_FILE are both set: give one of them")
        if is_by_name:
            found[name] = {key: FileSecret(path) for key, path in _paths(variable, text)}
        else:
            found[name] = FileSecret(Path(text))
    return found


def _paths(variable: str, text: str) -> list[tuple[str, Path]]:
    try:
        return [(key, Path(path)) for key, path in json.loads(text).items()]
    except (ValueError, AttributeError, TypeError) as error:
        raise StackError(f"{variable}_FILE must be a JSON object of paths by name") from error


def handed_over(settings: SettingsWithSecrets, secrets: Mapping[str, bool]) -> dict[str, str]:
    """The variables that make the same settings in a process of ours, with no secret among them.

    ``secrets`` are its ``secret_fields``. What came in the environment is written to private files of the home; what
    lies in files stays there.
    """
    given = settings.environment_without_secrets()
    folder = settings.the_home().given_secrets
    for name, is_by_name in secrets.items():
        value = getattr(settings, name)
        if not value:
            continue
        variable = f"{PREFIX}{name}{_SUFFIX}".upper()
        if is_by_name:
            given[variable] = json.dumps({key: str(_file(folder / f"{name}.{key}", one)) for key, one in value.items()})
        else:
            given[variable] = str(_file(folder / name, value))
    if settings.postgres_dsn is not None:
        given[f"{PREFIX}POSTGRES_ADDRESS"] = without_user(settings.postgres_dsn.get_secret_value())
    return given


def forget_others(settings: SettingsWithSecrets, secrets: Mapping[str, bool]) -> None:
    """Removes what an earlier start was given and its killed supervisor left: what these settings name stays."""
    values = ((getattr(settings, name), is_by_name) for name, is_by_name in secrets.items())
    named = [secret for value, is_by_name in values if value for secret in (value.values() if is_by_name else (value,))]
    kept = {secret.path.absolute() for secret in named if isinstance(secret, FileSecret)}
    for path in settings.the_home().given_secrets.absolute().glob("*"):
        if path not in kept:
            path.unlink()


def _file(path: Path, secret: SecretStr) -> Path:
    if isinstance(secret, FileSecret):
        return secret.path.absolute()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    private_file.replace(path, secret.get_secret_value())
    return path


def without_user(dsn: str) -> str:
    """The same server, database and TLS options, and nobody's name or password."""
    parts = urlsplit(dsn)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
