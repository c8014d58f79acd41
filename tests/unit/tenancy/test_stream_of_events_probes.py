"""The stream of events as the monitor listens to it: for a bounded time, to its own alone, at no place of another's."""

from __future__ import annotations

import http.server
import threading
from typing import TYPE_CHECKING, Any

import pytest

from compose import limits
from compose.isolation.api_connection import ApiConnection
from compose.isolation.canaries import Doors
from compose.isolation.sse_probes import STREAM, sse_probes
from ingress.identity.issuer import KeyFolder
from schemas.errors import Unavailable
from tests.eventually import patient
from tests.unit.tenancy.test_isolation_probes import ONE, TWO

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OWN = f'data: {{"resource_id": "{ONE.resource_id}", "tenant_id": "{ONE.tenant_id}"}}\n\n'


class _Streams(http.server.BaseHTTPRequestHandler):
    """Sends parts of an answer that has no end, or refuses; listens to who leaves."""

    protocol_version = "HTTP/1.1"
    parts: tuple[str, ...] = (OWN,)
    refuses = True
    left = threading.Event()
    asked: list[tuple[str, str | None]] = []  # noqa: RUF012 - of one test each

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers["Last-Event-ID"]))
        is_others = "cursor=0" not in self.path
        if is_others and self.refuses:
            self.send_response(400)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")
            return
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in (f"retry: 1000\n\n{OWN}",) if is_others else self.parts:
            self.wfile.write(f"{len(part.encode()):x}\r\n{part}\r\n".encode())
            self.wfile.flush()
        self.rfile.read(1)  # until it is closed
        self.left.set()
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def doors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Doors]:
    folder = KeyFolder(tmp_path / "keys")
    folder.ensure()
    for name, value in {"parts": (OWN,), "refuses": True, "left": threading.Event(), "asked": []}.items():
        monkeypatch.setattr(_Streams, name, value)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Streams) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        made = Doors(f"http://127.0.0.1:{server.server_port}", folder, b"key")
        made.remembered(("cursor", TWO.tenant_id), lambda: "Theirs")
        yield made
        made.close()
        server.shutdown()


def asked(doors: Doors) -> dict[str, tuple[str | None, bool]]:
    return {found.probe: (found.evidence, found.is_leak) for found in sse_probes(doors, ONE, TWO)}


def test_its_own_events_are_listened_to_and_the_stream_is_left(doors: Doors) -> None:
    clean = dict.fromkeys(("stream", "stream cursor", "stream Last-Event-ID"), (None, False))
    assert asked(doors) == clean
    assert _Streams.asked == [(f"{STREAM}?cursor=0", None), (f"{STREAM}?cursor=Theirs", None), (STREAM, "Theirs")]
    assert _Streams.left.wait(patient(10))


@pytest.mark.parametrize(
    "leak",
    [f"data: {TWO.resource_id}\n\n", f"data: {TWO.marker}\n\n", 'data: {"tenant_id": "tn_c3"}\n\n'],
    ids=["the other's resource", "its marker", "anybody's tenant"],
)
@pytest.mark.parametrize("is_after", [True, False], ids=["after its own", "before"])
def test_what_is_anothers_in_the_stream_is_proof(
    doors: Doors, monkeypatch: pytest.MonkeyPatch, leak: str, is_after: bool
) -> None:
    monkeypatch.setattr(_Streams, "parts", (OWN, leak) if is_after else (leak, OWN))
    found = asked(doors)
    assert found["stream"][1] is True
    assert TWO.marker not in (found["stream"][0] or "")


def test_a_place_of_another_that_is_taken_is_evidence(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Streams, "refuses", False)
    taken = ("another tenant's place was taken: 200", False)
    assert asked(doors) == {"stream": (None, False), "stream cursor": taken, "stream Last-Event-ID": taken}


def test_a_stream_in_which_its_own_does_not_come_was_not_probed(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing, and more than anybody reads: both end."""
    monkeypatch.setattr(limits, "ISOLATION_STREAM_S", 0.3)
    monkeypatch.setattr(limits, "ISOLATION_STREAM_BYTES", 10_000)
    for parts in ((": alive\n\n",), (": alive\n\n" * 5_000, OWN)):
        monkeypatch.setattr(_Streams, "parts", parts)
        with pytest.raises(Unavailable, match="did not come in time"):
            asked(doors)
    with pytest.raises(Unavailable, match="does not answer"):
        ApiConnection("http://127.0.0.1:9", patient(5)).listened(STREAM, until="", headers={})
