"""Secrets of webhooks: made once per home, several at a time from the environment, refused when they cannot be right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from compose.settings.settings import Settings, load_settings
from compose.stack.errors import StackError
from ingress.payments.webhooks.signatures import PROCESSORS, read_secrets
from schemas.payments.processors import adapter_of

if TYPE_CHECKING:
    from pathlib import Path


def test_development_secrets_are_made_once_and_have_their_schemes_form(tmp_path: Path) -> None:
    first = Settings(home=tmp_path).webhook_secrets()
    assert Settings(home=tmp_path).webhook_secrets() == first
    assert set(first) == {*PROCESSORS, "simulator_b"}
    assert len(set(first.values())) == len(first)
    for processor, secret in first.items():
        assert len(read_secrets(adapter_of(processor), [secret])) == 1
    assert first["stripe"].startswith("whsec_")
    assert first["standard"].startswith("whsec_")


def test_a_home_of_before_gets_its_secrets_and_keeps_its_passwords(tmp_path: Path) -> None:
    home = Settings(home=tmp_path).the_home()
    home.path.mkdir(exist_ok=True)
    old = tmp_path / "passwords.json"
    old.write_text('{"postgres": "kept"}')
    assert Settings(home=tmp_path).webhook_secrets()["adyen"]
    assert home.secret("postgres") == "kept"
    assert not old.exists(), "a process would read what is not its own"


def test_several_secrets_are_active_during_a_rotation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_WEBHOOK_SECRETS_STRIPE", "whsec_new_secret_0123456, whsec_old_secret_0123456,")
    settings = load_settings(tmp_path)
    active = settings.active_webhook_secrets()
    assert active["stripe"] == ("whsec_new_secret_0123456", "whsec_old_secret_0123456")
    assert settings.webhook_secrets()["stripe"] == "whsec_new_secret_0123456"
    assert len(active["adyen"]) == 1
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)
    assert load_settings(tmp_path).active_webhook_secrets() == active, "as every process of ours gets them"


@pytest.mark.parametrize(
    ("name", "value"), [("ADYEN", "not hexadecimal"), ("STANDARD", "whsec_!"), ("STRIPE", "short"), ("SIMULATOR", ",")]
)
def test_a_secret_that_cannot_be_right_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"MILLRACE_WEBHOOK_SECRETS_{name}", value)
    with pytest.raises(StackError, match=f"MILLRACE_WEBHOOK_SECRETS_{name} is wrong") as refused:
        load_settings(tmp_path)
    assert value not in str(refused.value).replace("separated by commas", "") or value == ","
    assert "\n" not in str(refused.value)
