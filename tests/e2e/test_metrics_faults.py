"""Each alert rule fires on a provoked fault and on no other, and falls silent; the dashboard's queries answer.

One Prometheus and one exporter watch a server for each fault, and two on which all is well. The rules are those of
examples/metrics/alerts.yml with every duration, of `for` and of windows, a thirtieth of what it says: minutes would
be too long for a test. Their limits are as they are.
"""

import json
import re
import threading
import traceback

import pytest
import yaml
from support.faults import FAULTS
from support.prometheus import Exporter, Prometheus
from support.server import MODULE, ROOT, Server
from support.wait import until

EXAMPLES = ROOT / "examples" / "metrics"
#: By how much the durations of the rules are shortened.
FASTER = 30
UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000}

pytestmark = pytest.mark.timeout(300)


def faster(rules):
    """The text of rules with all durations shortened."""
    def shorter(match):
        before, count, unit, after = match.groups()
        return f"{before}{int(count) * UNITS[unit] // FASTER}ms{after}"

    shortened, windows = re.subn(r"(\[)(\d+)([smh])(\])", shorter, rules)
    shortened, waits = re.subn(r"(for: )(\d+)([smh])($)", shorter, shortened, flags=re.M)
    assert windows > 20 and waits > 10, (windows, waits)
    return shortened


class World:
    """The servers, and who watches them."""

    def __init__(self, folder):
        self.folder = folder
        self.servers = {}
        self.trouble = []
        self.ended = threading.Event()
        self.mended = False
        # Held while a fault is kept up.
        self.at_work = threading.Lock()
        self.threads = []

    def serve(self, name, *lines, **options):
        """Starts a server."""
        server = Server(self.folder / name, *lines, port=True, **options)
        server.good_module = MODULE
        self.servers[name] = server
        return server.start()

    def run(self, function, *arguments, every=0.0):
        """Calls a function over and over in a thread of its own; what it raises fails the test."""
        def over_and_over():
            while not self.ended.wait(every):
                try:
                    function(*arguments)
                except Exception:  # of any kind: told at the end
                    self.trouble.append(traceback.format_exc())
                    return

        thread = threading.Thread(target=over_and_over)
        thread.start()
        self.threads.append(thread)

    def start(self):
        """Starts everything; all is well yet."""
        lines = ("repl-diskless-sync-delay 0", "repl-ping-replica-period 1")
        well = self.serve("well", *lines)
        self.serve("well-too", f"replicaof 127.0.0.1 {well.port}")
        for fault in FAULTS:
            options = {} if fault.module else {"module": None}
            self.serve(fault.name, *lines, *fault.lines, **options)
        behind = self.servers["behind"]
        behind.replica = self.serve("stopped", f"replicaof 127.0.0.1 {behind.port}")
        words = ["prometheus-redis-exporter", "-script", EXAMPLES / "metrics.lua"]
        self.exporter = Exporter(self.folder / "exporter", words)
        rules = self.folder / "alerts.yml"
        rules.write_text(faster((EXAMPLES / "alerts.yml").read_text()))
        configuration = yaml.safe_load((EXAMPLES / "prometheus.yml").read_text())
        for setting in ("scrape_interval", "scrape_timeout", "evaluation_interval"):
            configuration["global"][setting] = "500ms"
        configuration["rule_files"] = [str(rules)]
        job = configuration["scrape_configs"][0]
        job["metrics_path"] = "/scrape"
        job["static_configs"] = [
            {"targets": [f"redis://127.0.0.1:{server.port}"], "labels": {"instance": name}}
            for name, server in self.servers.items()
            # It will not answer: its primary tells of it.
            if name != "stopped"
        ]
        job["relabel_configs"] = [
            {"source_labels": ["__address__"], "target_label": "__param_target"},
            {"target_label": "__address__", "replacement": f"127.0.0.1:{self.exporter.port}"},
        ]
        self.prometheus = Prometheus(self.folder / "prometheus", configuration)
        for name in ("well-too", "stopped"):
            replica = self.servers[name]
            until(lambda: replica.run("INFO", "replication")["master_link_status"] == "up", 60, f"{name} follows")
        # Twice, so that counters are seen to grow.
        count = len(self.servers) - 1
        seen = lambda: len(self.prometheus.query("count_over_time(redis_up[1m]) >= 2")) == count  # noqa: E731
        until(seen, 60, "all servers are read", every=0.2)
        self.run(self.close, well)
        self.run(self.trade, well, every=0.05)

    def trade(self, server):
        """What a shop does on a server on which all is well."""
        with server.client() as client:
            row = client.execute_command("ORDER.LOCK", "orders", "locked", "shop", "PX", 60_000)
            client.execute_command("ORDER.UNLOCK", "orders", "locked", row[1])
            # A closer waits for it: it has it within this command.
            client.execute_command("ORDER.SCHEDULE", "orders", "due", "PX", 0, "UPSERT")
            client.execute_command("ORDER.SCHEDULE", "orders", "later", "PX", 600_000, "UPSERT")
            client.execute_command("ORDER.FINISH", "orders", "later", "STATUS", "paid", "KEEP", 0)

    def close(self, server):
        """What a closer does there."""
        with server.client() as client:
            while not self.ended.is_set():
                rows = client.execute_command("ORDER.CLAIM", "orders", "closer", "COUNT", 10, "BLOCK", 500)
                for order, fence, *_ in rows:
                    client.execute_command("ORDER.ACK", "orders", order, fence, "KEEP", 0)

    def break_all(self):
        """Makes all faults."""
        for fault in FAULTS:
            fault.start(self.servers[fault.name])
        self.run(self.again, every=0.25)

    def again(self):
        """What keeps the faults up."""
        for fault in FAULTS:
            with self.at_work:
                if not self.mended:
                    fault.again(self.servers[fault.name])

    def mend_all(self):
        """Ends all faults."""
        with self.at_work:
            self.mended = True
        for fault in FAULTS:
            fault.mend(self.servers[fault.name])

    def firing(self):
        """The alerts that fire now: pairs of server and alert."""
        rows = self.prometheus.query('ALERTS{alertstate="firing"}')
        return {(labels["instance"], labels["alertname"]) for labels, _ in rows}

    def fired(self):
        """Those that fired at any time."""
        rows = self.prometheus.query('count_over_time(ALERTS{alertstate="firing"}[1h])')
        return {(labels["instance"], labels["alertname"]) for labels, _ in rows}

    def end(self):
        """Ends everything, and says what went wrong."""
        self.ended.set()
        for thread in self.threads:
            thread.join(60)
        for program in ("prometheus", "exporter"):
            if hasattr(self, program):
                getattr(self, program).end()
        faults = [fault for server in self.servers.values() if (fault := server.end())]
        assert not faults and not self.trouble, "\n".join(faults + self.trouble)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Servers with all faults, watched."""
    world = World(tmp_path_factory.mktemp("world"))
    try:
        world.start()
        assert world.fired() <= {("bare", "OrderwheelModuleGone")}, "before anything is wrong"
        world.break_all()
        yield world
    finally:
        world.end()


#: What must fire.
EXPECTED = {(fault.name, alert) for fault in FAULTS for alert in fault.alerts}
#: What may.
ALLOWED = EXPECTED | {(fault.name, alert) for fault in FAULTS for alert in fault.also}


def test_every_rule_has_a_fault():
    rules = yaml.safe_load((EXAMPLES / "alerts.yml").read_text())["groups"][0]["rules"]
    assert {rule["alert"] for rule in rules} == {alert for _, alert in EXPECTED}


def wait_for_all(world):
    """Waits until every rule fires on its fault."""
    fire = lambda: world.trouble or EXPECTED <= world.fired()  # noqa: E731
    try:
        until(fire, 100, "all rules fire", every=0.5)
    except AssertionError as error:
        raise AssertionError(f"silent: {sorted(EXPECTED - world.fired())}") from error
    assert not world.trouble, world.trouble


def test_each_rule_fires_on_its_fault_and_on_no_other(world):
    wait_for_all(world)
    assert world.fired() <= ALLOWED, sorted(world.fired() - ALLOWED)


def dashboard():
    """Every query of the dashboard: title of the panel, and the query."""
    panels = json.loads((EXAMPLES / "dashboard.json").read_text())["panels"]
    return [(panel["title"], target["expr"]) for panel in panels for target in panel.get("targets", [])]


def test_every_query_of_the_dashboard_answers_data(world):
    wait_for_all(world)
    queries = dashboard()
    assert len(queries) > 20, queries
    # A panel about replicas is empty only where there is none.
    empty = []
    for title, query in queries:
        for name, value in {"$__rate_interval": "10s", "$instance": ".*", "$job": "orderwheel"}.items():
            query = query.replace(name, value)
        assert "$" not in query, query
        rows = world.prometheus.query(query)
        if not [value for _, value in rows if value == value]:
            empty.append(f"{title}: {query}")
    assert not empty, "\n".join(empty)


def test_each_rule_falls_silent_when_its_fault_is_mended(world):
    wait_for_all(world)
    world.mend_all()
    silent = lambda: world.trouble or not world.firing()  # noqa: E731
    try:
        until(silent, 100, "all rules are silent", every=0.5)
    except AssertionError as error:
        raise AssertionError(f"still firing: {sorted(world.firing())}") from error
    assert not world.trouble, world.trouble
    assert world.fired() <= ALLOWED, sorted(world.fired() - ALLOWED)
