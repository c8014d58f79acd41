"""The key file: private, made once, replaced whole, and of one who brings keys only read."""

from __future__ import annotations

import base64
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from compose.settings.settings import Settings, load_settings
from compose.stack.errors import StackError
from vault.key_file import KeyFile, VaultKeysUnusable


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    made = KeyFile(tmp_path / "keys" / "vault.json", ours=True)
    made.ensure()
    return made


def test_it_is_private_and_made_once(file: KeyFile) -> None:
    ring = file.read()
    file.ensure()
    assert file.read() == ring
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert list(ring.wrapping_keys) == ["kek_0001"]
    assert [path.name for path in file.path.parent.iterdir()] == ["vault.json"]


def test_made_at_once_by_many_it_is_one(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys" / "vault.json", ours=True)

    def made() -> bytes:
        file.ensure()
        return file.read().mac_key

    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(lambda _: made(), range(64)))) == 1
    assert len(list(file.path.parent.iterdir())) == 1


def test_keys_come_and_go(file: KeyFile) -> None:
    first = file.read()
    assert (file.add(), file.add()) == ("kek_0002", "kek_0003")
    file.forget("kek_0001")
    file.forget("kek_0001")
    ring = file.read()
    assert (sorted(ring.wrapping_keys), ring.newest, ring.mac_key) == (
        ["kek_0002", "kek_0003"],
        "kek_0003",
        first.mac_key,
    )
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert len(set(ring.wrapping_keys.values()) | set(first.wrapping_keys.values())) == 3


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o660, 0o644])
def test_one_that_others_can_read_is_refused(file: KeyFile, mode: int) -> None:
    file.path.chmod(mode)
    with pytest.raises(VaultKeysUnusable, match="chmod 600"):
        file.read()


KEY = base64.b64encode(b"k" * 32).decode()


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"format": 2}', f'{{"format": 1, "wrapping_keys": {{}}, "mac_key": "{KEY}"}}', f'{{"format": 1, "wrapping_keys": {{"kek_0001": "{KEY}"}}}}',
     f'{{"format": 1, "wrapping_keys": {{"kek_0001": "c2hvcnQ="}}, "mac_key": "{KEY}"}}', f'{{"format": 1, "wrapping_keys": {{"../x": "{KEY}"}}, "mac_key": "{KEY}"}}',
     f'{{"format": 1, "wrapping_keys": {{"kek_0001": 5}}, "mac_key": "{KEY}"}}', f'{{"format": 1, "wrapping_keys": {{"kek_0001": "!{KEY}"}}, "mac_key": "{KEY}"}}'],
)  # fmt: skip
def test_a_damaged_one_names_itself_and_no_key(file: KeyFile, text: str) -> None:
    file.path.write_text(text)
    with pytest.raises(VaultKeysUnusable, match=r"vault\.json is no key file") as refused:
        file.read()
    assert KEY not in str(refused.value)
    assert refused.value.__suppress_context__


def test_a_missing_one_says_so(tmp_path: Path) -> None:
    brought = KeyFile(tmp_path / "none.json", ours=False)
    brought.ensure()
    with pytest.raises(VaultKeysUnusable, match="cannot be read: No such file"):
        brought.read()
    assert not brought.path.exists()


def test_where_settings_say_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings(home=tmp_path).vault_keys() == KeyFile(tmp_path / "keys" / "vault.json", ours=True)
    brought = Settings(home=tmp_path, vault_keys_file=tmp_path / "brought.json").vault_keys()
    assert brought == KeyFile(tmp_path / "brought.json", ours=False)


def test_the_secret_of_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made once in the home, or given and long; never shown."""
    made = Settings(home=tmp_path).vault_forward_secret()
    assert len(made) >= 32
    assert Settings(home=tmp_path).vault_forward_secret() == made
    given = Settings(home=tmp_path, vault_secret="s" * 32)
    assert given.vault_forward_secret() == "s" * 32
    assert "ssss" not in repr(given)
    monkeypatch.setenv("MILLRACE_VAULT_SECRET", "short")
    with pytest.raises(StackError, match="MILLRACE_VAULT_SECRET is wrong"):
        load_settings()
    monkeypatch.delenv("MILLRACE_VAULT_SECRET")
    (tmp_path / "given").write_text("short\n")
    monkeypatch.setenv("MILLRACE_VAULT_SECRET_FILE", str(tmp_path / "given"))
    with pytest.raises(StackError, match="MILLRACE_VAULT_SECRET needs 32 characters"):
        load_settings(tmp_path).vault_forward_secret()
    assert (tmp_path / "secrets" / "vault_forward").read_text() == made
