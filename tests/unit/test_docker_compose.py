"""compose/docker-compose.yml says what the settings and the embedded servers say: names, ports, variables, bounds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from compose import limits
from compose.settings.addresses import DATABASE
from compose.settings.preferred_ports import PREFERRED_PORTS
from compose.settings.settings import Settings
from compose.settings.unknown_variables import PREFIX
from compose.stack.clickhouse.server import ClickHouse
from compose.stack.clickhouse.users import USER
from compose.stack.kafka import Kafka
from compose.stack.kafka_jars import KAFKA
from compose.stack.postgres import SUPERUSER, Postgres
from compose.stack.valkey import Valkey

FILE = Path(__file__).parents[2] / "compose" / "docker-compose.yml"
IMAGES = {
    "kafka": "apache/kafka",
    "postgres": "postgres",
    "redis": "valkey/valkey",
    "clickhouse": "clickhouse/clickhouse-server",
}
PORT = re.compile(r"127\.0\.0\.1:\$\{MILLRACE_([A-Z_]+)_PORT:-(\d+)\}:(\d+)")
VARIABLE = re.compile(r"\$\{(MILLRACE_[A-Z_]+)")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return dict(yaml.safe_load(FILE.read_text())["services"])


def embedded(folder: Path) -> list[Kafka | Postgres | Valkey | ClickHouse]:
    return [Kafka(folder, 1, 2, "p"), Postgres(folder, 3, "p"), Valkey(folder, 4, "p"), ClickHouse(folder, 5, "p", "r")]


def test_names_and_images(services: dict[str, Any], tmp_path: Path) -> None:
    """One service for each embedded server, under its name, from the official image."""
    assert set(services) == {server.name for server in embedded(tmp_path)}
    assert {name: service["image"].split(":")[0] for name, service in services.items()} == IMAGES


def test_ports_are_the_preferred_ones_on_loopback(services: dict[str, Any]) -> None:
    """Each publishes the settings' preferred port on loopback only, and the same variable moves both."""
    for name, service in services.items():
        (published,) = service["ports"]
        found = PORT.fullmatch(published)
        assert found is not None, published
        setting = f"{found.group(1).lower()}_port"
        assert setting == f"{name}_port"
        assert int(found.group(2)) == int(found.group(3)) == PREFERRED_PORTS[setting]


def test_every_variable_is_a_setting_or_a_password_of_this_file() -> None:
    """A variable that the settings do not know is one of the three passwords that stand in the settings' URLs."""
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    passwords = {f"{PREFIX}{name}_PASSWORD" for name in ("POSTGRES", "REDIS", "CLICKHOUSE")}
    assert set(VARIABLE.findall(FILE.read_text())) <= known | passwords


def test_the_urls_in_its_comment_are_valid_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copying the comment's four lines gives settings that start no embedded server."""
    lines = re.findall(r"^#   (MILLRACE_[A-Z_]+)=(\S+)$", FILE.read_text(), re.MULTILINE)
    assert len(lines) == len(IMAGES)
    for name, value in lines:
        monkeypatch.setenv(name, re.sub(r"\$\{[A-Z_]+\}", "secret", value))
    settings = Settings()
    assert settings.kafka_bootstrap == f"127.0.0.1:{PREFERRED_PORTS['kafka_port']}"
    urls = {"postgres": settings.postgres_dsn, "redis": settings.redis_url, "clickhouse": settings.clickhouse_url}
    for name, secret in urls.items():
        assert secret is not None
        assert urlsplit(secret.get_secret_value()).port == PREFERRED_PORTS[f"{name}_port"]


def test_databases_and_users(services: dict[str, Any]) -> None:
    postgres = services["postgres"]["environment"]
    assert (postgres["POSTGRES_USER"], postgres["POSTGRES_DB"]) == (SUPERUSER, DATABASE)
    clickhouse = services["clickhouse"]["environment"]
    assert (clickhouse["CLICKHOUSE_USER"], clickhouse["CLICKHOUSE_DB"]) == (USER, DATABASE)


def test_kafka_is_configured_as_the_embedded_one(services: dict[str, Any], tmp_path: Path) -> None:
    """Every option of the container is the embedded broker's, apart from addresses, folders and users."""
    broker = Kafka(tmp_path, PREFERRED_PORTS["kafka_port"], PREFERRED_PORTS["kafka_controller_port"], "p")
    (tmp_path / "topics").mkdir()
    (tmp_path / "topics" / "meta.properties").touch()  # formatted already: no Java needed here
    broker.prepare()
    lines = (tmp_path / "server.properties").read_text().splitlines()
    embedded_options = dict(line.split("=", 1) for line in lines)
    places = {"log.dirs", "listeners", "advertised.listeners", "controller.quorum.voters"}
    places |= {"listener.security.protocol.map", "inter.broker.listener.name"}  # the container knows no users
    for name, value in services["kafka"]["environment"].items():
        option = name.removeprefix("KAFKA_").lower().replace("_", ".")
        assert option in embedded_options, option
        assert option in places or embedded_options[option] == value, option
    assert services["kafka"]["image"].rpartition(":")[2] == KAFKA.rpartition(":")[2]


def test_postgres_and_redis_options_are_the_embedded_ones(services: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "postgres"
    folder.mkdir()
    (folder / "PG_VERSION").touch()
    Postgres(folder, 1, "p").prepare()
    configuration = dict(line.split(" = ", 1) for line in (folder / "postgresql.conf").read_text().splitlines())
    given = [part.removeprefix("-c").split("=", 1) for part in services["postgres"]["command"] if part.startswith("-c")]
    for name, value in given:
        assert configuration[name].strip("'") == value, name
    command = services["redis"]["command"]
    assert command[command.index("--maxmemory") + 1] == str(limits.REDIS_MEMORY_BYTES_MAX)
    assert command[command.index("--maxmemory-policy") + 1] == "noeviction"
