"""The real Prometheus and the real exporter, each in a folder of its own, ended by its pid."""

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import yaml

from .server import free_port
from .wait import until


class Program:
    """A program that serves HTTP on a port of its own."""

    def __init__(self, folder, words, ready, environment=None):
        """`words` is the command, `ready` the path that answers 200 once it works."""
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = self.folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [str(word) for word in words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )
        until(lambda: self.process.poll() is not None or self.answers(ready), 30, f"{words[0]} answers", every=0.05)
        assert self.process.poll() is None, self.log.read_text(errors="replace")[-3000:]

    def get(self, path):
        """The text of a page."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
            return answer.read().decode()

    def answers(self, path):
        """Whether there is such a page."""
        try:
            return self.get(path) is not None
        except OSError:
            return False

    def end(self):
        """Ends it."""
        self.process.terminate()
        self.process.wait(30)


class Exporter(Program):
    """prometheus-redis-exporter. `/metrics` is of `address`, `/scrape?target=…` of any server."""

    def __init__(self, folder, words, environment=None):
        """`words` is the command without the address to listen on."""
        self.port = free_port()
        words = [*words, "-web.listen-address", f"127.0.0.1:{self.port}"]
        super().__init__(folder, words, "/health", environment)


class Prometheus(Program):
    """A Prometheus with this configuration, a dictionary."""

    def __init__(self, folder, configuration):
        self.port = free_port()
        folder = Path(folder)
        folder.mkdir(parents=True)
        file = folder / "prometheus.yml"
        file.write_text(yaml.safe_dump(configuration))
        words = ["prometheus", f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}", "--log.level=warn"]
        super().__init__(folder, [*words, f"--web.listen-address=127.0.0.1:{self.port}"], "/-/ready")

    def query(self, expression):
        """What an expression is now: a list of labels and value. An error fails."""
        try:
            text = self.get("/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{expression}: {error.read().decode()}") from error
        answer = json.loads(text)
        assert answer["status"] == "success", (expression, answer)
        return [(row["metric"], float(row["value"][1])) for row in answer["data"]["result"]]
