"""Somebody at a shell: the stack as an operator starts, watches and stops it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from compose.settings.settings import Settings
from compose.settings.unknown_variables import PREFIX
from compose.stack.home import Home
from compose.stack.processes import ProcessId, marked
from compose.supervise.state import StackState, read_state
from tests.eventually import patient

MILLRACE = str(Path(sys.executable).with_name("millrace"))


@dataclass
class Operator:
    """Somebody at a shell with a home folder, and what is set there besides."""

    home: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings) -> Operator:
        """At a shell where these settings are."""
        return cls(settings.the_home().path, settings.environment())

    def environment(self, settings: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        return clean | {"MILLRACE_HOME": str(self.home)} | self.variables | settings

    def run(self, *words: str, settings: Mapping[str, str] = MappingProxyType({})) -> subprocess.CompletedProcess[str]:
        command = [MILLRACE, *words]
        environment = self.environment(settings)
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=patient(150)
        )

    def up(self, settings: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
        done = self.run("up", "--detach", "--json", "--servers-only", settings=settings)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def state(self) -> StackState:
        state = read_state(Home(self.home))
        assert state is not None
        return state

    def process(self, name: str) -> ProcessId:
        return next(entry.process for entry in self.state().processes if entry.name == name and entry.process)

    def settings(self) -> Settings:
        return Settings(home=self.home)

    def assert_nothing_left(self) -> None:
        state = read_state(Home(self.home))
        assert state is None or (alive(state), marked(state.stack_id)) == ([], [])


def alive(state: StackState) -> list[str]:
    return [entry.name for entry in state.processes if entry.process and entry.process.alive()]


def pids(world: dict[str, Any]) -> dict[str, int]:
    return {entry["name"]: entry["pid"] for entry in world["services"]}
