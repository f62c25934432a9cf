"""A certificate of the test's own for 127.0.0.1, with the authority that signed it."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class Certificate:
    """Files, and the lines of redis.conf that name them."""

    folder: Path

    @property
    def authority(self):
        return self.folder / "ca.crt"

    @property
    def certificate(self):
        return self.folder / "own.crt"

    @property
    def key(self):
        return self.folder / "own.key"

    @property
    def lines(self):
        return [f"tls-cert-file {self.certificate}", f"tls-key-file {self.key}", f"tls-ca-cert-file {self.authority}"]


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """Made once: an authority, and a certificate for 127.0.0.1 that it signed."""
    one = Certificate(tmp_path_factory.mktemp("tls"))
    folder = one.folder
    openssl(
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        2,
        "-subj",
        "/CN=authority",
        "-addext",
        "keyUsage=critical,keyCertSign,cRLSign",
        "-keyout",
        folder / "ca.key",
        "-out",
        one.authority,
    )
    openssl(
        "req",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-subj",
        "/CN=127.0.0.1",
        "-keyout",
        one.key,
        "-out",
        folder / "own.csr",
    )
    (folder / "ext").write_text("subjectAltName=IP:127.0.0.1\n")
    openssl(
        "x509",
        "-req",
        "-in",
        folder / "own.csr",
        "-CA",
        one.authority,
        "-CAkey",
        folder / "ca.key",
        "-CAcreateserial",
        "-days",
        2,
        "-extfile",
        folder / "ext",
        "-out",
        one.certificate,
    )
    return one
