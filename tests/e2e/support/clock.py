"""A clock that a test can set while a server runs: the library of tests/server, loaded before the others."""

import os
import re
import subprocess
import time

from .server import PROGRAM, ROOT


class Clock:
    """A wall clock that goes by the machine's, and ahead of it by what a test says."""

    def __init__(self, folder):
        source = (ROOT / "tests/server/support/clock.rs").read_text()
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "clock.c").write_text(re.search(r'const SHIM: &str = r#"(.*?)"#;', source, re.S).group(1))
        done = subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", "clock.so", "clock.c", "-ldl"], cwd=folder,
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        self.file = folder / "ahead"
        self.file.write_bytes(bytes(16))
        #: The server's program, under this clock.
        self.program = str(folder / "under-the-clock")
        (folder / "under-the-clock").write_text(
            f"#!/bin/sh\nexport LD_PRELOAD={folder}/clock.so ORDERWHEEL_TEST_CLOCK={self.file}\n"
            f"exec {PROGRAM} \"$@\"\n")
        os.chmod(self.program, 0o755)

    def ahead(self, seconds):
        """Sets it this far ahead of the machine's."""
        with self.file.open("r+b") as file:
            file.write(int(seconds * 1_000_000).to_bytes(8, "little", signed=True))

    def rules(self, server):
        """Whether a server goes by it: Valkey from 8.1 on does not, or not in all that it does. Redis must."""
        def steps():
            return int(server.cli("INFO", "orderwheel").split("orderwheel_clock_steps_total:")[1].split()[0])

        def told(more_than):
            end = time.monotonic() + 3
            while steps() <= more_than and time.monotonic() < end:
                time.sleep(0.02)
            return steps() > more_than

        before = steps()
        self.ahead(1000)
        sees = told(before) and server.run("TIME")[0] - time.time() > 500
        self.ahead(0)
        sees = sees and told(before + 1)
        assert sees or "valkey_version" in server.cli("INFO", "server"), "a Redis that does not see the clock"
        return sees
