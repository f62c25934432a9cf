"""Packages: built again the same, on every server, in a clean Debian; Docker, Kubernetes, a release."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from support.debian import Debian, run
from support.dockerfile import carry_out
from support.pages import ROOT, blocks
from support.runbook import listed_version
from support.server import MODULE, PROGRAM, TARGET, Server
from support.wait import until

VERSION = re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(), re.M).group(1)
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())


def numbers(version):
    """A version as numbers that can be compared."""
    return tuple(map(int, version.split(".")))


def step(name):
    """The command of a step of the workflow that releases."""
    (found,) = [step for step in WORKFLOW["jobs"]["packages"]["steps"] if step.get("name") == name]
    return found["run"]


def sources():
    """The files of the repository, new ones included."""
    return run("git", "ls-files", "-co", "--exclude-standard", cwd=ROOT).splitlines()


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


@pytest.fixture(scope="module")
def module(deb, tmp_path_factory):
    """The module as it stands in the package."""
    folder = tmp_path_factory.mktemp("unpacked")
    run("dpkg-deb", "-x", deb, folder)
    return folder / "usr/lib/orderwheel/liborderwheel.so"


@pytest.mark.timeout(1200)
def test_packages_are_the_same_when_packed_twice(packages):
    one, other = ((folder / "SHA256SUMS").read_text() for folder in packages)
    assert one == other and len(one.splitlines()) == 2
    run("sha256sum", "--check", "SHA256SUMS", cwd=packages[1])


def test_no_path_of_this_machine_is_in_what_is_built(packages):
    """Not even in its debug information: the build id that stays in the package is made over it."""
    built = (TARGET / "package/release/liborderwheel.so").read_bytes()
    assert b"/cargo/registry" in built, "it has debug information"
    for place in (ROOT, TARGET, Path.home(), Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))):
        at = built.find(f"{place}/".encode())
        assert at < 0, built[at - 40:at + 200]


@pytest.mark.timeout(1800)
@pytest.mark.skipif("ORDERWHEEL_SLOW" not in os.environ, reason="a whole build: ORDERWHEEL_SLOW=1, and each release")
def test_packages_are_the_same_when_built_elsewhere(packages, tmp_path):
    """The step of the workflow, in a clone of what is here now."""
    clone = tmp_path / "a clone"
    # With the last commit alone, as there.
    run("git", "clone", "-q", "--depth", 1, f"file://{ROOT}", clone)
    run("git", "rm", "-rq", ".", cwd=clone)
    for name in sources():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, clone / name)
    when = run("git", "log", "-1", "--format=%cI", cwd=ROOT).strip()
    run("git", "add", "-A", cwd=clone)
    run("git", "-c", "user.name=x", "-c", "user.email=x", "commit", "-q", "--allow-empty", "-m", "x", cwd=clone,
        env={**os.environ, "GIT_COMMITTER_DATE": when})
    (clone / "packages").symlink_to(packages[0])
    run("sh", "-ec", step("Build them again elsewhere, and compare"), cwd=clone, timeout=1700,
        env={**os.environ, "RUNNER_TEMP": str(tmp_path / "else where")})


def test_what_can_not_be_packed_or_compared_is_said_before_it_is_built(tmp_path):
    """The script up to its setup, in a clone of its own."""
    clone = tmp_path / "clone"
    (clone / "scripts").mkdir(parents=True)
    script = (ROOT / "scripts/package.sh").read_text()
    before, setup, _ = script.partition('"$root/scripts/setup.sh"')
    assert setup and "cargo" in script and "cargo build" not in before
    (clone / "scripts/package.sh").write_text(before)
    shutil.copy(ROOT / "scripts/lib.sh", clone / "scripts")

    def says(*words):
        return subprocess.run(["bash", clone / "scripts/package.sh", *words], capture_output=True, text=True, check=False,
                              cwd=tmp_path, env={**os.environ, "CARGO_TARGET_DIR": str(tmp_path / "target")})

    wrong = says("--bogus")
    assert wrong.returncode != 0 and "no such option: --bogus" in wrong.stderr
    (tmp_path / "file").touch()
    wrong = says("file")
    assert wrong.returncode != 0 and "can not be made" in wrong.stderr
    run("git", "init", "-q", cwd=clone)
    run("git", "add", ".", cwd=clone)
    run("git", "-c", "user.name=x", "-c", "user.email=x", "commit", "-q", "-m", "x", cwd=clone)
    done = says("out")
    assert done.returncode == 0 and not done.stderr
    (clone / "packages").touch()
    assert not says("out").stderr, "nothing that is packed"
    (clone / "scripts/more").touch()
    assert "changes that are not committed" in says("out").stderr


def test_where_git_tells_no_time_package_says_so(tmp_path):
    """The part of the script before it builds, in a folder that is no clone."""
    script = (ROOT / "scripts/package.sh").read_text()
    dated = re.search(r"^if \[ -z .*?^fi\n^case .*?$", script, re.M | re.S).group()
    (tmp_path / "CHANGELOG.md").touch()
    os.utime(tmp_path / "CHANGELOG.md", (1_600_000_000, 1_700_000_000))

    def says(root, **environment):
        program = f'. "{ROOT}/scripts/lib.sh"; root={root}\n{dated}\necho "$SOURCE_DATE_EPOCH"'
        return subprocess.run(["bash", "-euo", "pipefail", "-c", program], capture_output=True, text=True, check=False,
                              env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **environment})

    done = says(tmp_path)
    assert done.stdout == "1700000000\n" and "not a git repository" in done.stderr and "CHANGELOG.md" in done.stderr
    assert says(tmp_path, SOURCE_DATE_EPOCH="5").stdout == "5\n"
    refused = says(tmp_path, SOURCE_DATE_EPOCH="yesterday")
    assert refused.returncode == 1 and "is no number" in refused.stderr
    if shutil.which("git") and (ROOT / ".git").exists():
        done = says(ROOT)
        assert done.stdout == run("git", "log", "-1", "--format=%ct", cwd=ROOT) and not done.stderr


def test_lintian_finds_no_error(deb):
    run("lintian", "--fail-on", "error", "--allow-root", deb)


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
    return max(numbers(version) for version in re.findall(r"GLIBC_([\d.]+)", said))


def test_the_page_says_which_glibc_it_needs(deb, module):
    page = (ROOT / "docs/packages.md").read_text()
    said = numbers(re.search(r"glibc ([\d.]+) or newer", page).group(1))
    depends = re.search(r"libc6 \(>= ([\d.]+)\)", run("dpkg-deb", "-f", deb, "Depends")).group(1)
    assert glibc_of(module) == numbers(depends)
    if "bookworm" in Path("/etc/os-release").read_text():
        assert glibc_of(module) == said


def programs():
    """The server programs there are: this machine's, and those of scripts/servers.sh."""
    named = os.environ.get("ORDERWHEEL_SERVERS")
    more = {path.parent.name: str(path) for path in sorted(Path(named or TARGET / "servers").glob("*/server"))}
    assert more or not named, f"no NAME/server in {named}"
    return {"redis-server": PROGRAM, **more}


@pytest.mark.parametrize("name", programs())
def test_the_module_of_the_package_runs_on(name, module, tmp_path):
    server = Server(tmp_path / "s", "enable-debug-command local", module=module, program=programs()[name]).start()
    try:
        assert server.run("ORDER.SCHEDULE", "orders", "1", "PX", 0, "STATUS", "unpaid")[0] == "OK"
        ((order, fence, *_),) = server.run("ORDER.CLAIM", "orders", "closer")
        # Saved and loaded again by this server.
        server.run("DEBUG", "RELOAD")
        assert server.run("ORDER.ACK", "orders", order, fence, "STATUS", "closed")[0] == "OK"
        assert f"orderwheel_version:{VERSION}\n" in server.cli("INFO", "orderwheel").replace("\r", "")
        major, minor, patch = numbers(VERSION)
        assert listed_version(server) == 10_000 * major + 100 * minor + patch
        # No command says that it is younger than this.
        names = server.cli("COMMAND", "LIST", "FILTERBY", "MODULE", "orderwheel").split()
        since = re.findall(r"^since\n(.+)$", server.cli("COMMAND", "DOCS", *names), re.M)
        assert len(since) >= len(names) > 20 and max(map(numbers, since)) <= numbers(VERSION)
    finally:
        fault = server.end()
    assert not fault, fault


def test_the_version_is_the_same_everywhere(packages):
    assert re.search(rf'name = "orderwheel"\nversion = "{VERSION}"\n', (ROOT / "Cargo.lock").read_text())
    assert f"/orderwheel:{VERSION}\n" in (ROOT / "examples/kubernetes/redis.yaml").read_text()
    # What is not released has no date; what is has that of its head.
    head = re.search(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.M).group(1)
    assert head in ("Unreleased", VERSION)
    for name in packages[0].glob("orderwheel*"):
        assert re.fullmatch(rf"orderwheel[-_]{VERSION}[-_].+", name.name)
    # No page says that something is younger.
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    said = {number for page in pages for number in re.findall(r"\bsince \|? ?(\d+\.\d+\.\d+)", page.read_text())}
    assert "0.2.0" in said and max(map(numbers, said)) <= numbers(VERSION)


def test_a_release_is_refused_that_is_not_prepared(tmp_path):
    """The steps before the build, on what a release would find."""
    checks = step("The tag is the version of the package, and in the changelog")
    (tmp_path / "Cargo.toml").write_text('[package]\nversion = "1.2.3"\n')
    changelog = "# Changelog\n\n## [1.2.3] - 2026-12-24\n\n### Added\n- Snow.\n\n## [0.1.0] - 2026-11-30\n\nFirst.\n"

    def accepts(tag, text):
        (tmp_path / "CHANGELOG.md").write_text(text)
        return subprocess.run(["sh", "-ec", checks], cwd=tmp_path, check=False, capture_output=True,
                              env={"PATH": os.environ["PATH"], "GITHUB_REF_NAME": tag}).returncode == 0

    assert accepts("v1.2.3", changelog)
    assert (tmp_path / "notes.md").read_text().strip() == "### Added\n- Snow."
    assert not accepts("v1.2.4", changelog), "the version of Cargo.toml"
    assert not accepts("v1.2.3", changelog.replace("[1.2.3] - 2026-12-24", "[Unreleased]"))
    assert not accepts("v1.2.3", changelog.replace(" - 2026-12-24", ""))
    assert not accepts("v1.2.3", changelog.replace("2026-12-24", "soon"))


SERVES = "exec redis-server /etc/redis/redis.conf --daemonize no --port 0 --unixsocket /run/s --logfile /run/log"
#: The complete configuration that comes with it, with nothing changed but where it listens and writes.
EXAMPLE = SERVES.replace("/etc/redis/redis.conf", "/usr/share/doc/orderwheel/redis.conf.example") + " --dir /tmp"


class Serving:
    """A server in a Debian, from its redis.conf."""

    def __init__(self, debian, command=SERVES):
        self.debian = debian
        self.command = command

    def __enter__(self):
        self.process = subprocess.Popen(self.debian.words("/bin/sh", "-ec", self.command), stdout=subprocess.DEVNULL)
        until(lambda: self.process.poll() is not None or self.debian.ask("PING") == "PONG\n", 30, "the server answers")
        assert self.process.poll() is None, (self.debian.root / "run/log").read_text()
        return self.debian.ask

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)


def older_deb(deb, folder):
    """The package of release 0.1.0: with its module if ORDERWHEEL_OLD_MODULE names it, else with the present one."""
    run("dpkg-deb", "-R", deb, folder / "older")
    control = folder / "older/DEBIAN/control"
    control.write_text(re.sub(r"^Version: .+$", "Version: 0.1.0", control.read_text(), flags=re.M))
    if before := os.environ.get("ORDERWHEEL_OLD_MODULE"):
        module = folder / "older/usr/lib/orderwheel/liborderwheel.so"
        run("strip", "--strip-unneeded", "-o", module, before)
        module.chmod(0o755)
    sums = run("bash", "-c", "find usr -type f | sort | xargs -d '\n' md5sum", cwd=folder / "older")
    (folder / "older/DEBIAN/md5sums").write_text(sums)
    run("dpkg-deb", "--root-owner-group", "--build", folder / "older", folder / "orderwheel_0.1.0_old.deb")
    return folder / "orderwheel_0.1.0_old.deb"


def files_of(root):
    """What lies in a Debian, apart from dpkg's own books and what a server writes."""
    own = ("var/lib/dpkg", "var/log", "var/cache", "run", "tmp", "root", "var/lib/redis", "dev", "proc")
    return {path.relative_to(root) for path in root.rglob("*") if not str(path.relative_to(root)).startswith(own)}


@pytest.mark.timeout(900)
def test_the_package_in_a_clean_debian(deb, tmp_path):
    """The page's commands, an order closed, an upgrade from 0.1.0, and nothing left in the end."""
    debian = Debian(tmp_path / "root", "redis-server")
    before = files_of(debian.root)
    install = blocks("docs/packages.md", "sh", "Debian and Ubuntu")[0]
    assert "*.deb" in install and "redis.conf" in install
    shutil.copy(older_deb(deb, tmp_path), debian.root / "root")
    debian.shell(install, at="/root")
    assert debian.shell("dpkg-query -W -f '${Version}' orderwheel") == "0.1.0"
    with Serving(debian) as ask:
        assert ask("ORDER.SCHEDULE", "orders", "1001", "PX", "0", "STATUS", "unpaid").startswith("OK")
        assert ask("ORDER.SCHEDULE", "orders", "1002", "PX", "60000", "STATUS", "unpaid").startswith("OK")
        assert ask("SAVE") == "OK\n"
    # The upgrade: only the package, redis.conf stays.
    (debian.root / "root/orderwheel_0.1.0_old.deb").unlink()
    shutil.copy(deb, debian.root / "root")
    debian.shell(install.splitlines()[0], at="/root")
    assert debian.shell("dpkg-query -W -f '${Version}' orderwheel") == VERSION
    assert not debian.shell("dpkg -V orderwheel"), "all files are those of the package"
    with Serving(debian) as ask:
        assert f"orderwheel_version:{VERSION}" in ask("INFO", "orderwheel")
        order, fence, *_ = ask("ORDER.CLAIM", "orders", "closer").splitlines()
        assert (order, ask("ORDER.ACK", "orders", order, fence, "STATUS", "closed").splitlines()[0]) == ("1001", "OK")
        assert "scheduled" in ask("ORDER.GET", "orders", "1002").splitlines()
    with Serving(debian, EXAMPLE) as ask:
        assert ask("ORDER.SCHEDULE", "orders", "1003", "PX", "0", "STATUS", "unpaid").startswith("OK")
    debian.shell("dpkg --purge orderwheel")
    assert files_of(debian.root) == before, "nothing is left"
    assert "orderwheel" not in debian.shell("dpkg-query -W")
    # As the page says: with the line still there the server does not start.
    refused = subprocess.run(debian.words("/bin/sh", "-ec", SERVES), timeout=60, check=False)
    assert refused.returncode == 1
    assert "Can't load module from /usr/lib/orderwheel/liborderwheel.so" in (debian.root / "run/log").read_text()


@pytest.mark.timeout(900)
def test_every_step_of_the_dockerfile_is_carried_out(tmp_path):
    """No image can be built without an engine: the steps are run in folders, and the server of CMD closes an order."""
    if "bookworm" not in Path("/etc/os-release").read_text():
        pytest.skip("what is built here does not run on Debian 12")
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert all(re.fullmatch(r"[\w./]+", name) for name in ignored), "names, no patterns"
    sent = [name for name in sources() if not any(name == out or name.startswith(f"{out}/") for out in ignored)]
    # What is compiled is only to be loaded: as fast as it goes, and what others wrote only once.
    environment = {**os.environ, "CARGO_TARGET_DIR": "target", "CARGO_PROFILE_RELEASE_LTO": "off",
                   "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
                   "CARGO_TARGET": "", "RUSTFLAGS": ""}
    cache = TARGET / "docker"
    cache.mkdir(parents=True, exist_ok=True)
    built = tmp_path / "stage0/orderwheel"
    built.mkdir(parents=True)
    (built / "target").symlink_to(cache)
    for module in cache.glob("release/liborderwheel.so"):
        module.unlink()
    image = carry_out(ROOT / "examples/docker/Dockerfile", (ROOT, sent), tmp_path, environment)
    assert image.user != "root" and image.port == 6379 and "--port" not in image.command
    words = [word.replace("0.0.0.0", "127.0.0.1") for word in image.command]
    assert words != image.command, "it listens to other machines than its own"
    server = subprocess.Popen(
        image.debian.words(*words, "--port", "0", "--unixsocket", "/tmp/s", user=image.user, at=image.at),
        stdout=subprocess.DEVNULL)
    try:
        ask = lambda *words: run(*image.debian.words("redis-cli", "-s", "/tmp/s", *words))
        until(lambda: server.poll() is not None or (image.folder / "tmp/s").exists(), 60, "the server listens")
        assert server.poll() is None
        assert ask("ORDER.SCHEDULE", "orders", "1001", "PX", "0", "STATUS", "unpaid").startswith("OK")
        assert ask("ORDER.CLAIM", "orders", "closer").startswith("1001")
        assert ask("CONFIG", "GET", "maxmemory-policy").split()[1] == "noeviction"
        # On the volume, as the user who is not root.
        (log,) = (image.folder / "var/lib/redis/appendonlydir").glob("*.incr.aof")
        until(lambda: b"ORDER.APPLY" in log.read_bytes(), 20, "it is written down")
        assert log.stat().st_uid != 0
    finally:
        server.terminate()
        server.wait(30)


def test_the_server_of_the_dockerfile_starts(tmp_path):
    text = (ROOT / "examples/docker/Dockerfile").read_text()
    words = re.findall(r'"([^"]+)"', re.search(r'^CMD \[(.+)\]$', text, re.M).group(1))
    words = [str(MODULE) if word.startswith("/usr/lib") else word for word in words]
    words[words.index("0.0.0.0")] = "127.0.0.1"
    server = subprocess.Popen([*words, "--port", "0", "--unixsocket", str(tmp_path / "s"), "--dir", str(tmp_path)],
                              stdout=subprocess.DEVNULL)
    try:
        ask = lambda *words: subprocess.run(
            ["redis-cli", "-s", str(tmp_path / "s"), *words], capture_output=True, text=True, check=False).stdout
        until(lambda: ask("PING") == "PONG\n", 30, "the server answers")
        # The probes of examples/kubernetes, as they stand there.
        _, _, stateful = yaml.safe_load_all((ROOT / "examples/kubernetes/redis.yaml").read_text())
        (container,) = stateful["spec"]["template"]["spec"]["containers"]
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            shell, option, command = container[probe]["exec"]["command"]
            run(shell, option, command.replace("redis-cli", f"redis-cli -s {tmp_path / 's'}"))
    finally:
        server.terminate()
        server.wait(30)


def test_the_objects_of_kubernetes_fit_together():
    service, budget, stateful = yaml.safe_load_all((ROOT / "examples/kubernetes/redis.yaml").read_text())
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


