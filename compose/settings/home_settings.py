"""The home folder: where what is not set is made and kept."""

from __future__ import annotations

from pathlib import Path

from pydantic import field_validator
from pydantic_settings import BaseSettings

from compose.stack.home import Home


class HomeSettings(BaseSettings):
    """What an operator may set about the home."""

    home: Path = Path(".millrace")

    @field_validator("home", mode="before")
    @classmethod
    def _is_named(cls, value: object) -> object:
        if not str(value).strip():  # a script whose own variable is empty would fill the folder that it stands in
            raise ValueError("name a folder, or leave it out")
        return value

    def the_home(self) -> Home:
        """The home folder with an absolute path, so that a process may change its folder.

        Raises StackError where it is not restored as a whole.
        """
        home = Home(self.home.expanduser().absolute())
        home.refuse_half_restored()
        return home
