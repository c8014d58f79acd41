"""The card vault's part of the settings: its keys, and what workers prove themselves to it with."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr

from compose.settings.addresses import secret_text
from compose.settings.home_settings import HomeSettings
from compose.stack.errors import StackError
from vault import limits
from vault.key_file import KeyFile


class VaultSettings(HomeSettings):
    """What an operator may set about the vault."""

    #: keys of the card vault that a key management system provides, in a private file; otherwise made in the home
    vault_keys_file: Path | None = None
    #: what workers prove themselves to the vault with; otherwise made in the home
    vault_secret: SecretStr | None = Field(default=None, min_length=limits.VAULT_SECRET_LENGTH_MIN)

    def vault_keys(self) -> KeyFile:
        """Where the card vault's keys lie: only the vault and 'millrace vault' may ask."""
        if self.vault_keys_file is not None:
            return KeyFile(self.vault_keys_file.expanduser().absolute(), ours=False)
        return KeyFile(self.the_home().path / "keys" / "vault.json", ours=True)

    def vault_forward_secret(self) -> str:
        """What a worker says to the vault's /v1/forward, as ``Authorization: Bearer``."""
        given = secret_text(self.vault_secret)
        if given is not None and len(given) < limits.VAULT_SECRET_LENGTH_MIN:  # from a file: nobody has looked
            raise StackError(f"MILLRACE_VAULT_SECRET needs {limits.VAULT_SECRET_LENGTH_MIN} characters")
        return given or self.the_home().secret("vault_forward")
