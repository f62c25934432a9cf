"""PostgreSQL and MariaDB of the test's own, each in a folder of its own on a socket file, ended by pid.

`postgres` refuses root, so as root it runs as the user that its package made; so does `mariadbd`.
"""

import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from .wait import until

ROOT = Path(__file__).resolve().parents[3]


def program(name):
    """A database's program: from PATH, or where Debian keeps those of PostgreSQL."""
    found = shutil.which(name) or next(iter(sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), reverse=True)), None)
    found = found or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    assert found, f"{name} is not here: scripts/setup.sh --tests installs it"
    return found


def family(pid):
    """A process and all below it, while they live."""
    found = [pid]
    for known in found:
        try:
            tasks = Path(f"/proc/{known}/task/{known}/children").read_text()
        except OSError:
            continue
        found += [int(child) for child in tasks.split()]
    return found


class Database:
    """One server with the schema of the example shop. `start` waits until it answers."""

    user = ""

    def __init__(self):
        # Not below pytest's folder, which only its own user may enter; short, for the socket's path.
        self.folder = Path(tempfile.mkdtemp(prefix="orderwheel-db-"))
        self.process = None
        self.made = False

    def as_user(self, *words):
        """The words of a command that runs as the database's own user if we are root."""
        if os.getuid() != 0:
            return list(words)
        group = str(pwd.getpwnam(self.user).pw_gid)
        return ["setpriv", f"--reuid={self.user}", f"--regid={group}", "--clear-groups", *words]

    def run(self, *words):
        """One program of the database's user, with its end."""
        done = subprocess.run(self.as_user(*words), cwd=self.folder, capture_output=True, text=True, timeout=120,
                              check=False)
        assert done.returncode == 0, f"{words[0]}: {done.stdout[-2000:]}{done.stderr[-2000:]}"

    def make(self):
        """Makes the empty database."""
        raise NotImplementedError

    def words(self):
        """The server's command."""
        raise NotImplementedError

    def sql(self, text, database="shop"):
        """Runs SQL with the database's own client; rows of texts."""
        done = subprocess.run(self.client(database), input=text, capture_output=True, text=True, timeout=60,
                              check=False)
        assert done.returncode == 0, f"{text[:200]}: {done.stderr[-2000:]}"
        return [line.split("\t") for line in done.stdout.splitlines()]

    def answers(self):
        """Whether it answers a query."""
        try:
            return self.sql("SELECT 1", self.system) == [["1"]]
        except (AssertionError, subprocess.TimeoutExpired):
            return False

    def start(self):
        """Starts it, again if it was started before."""
        if not self.made:
            if os.getuid() == 0:
                shutil.chown(self.folder, self.user)
            self.folder.chmod(0o755)
            self.make()
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.as_user(*self.words()), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until(lambda: self.process.poll() is not None or self.answers(), 60, f"{self.words()[0]} answers", every=0.05)
        assert self.process.poll() is None, (self.folder / "log").read_text(errors="replace")[-3000:]
        if not self.made:
            self.sql("CREATE DATABASE shop", self.system)
            self.made = True
        return self

    def fresh(self):
        """An empty shop."""
        self.sql("DROP TABLE IF EXISTS outbox; DROP TABLE IF EXISTS orders; DROP TABLE IF EXISTS stock;")
        self.sql((ROOT / f"examples/shop/schema.{self.name}.sql").read_text())

    def signal(self, number):
        """A signal to it and all its processes."""
        for pid in family(self.process.pid):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def kill(self):
        """SIGKILL to all its processes, as a machine that fails. `start` starts it again on what is on disk."""
        self.signal(signal.SIGKILL)
        self.process.wait(30)

    def end(self):
        """Ends it and removes its folder."""
        if self.process is not None and self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class PostgreSQL(Database):
    """PostgreSQL, without a port."""

    name, user, system = "postgresql", "postgres", "postgres"

    def make(self):
        self.run(program("initdb"), "-D", "data", "-U", "shop", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")

    def words(self):
        # Only processes are killed here, never the machine: what was written is in the page cache.
        return [program("postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder), "-h", "",
                "-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "max_connections=200"]

    def client(self, database):
        return [program("psql"), "-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1",
                "-h", str(self.folder), "-U", "shop", "-d", database]

    def environment(self, language):
        """What the example's programs read."""
        if language == "php":
            return {"SHOP_DSN": f"pgsql:host={self.folder};dbname=shop", "SHOP_USER": "shop"}
        return {"SHOP_DSN": f"postgres:///shop?host={self.folder}&user=shop&sslmode=disable&connect_timeout=3"}


class MariaDB(Database):
    """MariaDB, without a port."""

    name, user, system = "mariadb", "mysql", "mysql"

    def make(self):
        self.run(program("mariadb-install-db"), "--no-defaults", f"--datadir={self.folder}/data",
                 "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve")

    def words(self):
        return [program("mariadbd"), "--no-defaults", f"--datadir={self.folder}/data", f"--socket={self.folder}/s",
                f"--pid-file={self.folder}/pid", "--skip-networking", "--innodb-flush-log-at-trx-commit=2",
                "--innodb-buffer-pool-size=32M", "--max-connections=200"]

    def client(self, database):
        return [program("mariadb"), "--no-defaults", "-N", "-B", "-u", "root", f"--socket={self.folder}/s", database]

    def environment(self, language):
        """What the example's programs read."""
        if language == "php":
            return {"SHOP_DSN": f"mysql:unix_socket={self.folder}/s;dbname=shop", "SHOP_USER": "root"}
        return {"SHOP_DSN": f"root@unix({self.folder}/s)/shop"}


KINDS = {"postgresql": PostgreSQL, "mariadb": MariaDB}
