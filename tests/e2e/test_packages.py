"""Packages: built twice the same, clean to lintian, installed into a clean Debian and run there; Docker, Kubernetes."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from support.pages import ROOT, blocks
from support.server import MODULE, TARGET
from support.wait import until


def run(*words, timeout=900, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=timeout, check=False, **options)
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """What scripts/package.sh makes, twice."""
    folders = [tmp_path_factory.mktemp("packages") for _ in range(2)]
    for folder in folders:
        run("scripts/package.sh", folder, cwd=ROOT)
    return folders


@pytest.fixture(scope="module")
def deb(packages):
    return next(packages[0].glob("*.deb"))


@pytest.mark.timeout(1200)
def test_packages_are_the_same_when_built_twice(packages):
    one, other = ((folder / "SHA256SUMS").read_text() for folder in packages)
    assert one == other and len(one.splitlines()) == 2
    run("sha256sum", "--check", "SHA256SUMS", cwd=packages[1])


def test_lintian_finds_no_error(deb):
    run("lintian", "--fail-on", "error", "--allow-root", deb)


def test_no_path_of_this_machine_is_in_the_module(deb, tmp_path):
    run("dpkg-deb", "-x", deb, tmp_path)
    module = (tmp_path / "usr/lib/orderwheel/liborderwheel.so").read_bytes()
    for place in (ROOT, Path.home()):
        assert str(place).encode() + b"/" not in module, place


def test_the_licence_of_everything_that_is_linked_in_is_named(deb, tmp_path):
    run("dpkg-deb", "-x", deb, tmp_path)
    doc = tmp_path / "usr/share/doc/orderwheel"
    text = (doc / "copyright").read_text()
    for crate in ("redis-module", "serde", "bincode", "libc"):
        (line,) = re.findall(rf"^ {crate}-[\d.]+: (.+);", text, re.M)
        assert re.search("MIT|Apache|BSD", line), line
    assert "bindgen" not in text, "what runs in the build only is not linked in"
    assert len(list((doc / "licenses").iterdir())) > 4


def glibc_of(module):
    """The newest version of glibc that a module asks for."""
    said = run("objdump", "-T", module)
    return max(tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_([\d.]+)", said))


def test_the_page_says_which_glibc_it_needs():
    page = (ROOT / "docs/packages.md").read_text()
    said = tuple(map(int, re.search(r"glibc ([\d.]+) or newer", page).group(1).split(".")))
    if "bookworm" in Path("/etc/os-release").read_text():
        assert glibc_of(MODULE) <= said
    run("dpkg-deb", "--version")


@pytest.mark.timeout(900)
def test_the_package_runs_in_a_clean_debian(deb, tmp_path):
    """A Debian 12 by debootstrap; the commands of the page; a server that closes an order."""
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        pytest.skip("debootstrap needs root")
    base = TARGET / "debian-12.tar"
    root = tmp_path / "root"
    if not base.exists():
        targets = run("apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)", "Created-By: Packages")
        mirror = next(line.split()[0] for line in targets.splitlines() if line.endswith(" bookworm main"))
        run("debootstrap", "--variant=minbase", "--include=redis-server", "bookworm", root, mirror)
        run("tar", "-C", root, "-cf", f"{base}.part", ".")
        os.rename(f"{base}.part", base)
    else:
        root.mkdir()
        run("tar", "-C", root, "-xf", base)
    shutil.copy(deb, root / "root")
    inside = ("chroot", root, "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "bash", "-ec")
    run(*inside, "cd /root\n" + blocks("docs/packages.md", "sh", "Debian and Ubuntu")[0])
    assert "loadmodule /usr/lib/orderwheel" in (root / "etc/redis/redis.conf").read_text()
    server = subprocess.Popen(
        [*map(str, inside), "exec redis-server /etc/redis/redis.conf --daemonize no --port 0 --unixsocket /run/s --logfile /run/log"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        ask = lambda *words: subprocess.run(
            ["chroot", str(root), "/usr/bin/redis-cli", "-s", "/run/s", *words], capture_output=True, text=True, check=False).stdout
        until(lambda: ask("PING") == "PONG\n", 30, "the server answers")
        assert ask("ORDER.SCHEDULE", "orders", "1001", "PX", "0", "STATUS", "unpaid").startswith("OK")
        assert ask("ORDER.CLAIM", "orders", "closer").startswith("1001")
    finally:
        server.terminate()
        server.wait(30)
    # And gone again.
    run(*inside, "dpkg -r orderwheel && ! test -e /usr/lib/orderwheel/liborderwheel.so")


def test_the_commands_of_the_dockerfile_are_those_that_build_it():
    """No image can be built without an engine: its lines are held against what the tests run."""
    text = (ROOT / "examples/docker/Dockerfile").read_text()
    builds = [line for line in re.findall(r"^RUN (.+)$", text, re.M) if line.startswith("cargo")]
    assert builds == ["cargo build --release --locked --lib"]
    run("bash", "-ec", builds[0] + " --quiet", cwd=ROOT)
    for package in re.findall(r"--no-install-recommends ([\w-]+)", text):
        assert re.search(rf"\b{package}\b", (ROOT / "scripts/setup.sh").read_text()), package
    # The command that starts the server starts one.
    words = re.search(r'^CMD \[(.+)\]$', text, re.M).group(1)
    assert "/usr/lib/orderwheel/liborderwheel.so" in words and "noeviction" in words


def test_the_server_of_the_dockerfile_starts(tmp_path):
    words = re.findall(r'"([^"]+)"', re.search(r'^CMD \[(.+)\]$', (ROOT / "examples/docker/Dockerfile").read_text(), re.M).group(1))
    words = [str(MODULE) if word.startswith("/usr/lib") else word for word in words]
    words[words.index("0.0.0.0")] = "127.0.0.1"
    server = subprocess.Popen([*words, "--port", "0", "--unixsocket", str(tmp_path / "s"), "--dir", str(tmp_path)],
                              stdout=subprocess.DEVNULL)
    try:
        ask = lambda *words: subprocess.run(
            ["redis-cli", "-s", str(tmp_path / "s"), *words], capture_output=True, text=True, check=False).stdout
        until(lambda: ask("PING") == "PONG\n", 30, "the server answers")
        # The probes of examples/kubernetes, as they stand there.
        _, _, stateful = yaml.safe_load_all((ROOT / "examples/kubernetes/orderwheel.yaml").read_text())
        (container,) = stateful["spec"]["template"]["spec"]["containers"]
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            shell, option, command = container[probe]["exec"]["command"]
            run(shell, option, command.replace("redis-cli", f"redis-cli -s {tmp_path / 's'}"))
    finally:
        server.terminate()
        server.wait(30)


def test_the_objects_of_kubernetes_fit_together():
    service, budget, stateful = yaml.safe_load_all((ROOT / "examples/kubernetes/orderwheel.yaml").read_text())
    assert [part["kind"] for part in (service, budget, stateful)] == ["Service", "PodDisruptionBudget", "StatefulSet"]
    labels = stateful["spec"]["template"]["metadata"]["labels"]
    assert labels == stateful["spec"]["selector"]["matchLabels"] == budget["spec"]["selector"]["matchLabels"]
    assert labels == service["spec"]["selector"] and stateful["spec"]["serviceName"] == service["metadata"]["name"]
    pod = stateful["spec"]["template"]["spec"]
    volumes = {volume["name"] for volume in pod["volumes"]} | {
        claim["metadata"]["name"] for claim in stateful["spec"]["volumeClaimTemplates"]}
    for container in (*pod["initContainers"], *pod["containers"]):
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
    (init,), (redis,) = pod["initContainers"], pod["containers"]
    assert init["command"][-1] == "/module/" and "/module/liborderwheel.so" in redis["args"]


