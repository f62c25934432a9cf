"""A clock that a test can set while a server runs: the library of tests/server, loaded before the others."""

import os
import re
import subprocess
import time

from .server import PROGRAM, ROOT
from .wait import until


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
        """Fails unless the server and the module in it go by this clock."""
        def steps():
            return int(server.cli("INFO", "orderwheel").split("orderwheel_clock_steps_total:")[1].split()[0])

        before = steps()
        self.ahead(1000)
        until(lambda: steps() > before, 20, "the module sees the step")
        assert server.run("TIME")[0] - time.time() > 500, "the server sees it"
        self.ahead(0)
        until(lambda: steps() > before + 1, 20, "the module sees the step back")
