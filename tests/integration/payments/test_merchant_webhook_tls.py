"""TLS to a judged address: the certificate must be the host's, though the connection goes to an address."""

from __future__ import annotations

import datetime as dt
import ssl
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dataflows.payments.merchant_webhooks.sender import Answer, Sender

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "shop.example.com"
SECRET = "whsec_" + "A" * 44
NOW = 1_800_000_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[int, Path, list[str]]]:
    """An https server with a certificate for NAME: its port, the certificate, and the hosts that it was asked for."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    hosts: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            hosts.append(self.headers["Host"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    found = HTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, private)
    found.socket = context.wrap_socket(found.socket, server_side=True)
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield found.server_port, certificate, hosts
    found.shutdown()
    found.server_close()
    thread.join()


def test_the_certificate_is_checked_against_the_name(server: tuple[int, Path, list[str]]) -> None:
    port, certificate, hosts = server
    trusting = ssl.create_default_context(cafile=str(certificate))
    sender = Sender(loopback=True, resolver=lambda _host, _port: ["127.0.0.1"], tls=trusting)
    assert sender.send(f"https://{NAME}:{port}/", "evt_1", b"{}", [SECRET], NOW) == Answer(204)
    assert hosts == [f"{NAME}:{port}"]
    other = sender.send(f"https://other.example.com:{port}/", "evt_1", b"{}", [SECRET], NOW)
    assert other == Answer(None, "tls_failed")
    untrusting = Sender(loopback=True, resolver=lambda _host, _port: ["127.0.0.1"])
    assert untrusting.send(f"https://{NAME}:{port}/", "evt_1", b"{}", [SECRET], NOW) == Answer(None, "tls_failed")
    assert len(hosts) == 1
