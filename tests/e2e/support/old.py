"""The module of release 0.1.0, built from its commit; and saved bytes that say they are newer than this code."""

import fcntl
import os
import subprocess
import tarfile
from pathlib import Path

from .server import ROOT, TARGET

#: The commit that is release 0.1.0.
COMMIT = "6b3360f"
#: Where it is built, once: its sources, and beside them what cargo makes of them.
PLACE = TARGET / f"old-{COMMIT}"


def old_module():
    """The module of release 0.1.0, and None; or None, and why it is not here.

    ORDERWHEEL_OLD_MODULE names one. Else the one that was built before; else it is built if ORDERWHEEL_SLOW is set:
    that takes two and a half minutes of a processor, so continuous integration takes the files of tests/fixtures alone.
    """
    if named := os.environ.get("ORDERWHEEL_OLD_MODULE"):
        return Path(named), None
    module = PLACE / "target" / "release" / "liborderwheel.so"
    if module.exists():
        return module, None
    if not os.environ.get("ORDERWHEEL_SLOW"):
        return None, f"no module of {COMMIT}: name it in ORDERWHEEL_OLD_MODULE, or have it built: ORDERWHEEL_SLOW=1"
    there = subprocess.run(["git", "cat-file", "-e", f"{COMMIT}^{{commit}}"], cwd=ROOT, capture_output=True, check=False)
    if there.returncode:
        return None, f"the history does not reach back to {COMMIT}: fetch it all (git fetch --unshallow)"
    build(module)
    return module, None


def build(module):
    """Builds it. A build that breaks off leaves no module, and is begun again the next time."""
    PLACE.mkdir(parents=True, exist_ok=True)
    with (PLACE / "lock").open("w") as lock:
        # Tests run beside each other: one builds, the others wait for it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if module.exists():
            return
        archive = PLACE / "sources.tar"
        subprocess.run(["git", "archive", "-o", archive, COMMIT], cwd=ROOT, check=True)
        with tarfile.open(archive) as sources:
            sources.extractall(PLACE / "sources", filter="data")
        subprocess.run(["cargo", "build", "--release", "--locked", "--lib", "--quiet"], cwd=PLACE / "sources",
                       env={**os.environ, "CARGO_TARGET_DIR": str(PLACE / "target")}, timeout=1500, check=True)


def crc64(data):
    """The checksum at the end of RDB files and DUMP payloads (CRC-64 of Jones, as the server computes it)."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x95AC9329AC4BC9B5 if crc & 1 else 0)
    return crc


def newer(data, by=1):
    """An RDB file, or a DUMP payload, whose queues say that a later version saved them; the checksum is right.

    A queue is the type's id (9 bytes: 0x81 and the name), the mark of a number (2), and the version.
    """
    body, begin = bytearray(data[:-8]), 0
    mark = b"\x02\x02"
    found = 0
    while (at := body.find(mark, begin)) >= 0:
        if at >= 9 and body[at - 9] == 0x81:
            body[at + 1] += by
            found += 1
        begin = at + 1
    assert found, "a queue"
    return bytes(body) + crc64(body).to_bytes(8, "little")
