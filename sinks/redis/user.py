"""A user of a Valkey of ours: a name and a password, the keys that it may touch and the commands that it may use."""

from __future__ import annotations

import hashlib
from typing import Final
from urllib.parse import quote, urlsplit, urlunsplit

from msgspec import Struct

#: the supervisor, and a person at the shell with our tools: they alone load functions and scripts
OPERATOR: Final = "operator"
#: begins every name there: others may have users at a server that is not ours alone
_PREFIX: Final = "millrace_"
#: nobody comes in without a name
NOBODY: Final = "user default off resetchannels -@all"


class RedisUser(Struct, frozen=True, kw_only=True):
    """One user, by the kind of its process. ``keys`` and ``commands`` are rules of ACL SETUSER."""

    kind: str
    password: str
    keys: tuple[str, ...]
    commands: tuple[str, ...]

    def __repr__(self) -> str:
        return f"RedisUser({self.kind!r})"

    @property
    def name(self) -> str:
        """As the server knows it."""
        return user_name(self.kind)

    def rules(self) -> str:
        """What it may, with the password's hash alone, in the words and the order of ACL LIST."""
        secret = hashlib.sha256(self.password.encode()).hexdigest()
        return " ".join(("on", f"#{secret}", *self.keys, *self.commands))

    def line(self) -> str:
        """The same as a line of an ACL file."""
        return f"user {self.name} {self.rules()}"


def operator(password: str) -> RedisUser:
    """Who may do everything."""
    return RedisUser(kind=OPERATOR, password=password, keys=("~*", "&*"), commands=("+@all",))


def user_name(kind: str) -> str:
    """What the user of a kind of process is called at the server."""
    return _PREFIX + kind


def url_as(url: str, kind: str, password: str) -> str:
    """The same server as this user; whoever stood in the URL does no longer."""
    parts = urlsplit(url)
    where = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user_name(kind)}:{quote(password, safe='')}@{where}"))
