#!/usr/bin/env python3
"""licences.py ROOT DOC: writes DOC/copyright, and the licence texts of what is linked in to DOC/licenses.

What is linked in is what cargo says for this target, without build scripts and tests.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT, DOC = map(Path, sys.argv[1:])
NAMES = ("LICENSE", "LICENCE", "COPYING", "NOTICE")


def linked():
    """The packages that are linked in, by name."""
    host = next(line.split()[1] for line in subprocess.run(
        ["rustc", "-vV"], capture_output=True, text=True, check=True).stdout.splitlines() if line.startswith("host:"))
    data = json.loads(subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", host,
         "--manifest-path", ROOT / "Cargo.toml"], capture_output=True, text=True, check=True).stdout)
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    packages = {package["id"]: package for package in data["packages"]}
    found, todo = set(), [data["resolve"]["root"]]
    while todo:
        for dependency in nodes[todo.pop()]["deps"]:
            kinds = {kind["kind"] for kind in dependency["dep_kinds"]}
            package = packages[dependency["pkg"]]
            # A macro runs in the compiler and is not linked in.
            is_macro = any("proc-macro" in target["kind"] for target in package["targets"])
            if None in kinds and dependency["pkg"] not in found and not is_macro:
                found.add(dependency["pkg"])
                todo.append(dependency["pkg"])
    return sorted((packages[package] for package in found), key=lambda package: (package["name"], package["version"]))


def main():
    own = (ROOT / "LICENSE").read_text()
    who = next(line for line in own.splitlines() if line.lower().startswith("copyright"))
    text = "".join(f" {line or '.'}\n" for line in own.splitlines()[2:])
    parts = ["Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: orderwheel\n",
             f"Files: *\nCopyright: {who.split(')', 1)[-1].strip()}\nLicense: MIT\n{text}"]
    listed = []
    for package in linked():
        name = f"{package['name']}-{package['version']}"
        authors = ", ".join(package["authors"]) or "its authors"
        listed.append(f" {name}: {package['license'] or 'see its text'}; {authors}\n")
        folder = Path(package["manifest_path"]).parent
        texts = [path for path in sorted(folder.iterdir()) if path.is_file() and path.name.upper().startswith(NAMES)]
        if texts:
            (DOC / "licenses" / name).mkdir()
        for path in texts:
            shutil.copyfile(path, DOC / "licenses" / name / path.name)
    parts.append("Comment:\n These packages are linked in. Their licence texts are in the folder licenses.\n"
                 + "".join(listed))
    (DOC / "copyright").write_text("\n".join(parts))


main()
