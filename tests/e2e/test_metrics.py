"""Metrics: the script for the exporter, the page about it, and the rules under promtool."""

import json
import os
import re
import shlex
import subprocess
import time

import pytest
import redis
import yaml
from support.pages import blocks
from support.prometheus import Exporter, Prometheus
from support.server import ROOT, free_port
from support.wait import until

EXAMPLES = ROOT / "examples" / "metrics"
PAGE = "docs/metrics.md"
SCRIPT = (EXAMPLES / "metrics.lua").read_text()


def collect(server, script=SCRIPT):
    """What the script says: a dictionary, as the exporter sees it."""
    with server.client() as client:
        words = client.execute_command("EVAL", script, 0, 0)
    assert all(isinstance(word, str) for word in words), words
    keys = words[::2]
    assert len(keys) == len(set(keys)), "a key twice"
    return dict(zip(keys, map(float, words[1::2]), strict=True))


def with_setting(name, value):
    """The script with one of its settings changed."""
    script, count = re.subn(rf"^local {name} = .*$", f"local {name} = {value}", SCRIPT, flags=re.M)
    assert count == 1, name
    return script


def queues_in(said):
    """The names of the queues in what the script said."""
    return sorted({key.split(";queue=", 1)[1] for key in said if ";queue=" in key})


# --- the script -----------------------------------------------------------------


def test_the_script_says_what_info_and_stats_say(server):
    with server.client() as client:
        for order in range(3):
            client.execute_command("ORDER.SCHEDULE", "orders", order, "PX", 0)
        [[order, fence, *_]] = client.execute_command("ORDER.CLAIM", "orders", "closer")
        time.sleep(0.03)
        client.execute_command("ORDER.ACK", "orders", order, fence)
    said = collect(server)
    assert said["orderwheel_overdue"] == said["orderwheel_queue_overdue;queue=orders"] == 2
    assert said["orderwheel_acked_total"] == said["orderwheel_queue_acked_total;queue=orders"] == 1
    assert said["orderwheel_primary"] == said["orderwheel_queues_reported"] == 1
    assert [key for key in said if key.startswith("orderwheel_build_info;version=")]
    # Buckets are cumulative, and agree with count and sum.
    buckets = [(key, value) for key, value in said.items() if key.startswith("orderwheel_close_ms_bucket;le=")]
    assert [value for _, value in buckets] == sorted(value for _, value in buckets)
    assert said["orderwheel_close_ms_bucket;le=25"] == 0
    assert said["orderwheel_close_ms_bucket;le=+Inf"] == said["orderwheel_close_ms_count"] == 1
    assert said["orderwheel_close_ms_sum"] == pytest.approx(said["orderwheel_close_ms_max"], abs=0.002)
    # Every field of INFO that is a number is there, and each field asked for of STATS.
    with server.client() as client:
        fields = client.info("orderwheel")
        stats = client.execute_command("ORDER.STATS", "orders")[::2]
    numbers = {name for name, value in fields.items() if isinstance(value, int | float)}
    assert len(numbers) > 60 and numbers <= set(said), numbers - set(said)
    prefix = "orderwheel_queue_"
    asked = {key.split(";")[0].removeprefix(prefix) for key in said if key.startswith(prefix)}
    assert len(asked) > 30 and asked <= set(stats), asked - set(stats)


def test_no_more_queues_are_reported_than_the_settings_say(server):
    with server.client() as client:
        for n in range(25):
            client.execute_command("ORDER.SCHEDULE", f"q{n}", 1, "PX", 600_000)
    said = collect(server)
    assert len(queues_in(said)) == said["orderwheel_queues_reported"] == 16
    assert said["orderwheel_queues"] == 25
    assert len(queues_in(collect(server, with_setting("QUEUES_MAX", 100)))) == 25
    assert queues_in(collect(server, with_setting("QUEUES", "{'q7', 'q9'}"))) == ["q7", "q9"]
    # One that is not there yet is 0, one of another type is left out.
    server.run("SET", "text", "x")
    said = collect(server, with_setting("QUEUES", "{'text', 'soon'}"))
    assert queues_in(said) == ["soon"] and said["orderwheel_queue_orders;queue=soon"] == 0


def test_a_field_that_the_module_lacks_takes_no_other_away(server):
    """Fields of a newer module while an older one runs, or one that was written wrong: all others are there."""
    server.run("ORDER.SCHEDULE", "orders", 1, "PX", 0)
    assert collect(server, SCRIPT.replace("'scheduled', ", "'scheduled', 'of_tomorrow', ", 1)).keys() == (
        collect(server).keys()
    )


def test_the_scan_is_bounded(server):
    with server.client() as client:
        client.execute_command("ORDER.SCHEDULE", "orders", 1, "PX", 600_000)
        client.mset({f"key-{n}": n for n in range(30_000)})
        calls = lambda: client.info("commandstats").get("cmdstat_scan", {"calls": 0})["calls"]  # noqa: E731
        collect(server)
        assert calls() == 4
        collect(server, with_setting("SCAN_CALLS", 2))
        assert calls() == 6
        assert queues_in(collect(server, with_setting("SCAN_CALLS", 100))) == ["orders"]


def test_hostile_names_of_queues_become_labels(server):
    names = {
        "orders:{0}": "orders:{0}",
        'a;b=c"d': 'a;b=c"d',
        "订单": "订单",
        "100%": "100%25",
        "line\nend": "line%0Aend",
        b"\xff\x00": "%FF%00",
        b"\xc0\xaf": "%C0%AF",
        b"\xed\xa0\x80": "%ED%A0%80",
        b"\xe8\xae\xa2\xff": "%E8%AE%A2%FF",
        "": "%",
    }
    with redis.Redis(unix_socket_path=server.socket) as client:
        for name in names:
            client.execute_command("ORDER.SCHEDULE", name, 1, "PX", 600_000)
    assert queues_in(collect(server)) == sorted(names.values())


def test_a_server_without_the_module_says_nothing(serve):
    assert collect(serve(module=None)) == {}


def test_the_script_works_on_replicas_in_a_cluster_and_when_memory_is_full(serve):
    primary = serve("repl-diskless-sync-delay 0", port=True)
    primary.run("ORDER.SCHEDULE", "orders", 1, "PX", 600_000)
    replica = serve(f"replicaof 127.0.0.1 {primary.port}")
    until(lambda: replica.run("DBSIZE") == 1, 30, "the replica has it")
    said = collect(replica)
    assert (said["orderwheel_primary"], said["orderwheel_scheduled"], queues_in(said)) == (0, 1, ["orders"])
    # Cut off from its primary, and told to answer nothing old.
    replica.run("CONFIG", "SET", "replica-serve-stale-data", "no")
    replica.run("REPLICAOF", "127.0.0.1", 1)
    assert collect(replica)["orderwheel_primary"] == 0
    primary.run("CONFIG", "SET", "maxmemory", 1)
    assert collect(primary)["orderwheel_scheduled"] == 1
    node = serve("cluster-enabled yes", f"cluster-port {free_port()}", port=True)
    node.run("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    until(lambda: node.cli("CLUSTER", "INFO").startswith("cluster_state:ok"), 30, "the cluster is well")
    with node.client() as client:
        for n in range(4):
            client.execute_command("ORDER.SCHEDULE", f"orders:{{{n}}}", 1, "PX", 600_000)
    assert len(queues_in(collect(node))) == 4


def test_the_script_writes_nothing(server):
    server.run("ORDER.SCHEDULE", "orders", 1, "PX", 600_000)
    changes = lambda: server.run("INFO", "persistence")["rdb_changes_since_last_save"]  # noqa: E731
    before = changes()
    collect(server)
    assert changes() == before >= 1
    with pytest.raises(redis.ResponseError, match="Write commands are not allowed"):
        collect(server, SCRIPT.replace("local said = {}", "local said = {} redis.call('SET', 'x', 1)"))


# --- the page -------------------------------------------------------------------


def rows_of(heading):
    """The first cells of the tables below a heading of the page: names in backticks."""
    text = (ROOT / PAGE).read_text()
    part = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.M | re.S)[1]
    rows = re.findall(r"^\| (`.*?) \|", part, re.M)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def test_the_page_lists_every_series_that_prometheus_gets(serve, tmp_path):
    server = serve(port=True)
    [user] = blocks(PAGE, "text")
    server.run(*shlex.split(user))
    server.run("ORDER.SCHEDULE", "orders", 1, "PX", 0)
    # As the page has it, but for the places of this test.
    [line] = blocks(PAGE, "sh")
    words = shlex.split(line)
    [file] = blocks(PAGE, "ini")
    settings = dict(line.split("=", 1) for line in file.splitlines())
    program = words.index("prometheus-redis-exporter")
    assert shlex.split(settings.pop("ARGS"))[0].split() == words[program + 1 :], "by hand as in the file"
    assert [f"{name}={value}" for name, value in settings.items()] == words[:program]
    at = words.index("-web.listen-address")
    del words[at : at + 2]
    places = {"redis://127.0.0.1:6379": f"redis://127.0.0.1:{server.port}"}
    places["/etc/orderwheel/metrics.lua"] = str(EXAMPLES / "metrics.lua")
    command = [places.get(word, word) for word in words[program:]]
    assert set(places.values()) <= set(command), command
    exporter = Exporter(tmp_path / "exporter", command, {**os.environ, **settings})
    configuration = yaml.safe_load((EXAMPLES / "prometheus.yml").read_text())
    configuration["global"]["scrape_interval"] = "300ms"
    configuration["global"]["scrape_timeout"] = "300ms"
    del configuration["rule_files"]
    configuration["scrape_configs"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{exporter.port}"]
    prometheus = Prometheus(tmp_path / "prometheus", configuration)
    try:
        until(lambda: prometheus.query("orderwheel_queues_reported"), 30, "a scrape", every=0.1)
        got = prometheus.query('count by (__name__) ({__name__=~"orderwheel_.*"})')
        listed = rows_of("Series of a server") + rows_of("Series of a queue")
        assert len(listed) == len(set(listed)), "a series twice"
        assert set(listed) == {labels["__name__"] for labels, _ in got}
        # Names and labels are as they should be, and nothing of the exporter's form is left.
        assert prometheus.query('{key=~"orderwheel.*"}') == []
        for labels, _ in prometheus.query('{__name__=~"orderwheel_.*"}'):
            name, own = labels["__name__"], set(labels) - {"__name__", "job", "instance"}
            wanted = {"queue"} if name.startswith("orderwheel_queue_") else set()
            wanted |= {"le"} if name.endswith("_bucket") else set()
            wanted |= {"version"} if name == "orderwheel_build_info" else set()
            assert own == wanted, labels
        [(_, p99)] = prometheus.query('orderwheel_lateness_ms_bucket{le="+Inf"}')
        assert p99 == 1
        of_exporter = set(rows_of("Series of the exporter"))
        used = set(re.findall(r"\bredis_\w+", (EXAMPLES / "alerts.yml").read_text()))
        used |= set(re.findall(r"\bredis_\w+", (EXAMPLES / "dashboard.json").read_text()))
        assert used == of_exporter
        # Those of replication are there where there is a replica: test_metrics_faults sees them.
        names = {labels["__name__"] for labels, _ in prometheus.query('{__name__=~"redis_.*"}')}
        assert of_exporter - names <= {"redis_connected_slave_lag_seconds", "redis_master_link_up"}
        # The user may do all that the exporter needs but read the configuration.
        denied = {entry["object"] for entry in server.client().acl_log()}
        assert denied <= {"config|get", "config"}, denied
    finally:
        prometheus.end()
        exporter.end()


def test_the_page_lists_every_setting_of_the_script_and_every_alert():
    settings = re.findall(r"^local ([A-Z_]+) = (.*)$", SCRIPT, re.M)
    text = (ROOT / PAGE).read_text()
    listed = dict(re.findall(r"^\| `([A-Z_]+)` \| ([^|]*?) \|", text, re.M))
    assert set(listed) == {name for name, _ in settings}
    for name, value in settings:
        if value.isdigit():
            assert listed[name] == value
    alerts = {rule["alert"] for rule in rules()}
    assert set(re.findall(r"^\| `(Orderwheel\w+)` \|", text, re.M)) == alerts


# --- the rules ------------------------------------------------------------------


def rules():
    """The rules."""
    [group] = yaml.safe_load((EXAMPLES / "alerts.yml").read_text())["groups"]
    return group["rules"]


def promtool(*words):
    """What promtool says; a fault that it finds fails."""
    done = subprocess.run(["promtool", *words], cwd=EXAMPLES, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_finds_no_fault_in_rules_and_configuration():
    assert f"{len(rules())} rules found" in promtool("check", "rules", "alerts.yml")
    promtool("check", "config", "prometheus.yml")


def test_the_unit_tests_of_the_rules_pass_and_have_each_fire_and_be_silent():
    promtool("test", "rules", "alerts_test.yml")
    tests = yaml.safe_load((EXAMPLES / "alerts_test.yml").read_text())["tests"]
    cases = [case for test in tests for case in test["alert_rule_test"]]
    alerts = {rule["alert"] for rule in rules()}
    assert {case["alertname"] for case in cases if case.get("exp_alerts")} == alerts
    assert {case["alertname"] for case in cases if not case.get("exp_alerts")} == alerts


def anchors(page):
    """What the headings of a page are linked by."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_rule_says_what_is_wrong_and_where_to_read_on():
    for rule in rules():
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}, rule["alert"]
        assert "{{ $labels.instance }}" in rule["annotations"]["summary"], rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), rule["alert"]
        page, anchor = rule["annotations"]["runbook_url"].split("#")
        if page != "docs/runbooks.md":
            assert anchor in anchors(ROOT / page), rule["alert"]


def test_every_runbook_is_there():
    there = anchors(ROOT / "docs/runbooks.md")
    links = {rule["annotations"]["runbook_url"] for rule in rules()}
    lacking = {link for link in links if link.startswith("docs/runbooks.md#") and link.split("#")[1] not in there}
    assert not lacking, lacking


# --- the dashboard --------------------------------------------------------------


def test_the_dashboard_is_in_good_form():
    dashboard = json.loads((EXAMPLES / "dashboard.json").read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, f"{panel['title']} lies on another"
        taken |= cells
        if panel["type"] != "row":
            assert panel["description"] and panel["targets"], panel["title"]
    # What is asked at night stands first, the heat map by the hour is there.
    assert [panel["type"] for panel in panels[:7]] == ["row", *["stat"] * 6]
    [heat] = [panel for panel in panels if panel["type"] == "heatmap"]
    assert heat["targets"][0]["interval"] == "1h" and "close_ms_bucket" in heat["targets"][0]["expr"]
    # Every variable in the queries is defined.
    defined = {variable["name"] for variable in dashboard["templating"]["list"]} | {"__rate_interval"}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(panels))) <= defined
