"""A clean Debian 12 in a folder, by debootstrap: what a package or an image meets that is not on this machine."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from .server import TARGET

ENVIRONMENT = ("/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
               "DEBIAN_FRONTEND=noninteractive")


def run(*words, timeout=900, **options):
    """Runs a program, which must succeed. What it printed."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=timeout, check=False,
                          **options)
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


class Debian:
    """A root folder, and what is run in it."""

    def __init__(self, root, *packages):
        """Packed once per set of packages, below target/: a debootstrap takes a minute."""
        if os.geteuid() != 0 or not shutil.which("debootstrap"):
            pytest.skip("debootstrap needs root")
        self.root = Path(root)
        packed = TARGET / ("-".join(("debian-12-bare", *packages)) + ".tar")
        if packed.exists():
            self.root.mkdir()
            run("tar", "-C", self.root, "-xf", packed)
            return
        if packages:
            Debian(root)
            self.lets_in()
            self.shell(f"apt-get -q update && apt-get -q install -y --no-install-recommends {' '.join(packages)} && "
                       "apt-get clean")
        else:
            sources = run("apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)",
                          "Created-By: Packages")
            mirror = next(line.split()[0] for line in sources.splitlines() if line.endswith(" bookworm main"))
            run("debootstrap", "--variant=minbase", "bookworm", self.root, mirror)
        run("tar", "-C", self.root, "-cf", f"{packed}.part", ".")
        os.rename(f"{packed}.part", packed)

    def lets_in(self):
        """Names are resolved as on this machine."""
        shutil.copy("/etc/resolv.conf", self.root / "etc/resolv.conf")

    def words(self, *words, user="root", at="/"):
        """The words that run a program in it: as that user, in that folder."""
        return [str(word) for word in ("chroot", f"--userspec={user}", self.root, *ENVIRONMENT,
                                       "/bin/sh", "-ec", 'cd "$0" && exec "$@"', at, *words)]

    def shell(self, script, **where):
        """Runs a line of shell, which must succeed, as an image does: with sh."""
        return run(*self.words("/bin/sh", "-ec", script, **where))

    def ask(self, *words):
        """What redis-cli in it answers on the socket /run/s."""
        return subprocess.run(self.words("redis-cli", "-s", "/run/s", *words), capture_output=True, text=True,
                              check=False).stdout
