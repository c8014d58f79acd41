"""The services of this ingress: for each that is declared, its class in ``ingress.<name>.service``."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from ingress.console.declared import ConsolePages
from ingress.http_service import HttpService
from schemas import services


def _of(name: str) -> type[HttpService]:
    found: type[HttpService] = import_module(services.BY_NAME[name].module("ingress")).HTTP
    return found


HTTP_SERVICES: Final[tuple[type[HttpService], ...]] = tuple(_of(service.name) for service in services.SERVICES)
#: the pages that they bring to the console
CONSOLE_PAGES: Final[tuple[ConsolePages, ...]] = tuple(service.console for service in HTTP_SERVICES if service.console)
