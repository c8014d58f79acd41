"""Tokens of staff name nobody else, and keys that sign tokens are replaced without one refused."""

from __future__ import annotations

import asyncio
import time

import pytest
from typer.testing import CliRunner

from compose.cli.credentials import token
from compose.stack.errors import StackError
from ingress import limits as ingress_limits
from ingress.http.cursors import Cursors
from ingress.identity.auth import Authenticator
from ingress.identity.caller import NAME
from ingress.identity.issuer import AUDIENCE, ISSUER, KEY_OVERLAP_S, SCOPES_DEFAULT, KeyFolder, issue_token
from ingress.identity.jwks import KeySource, read_keys
from ingress.identity.roles import STAFF
from ingress.identity.signed_token import read_header
from schemas import errors, limits
from sinks import kept_secrets
from sinks import limits as sinks_limits
from tests.unit.test_ingress_auth import caller_of, keys, signed

__all__ = ["keys"]  # the fixture of here and there


@pytest.mark.parametrize("scope", sorted(STAFF))
def test_staff_acts_in_nobodys_name(keys: KeyFolder, scope: str) -> None:
    """An operator that were a merchant, too, would move its own money; the issuer makes no such token."""
    ann = caller_of(keys, "Bearer " + issue_token(keys, "ann", (scope,), kind="staff"))
    assert (ann.principal, ann.subject, ann.scopes) == ("staff:ann", "ann", {scope})
    for kind in ("merchant", "tenant", "user"):
        with pytest.raises(errors.Forbidden):
            getattr(ann, kind)
        both = signed(keys, lambda c, kind=kind: (c.pop("merchant"), c.update({kind: "m_1", "scope": scope})))  # type: ignore[misc]
        with pytest.raises(errors.Unauthenticated, match="must name no merchant"):
            caller_of(keys, "Bearer " + both)
        with pytest.raises(errors.InvalidCommand, match="do not go together"):
            issue_token(keys, "m_1", (scope, "limits:read"), kind=kind)  # type: ignore[arg-type]


@pytest.mark.parametrize("beyond", [*SCOPES_DEFAULT, "resources:write", "posts:write"])
def test_staff_has_no_scope_of_callers(keys: KeyFolder, beyond: str) -> None:
    token = signed(keys, lambda c: (c.pop("merchant"), c.update(scope=f"operator:finance {beyond}")))
    with pytest.raises(errors.Unauthenticated, match="must not have the scope"):
        caller_of(keys, f"Bearer {token}")
    with pytest.raises(errors.InvalidCommand, match="do not go together"):
        issue_token(keys, "ann", ("operator:finance", beyond), kind="staff")


@pytest.mark.parametrize(
    ("subject", "taken"),
    [("u_1", True), ("auth0|5f7c", True), ("", False), (" ", False), ("u\n1", False), ("\x00", False)],
)
def test_a_member_of_a_tenant_is_a_person(keys: KeyFolder, subject: str, *, taken: bool) -> None:
    """It consents and pays under that name; who calls for a merchant or a user is known by that alone."""
    header = "Bearer " + signed(keys, lambda c: (c.pop("merchant"), c.update(tenant="tn_1", sub=subject)))
    if taken:
        assert caller_of(keys, header).subject == subject
        return
    with pytest.raises(errors.Unauthenticated, match="must name a person"):
        caller_of(keys, header)
    assert caller_of(keys, "Bearer " + signed(keys, lambda c: c.update(sub=subject))).merchant


@pytest.mark.parametrize(
    ("subject", "taken"), [("ann@example.org", True), ("a" * 64, True), ("", False), ("\n", False)]
)
def test_staff_is_a_person(keys: KeyFolder, subject: str, *, taken: bool) -> None:
    """Whatever an issuer calls it: its principal is a name that keys can hold, and another's is another."""
    header = "Bearer " + signed(keys, lambda c: (c.pop("merchant"), c.update(scope="operator", sub=subject)))
    if not taken:
        with pytest.raises(errors.Unauthenticated):
            caller_of(keys, header)
        return
    kind, _, name = caller_of(keys, header).principal.partition(":")
    assert (kind, NAME.match(name) is not None) == ("staff", True)


@pytest.mark.parametrize("subject", ["", " ", "ann ", "ann\u200b"])
def test_the_shell_gives_no_token_to_nobody(subject: str) -> None:
    """An empty subject is not the default one: who says it meant another."""
    refused = CliRunner().invoke(token.app, ["--tenant", "tn_1", "--subject", subject]).exception
    assert isinstance(refused, StackError)
    assert "names a person" in str(refused)


def test_a_request_is_judged_once_by_each_who_judges_and_again_where_that_is_asked(keys: KeyFolder) -> None:
    """Its doors and its route ask whose it is; what was refused is refused to each of them."""
    denied, judged = [False], [0]

    class Denials:
        async def require(self, _: object) -> None:
            judged[0] += 1
            if denied[0]:
                raise errors.Suspended

    async def play() -> None:
        first = Authenticator(KeySource(str(keys.jwks)), ISSUER, (AUDIENCE,), denials=Denials())  # type: ignore[arg-type]
        other = Authenticator(KeySource(str(keys.jwks)), ISSUER, ("else",))
        scope = {"type": "http", "headers": [(b"authorization", f"Bearer {signed(keys)}".encode())]}
        found = await first.caller_in(scope)
        assert await first.caller_in(scope) is found
        assert await first.principal_in(scope) == "m_1"
        assert judged == [1]
        with pytest.raises(errors.Unauthenticated):
            await other.caller_in(scope)
        denied[0] = True
        assert await first.caller_in(scope) is found
        for anew in (True, False, False):  # once it is refused, nobody is let in by what was found before
            with pytest.raises(errors.Suspended):
                await first.caller_in(scope, anew=anew)
        assert judged == [4]

    asyncio.run(play())


def test_a_key_is_rotated_without_a_token_refused(keys: KeyFolder) -> None:
    """What the key before signed is believed as long as such a token can live; then that key is none."""
    before = "Bearer " + issue_token(keys, "m_1")
    seen: list[bool] = []

    def settle() -> None:
        (new, _) = keys.public_keys()
        seen.append(new["kid"] in read_keys(keys.jwks.read_text()) and _kid_of(issue_token(keys, "m_1")) != new["kid"])

    keys.rotate(settle=settle)
    assert seen == [True]  # verifiers can know a key before it signs
    after = "Bearer " + issue_token(keys, "m_1")
    assert _kid_of(after) == keys.public_keys()[0]["kid"] != _kid_of(before)
    assert [caller_of(keys, token).merchant for token in (before, after)] == ["m_1", "m_1"]
    text = keys.jwks.read_text()
    (retires_at,) = [row["exp"] for row in keys.public_keys() if "exp" in row]
    assert retires_at >= time.time() + limits.TOKEN_TTL_MAX_S
    assert read_keys(text, retires_at - 1).keys() == {_kid_of(before), _kid_of(after)}
    assert read_keys(text, retires_at).keys() == {_kid_of(after)}
    keys.rotate()
    assert keys.public_keys()[-1]["exp"] == retires_at  # a later rotation keeps no key longer
    assert keys.issuer.stat().st_mode & 0o077 == 0
    assert all("d" not in row for row in keys.public_keys())


@pytest.mark.parametrize("at_once", [False, True])
def test_a_rotation_that_is_cut_short_leaves_the_key_that_signs_believed(keys: KeyFolder, at_once: bool) -> None:
    """A kill, or an impatient operator: what signs would be refused at once, or as soon as it had retired."""

    def killed() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        keys.rotate(at_once=at_once, settle=killed)
    token = "Bearer " + issue_token(keys, "m_1")
    assert (_kid_of(token), caller_of(keys, token).merchant) == (keys.signs(), "m_1")
    assert _kid_of(token) in read_keys(keys.jwks.read_text(), time.time() + 10 * KEY_OVERLAP_S)
    keys.rotate(at_once=at_once)
    (newest, *others) = keys.public_keys()
    assert newest["kid"] == keys.signs() == _kid_of(issue_token(keys, "m_1"))
    assert ["exp" in row for row in others] == ([] if at_once else [True, True])


def test_a_stolen_key_is_believed_no_more(keys: KeyFolder) -> None:
    before = "Bearer " + issue_token(keys, "m_1")
    keys.rotate(at_once=True)
    with pytest.raises(errors.Unauthenticated):
        caller_of(keys, before)
    assert caller_of(keys, "Bearer " + issue_token(keys, "m_1")).merchant == "m_1"


def _kid_of(token: str) -> str:
    return str(read_header(token.removeprefix("Bearer "))["kid"])


def test_cursors_of_before_a_rotation_are_good_and_all_processes_know_the_new_ones(
    keys: KeyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a restart; a file of an earlier release has one secret and no time."""
    monkeypatch.setattr(sinks_limits, "SECRETS_LOOK_S", 0)
    mine, theirs = (Cursors(keys.cursor_key()) for _ in range(2))
    old = mine.write("m_1", "list", 1)
    meanwhile: list[str] = []

    def settle() -> None:
        meanwhile.append(mine.write("m_1", "list", 2))

    keys.rotate_cursors(settle=settle)
    new = mine.write("m_1", "list", 1)
    assert new != old
    assert meanwhile[0] == Cursors(lambda: keys.cursor_key()()[1:]).write("m_1", "list", 2)  # the old one signed
    assert [theirs.read("m_1", "list", text, int) for text in (old, *meanwhile, new)] == [1, 2, 1]
    retires_at = kept_secrets.read(keys.cursor.read_text())[1][1]
    assert retires_at == pytest.approx(time.time() + ingress_limits.CURSOR_KEY_OVERLAP_S, abs=60)
    keys.rotate_cursors(at_once=True)
    with pytest.raises(errors.MalformedRequest):
        theirs.read("m_1", "list", new, int)
    assert len(keys.cursor_key()()) == 1
    assert keys.cursor.stat().st_mode & 0o077 == 0


def test_a_secret_retires_at_its_time(keys: KeyFolder) -> None:
    now = int(time.time())
    keys.cursor.write_text(f"{'aa' * 32}\n{'bb' * 32} {now + 60}\n{'cc' * 32} {now - 1}\n")
    assert keys.cursor_key()() == (b"\xaa" * 32, b"\xbb" * 32)


def test_an_issuer_that_is_away_is_asked_once_in_a_cooldown(keys: KeyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes meanwhile, with a token that nobody remembers, goes by the keys that are known and waits for none."""
    now, asked = [0.0], []
    source = KeySource(str(keys.jwks), clock=lambda: now[0])

    async def silent() -> bytes:
        asked.append(now[0])
        raise OSError("no answer")

    async def play() -> None:
        await source.refresh()
        monkeypatch.setattr(source, "_load", silent)
        for turn in (1, 2):
            now[0] = ingress_limits.JWKS_REFRESH_S + turn * (ingress_limits.JWKS_REFRESH_COOLDOWN_S + 1.0)
            for _ in range(3):
                now[0] += 1.0
                await Authenticator(source, ISSUER, (AUDIENCE,)).caller("Bearer " + signed(keys))
            assert len(asked) == turn

    asyncio.run(play())
