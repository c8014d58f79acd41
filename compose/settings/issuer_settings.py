"""Who signs the tokens of callers: an issuer outside, by settings, or the development issuer of the home."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode

from compose.stack.errors import StackError
from compose.stack.ports import LOOPBACK
from ingress.identity.issuer import AUDIENCE, ISSUER, SERVICES_ISSUER, KeyFolder
from ingress.trust import MONITOR_ISSUER, SUPPORT_ISSUER, SignInClient, Trust
from schemas.tenancy.desk_operations import GRANTED_SCOPES

_LOOPBACKS = frozenset({LOOPBACK, "localhost", "::1"})
_SERVICES_SCOPES = frozenset({"limits:read"})
_MONITOR_SCOPES = frozenset(
    {"resources:read", "resources:write", "usage:read", "usage:write", "tenant:admin", "tenants:admin", "support"}
)


class IssuerSettings(BaseSettings):
    """What an operator may set about tokens."""

    #: in development the home has an issuer of its own, whose key lies beside everything else
    mode: Literal["development", "production"] = "development"
    #: the ``iss`` of tokens; with MILLRACE_JWKS_URL or MILLRACE_JWKS_FILE, and the development issuer is not believed
    issuer: str | None = None
    jwks_url: str | None = None
    jwks_file: Path | None = None
    #: what tokens may be for, separated by commas: one of them must be in ``aud``
    audience: Annotated[tuple[str, ...], NoDecode] = (AUDIENCE,)
    #: people sign in at that issuer (OpenID Connect): who we are there, and where browsers reach our pages
    sign_in_client: str | None = Field(default=None, min_length=1)
    sign_in_client_secret: SecretStr | None = None
    sign_in_origin: str | None = None
    #: the claim of its ID tokens that has a person's scopes, as a text or a list
    sign_in_claim: str = Field(default="scope", min_length=1)

    @field_validator("audience", mode="before")
    @classmethod
    def _split_audiences(cls, value: object) -> object:
        names = tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value
        if not names:
            raise ValueError("name one audience at least")
        return names

    @field_validator("jwks_url")
    @classmethod
    def _is_safe(cls, value: str | None) -> str | None:
        parts = urlsplit(value or "")
        if value is not None and parts.scheme != "https" and parts.hostname not in _LOOPBACKS:
            raise ValueError("give an https address: whoever changes these keys on the way signs any token")
        return value

    @field_validator("sign_in_origin")
    @classmethod
    def _is_origin(cls, value: str | None) -> str | None:
        parts = urlsplit(value or "")
        if value is not None and (parts.scheme not in ("https", "http") or value != f"{parts.scheme}://{parts.netloc}"):
            raise ValueError("give an origin, as https://millrace.example")
        if value is not None and parts.scheme != "https" and parts.hostname not in _LOOPBACKS:
            raise ValueError("give an https origin: the issuer's code would come in the clear")
        return value

    @model_validator(mode="after")
    def _is_whole(self) -> IssuerSettings:
        keys = [one for one in (self.jwks_url, self.jwks_file) if one is not None]
        if self.issuer is None and keys:
            raise ValueError("MILLRACE_JWKS_URL and MILLRACE_JWKS_FILE need MILLRACE_ISSUER")
        if self.issuer is not None and len(keys) != 1:
            raise ValueError("MILLRACE_ISSUER needs MILLRACE_JWKS_URL or MILLRACE_JWKS_FILE, one of them")
        if self.issuer in (ISSUER, SERVICES_ISSUER, SUPPORT_ISSUER, MONITOR_ISSUER):
            raise ValueError("MILLRACE_ISSUER is a name of our own")
        if self.issuer is None and self.is_production:
            raise ValueError("MILLRACE_MODE=production needs MILLRACE_ISSUER: the development issuer is not believed")
        if self.sign_in_client is not None and (self.issuer is None or self.sign_in_origin is None):
            raise ValueError("MILLRACE_SIGN_IN_CLIENT needs MILLRACE_ISSUER and MILLRACE_SIGN_IN_ORIGIN")
        return self

    @property
    def is_production(self) -> bool:
        """Whether strangers and networks may meet this installation: what only development may do is refused."""
        return self.mode == "production"

    def sign_in(self) -> SignInClient | None:
        """Where people sign in; None where pages take tokens alone. Only the ingress may ask."""
        if self.sign_in_client is None or self.issuer is None or self.sign_in_origin is None:
            return None
        secret = self.sign_in_client_secret
        return SignInClient(
            issuer=self.issuer,
            jwks=self.jwks_url or str(self.jwks_file),
            client_id=self.sign_in_client,
            secret=None if secret is None else secret.get_secret_value(),
            origin=self.sign_in_origin,
            scope_claim=self.sign_in_claim,
        )

    def development_issuer(self, keys: Path) -> KeyFolder:
        """The issuer of the home. StackError where it is not believed."""
        if self.issuer is not None:
            raise StackError(f"tokens are of {self.issuer}: the development issuer is not believed here")
        folder = KeyFolder(keys)
        folder.ensure()
        return folder

    def service_issuer(self, keys: Path) -> KeyFolder:
        """What our own services show each other, apart from any issuer of callers."""
        folder = KeyFolder(keys / "services")
        folder.ensure()
        return folder

    def support_issuer(self, keys: Path) -> KeyFolder:
        """What support shows, in the name of a tenant and under a grant: only the ingress may ask."""
        folder = KeyFolder(keys / "support")
        folder.ensure()
        return folder

    def monitor_issuer(self, keys: Path) -> KeyFolder:
        """What the isolation monitor shows: only that may ask."""
        folder = KeyFolder(keys / "monitor")
        folder.ensure()
        return folder

    def trusted(self, keys: Path) -> tuple[Trust, ...]:
        """Whose tokens a process believes: the callers' issuer, and that of our own services for what these may do."""
        support = Trust(
            issuer=SUPPORT_ISSUER,
            audiences=(AUDIENCE,),
            jwks=str(self.support_issuer(keys).jwks),
            scopes_max=frozenset(GRANTED_SCOPES),
        )
        monitor = Trust(
            issuer=MONITOR_ISSUER,
            audiences=(AUDIENCE,),
            jwks=str(self.monitor_issuer(keys).jwks),
            scopes_max=_MONITOR_SCOPES,
        )
        services = Trust(
            issuer=SERVICES_ISSUER,
            audiences=(AUDIENCE,),
            jwks=str(self.service_issuer(keys).jwks),
            scopes_max=_SERVICES_SCOPES,
        )
        if self.issuer is None:
            jwks = str(self.development_issuer(keys).jwks)
            return Trust(issuer=ISSUER, audiences=self.audience, jwks=jwks), services, support, monitor
        found = self.jwks_url or str(self.jwks_file)
        return Trust(issuer=self.issuer, audiences=self.audience, jwks=found), services, support, monitor
