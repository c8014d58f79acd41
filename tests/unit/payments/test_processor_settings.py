"""Which processors there are: names, addresses, secrets; a wrong setting is one line that names the variable."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from compose import limits
from compose.settings.settings import Settings, load_settings
from compose.stack.errors import StackError
from compose.stack.ports import PortLeases

if TYPE_CHECKING:
    from pathlib import Path


def started(home: Path, **given: object) -> Settings:
    """Settings of a home that has its ports."""
    settings = Settings(home=home, **given)  # type: ignore[arg-type] # fields
    settings.the_home().prepare()
    leases = PortLeases()
    leases.assign(settings.the_home(), settings.preferred_ports(), {})
    leases.close()
    return settings


def test_two_simulators_are_started_unless_told_otherwise(tmp_path: Path) -> None:
    """Each has a port of its own; the first is where it always was."""
    settings = started(tmp_path)
    addresses = settings.addresses()
    assert settings.embedded_processors() == ("simulator", "simulator_b")
    assert list(addresses.processor_urls) == ["simulator", "simulator_b"]
    assert addresses.processor_url == addresses.processor_urls["simulator"]
    assert addresses.processor_url.endswith(f":{addresses.processor_port}")
    assert len({processor.port for processor in addresses.processors}) == 2
    assert addresses.simulator_urls == addresses.processor_urls


def test_stripe_and_a_simulator_elsewhere_are_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_PROCESSORS", "stripe, simulator_x")
    monkeypatch.setenv("MILLRACE_PROCESSOR_URLS", '{"simulator_x": "https://sim.example/base/"}')
    monkeypatch.setenv("MILLRACE_PROCESSOR_SECRETS", '{"stripe": "sk_1"}')
    monkeypatch.setenv("MILLRACE_PROCESSOR_BOOKS", '{"stripe": "http://127.0.0.1:1"}')
    settings = started(tmp_path)
    addresses = settings.addresses()
    assert settings.embedded_processors() == ()
    assert addresses.processor_urls == {"stripe": "https://api.stripe.com", "simulator_x": "https://sim.example/base"}
    assert (addresses.processors[0].adapter, addresses.processors[0].secret) == ("stripe", "sk_1")
    assert addresses.simulator_urls == {"simulator_x": "https://sim.example/base"}
    assert addresses.book_urls == addresses.simulator_urls | {"stripe": "http://127.0.0.1:1"}
    assert "sk_1" not in repr(addresses) + repr(settings)
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)
    assert load_settings().addresses().processors == addresses.processors, "as every process of ours gets them"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PROCESSORS", "paypal"),
        ("PROCESSORS", "simulatorx"),
        ("PROCESSORS", "simulator:a"),
        ("PROCESSORS", "Stripe"),
        ("PROCESSORS", ""),
        ("PROCESSORS", "simulator,simulator"),
        ("PROCESSORS", ",".join(f"simulator_{n}" for n in range(limits.PROCESSORS_MAX + 1))),
        ("PROCESSOR_URLS", '{"stripe": "https://x.example"}'),
        ("PROCESSOR_SECRETS", '{"elsewhere": "s"}'),
        ("PROCESSOR_WEBHOOK_SECRETS", '{"simulator_b": "whsec_short"}'),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"MILLRACE_{name}", value)
    with pytest.raises(StackError, match=f"MILLRACE_{name} is wrong"):
        load_settings(tmp_path)


@pytest.mark.parametrize(
    "url",
    [
        "http://api.example",
        "ftp://api.example",
        "https://",
        "api.example",
        "https://u:p@x.example",
        "https://x.example?a",
    ],
)
def test_a_card_goes_nowhere_without_tls(tmp_path: Path, url: str) -> None:
    """But to this machine."""
    secrets = {"stripe": "sk_1"}
    with pytest.raises(StackError, match="MILLRACE_PROCESSOR_URLS: stripe needs an address https"):
        started(tmp_path, processors=("stripe",), processor_urls={"stripe": url}, processor_secrets=secrets).addresses()
    near = started(
        tmp_path, processors=("stripe",), processor_urls={"stripe": "http://127.0.0.1:1"}, processor_secrets=secrets
    )
    assert near.addresses().processor_url == "http://127.0.0.1:1"


def test_stripe_needs_its_key(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="stripe needs its API key: MILLRACE_PROCESSOR_SECRETS"):
        started(tmp_path, processors=("stripe",)).addresses()


def test_every_processor_has_a_webhook_secret_of_its_own(tmp_path: Path) -> None:
    """Derived for development; a given one is used, several at once for rotation."""
    secrets = Settings(home=tmp_path).active_webhook_secrets()
    assert secrets["simulator"] != secrets["simulator_b"]
    assert Settings(home=tmp_path).active_webhook_secrets() == secrets
    given = json.dumps({"stripe_eu": "whsec_new_secret_0123456,whsec_old_secret_0123456"})
    settings = Settings(home=tmp_path, processors="stripe_eu", processor_webhook_secrets=json.loads(given))  # type: ignore[arg-type] # split
    assert settings.active_webhook_secrets()["stripe_eu"] == ("whsec_new_secret_0123456", "whsec_old_secret_0123456")


@pytest.mark.parametrize(
    ("hours", "said"),
    [
        ('{"stripe": 5}', "is not asked for reports"),
        ('{"simulator": 24}', "less than or equal to 23"),
        ('{"simulator_c": 5}', "is not among MILLRACE_PROCESSORS"),
    ],
)
def test_only_who_is_asked_for_reports_has_an_hour_for_them(
    monkeypatch: pytest.MonkeyPatch, hours: str, said: str
) -> None:
    monkeypatch.setenv("MILLRACE_PROCESSORS", "simulator,stripe")
    monkeypatch.setenv("MILLRACE_PROCESSOR_REPORT_HOURS", hours)
    with pytest.raises(StackError, match="MILLRACE_PROCESSOR_REPORT_HOURS") as refused:
        load_settings()
    assert said in str(refused.value)
