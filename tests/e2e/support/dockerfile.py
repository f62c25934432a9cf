"""Carries out a Dockerfile without an engine: each step in a folder that stands for its stage.

A stage on Debian is a Debian of debootstrap, and all of its steps are run in it. A stage on Rust
is a folder with this machine's Rust: a step of apt is simulated in a Debian, so names and options
must be right but nothing is fetched; other steps are run. What it does not know is an error.
"""

import json
import re
import shlex
import shutil
from pathlib import Path

from .debian import Debian, run


class Stage:
    """One FROM and what followed."""

    def __init__(self, image, folder):
        name, tag = image.split(":")
        assert name in ("rust", "debian") and "bookworm" in tag, image
        self.folder = Path(folder)
        self.own = name == "debian"
        self.debian = Debian(self.folder if self.own else f"{self.folder}-apt")
        self.debian.lets_in()
        self.folder.mkdir(exist_ok=True)
        self.at, self.user, self.command, self.port = "/", "root", None, None

    def place(self, path):
        """Where a path of the image lies on this machine."""
        return self.folder / (Path(self.at) / path).relative_to("/")

    def run(self, line, environment):
        """A step RUN."""
        if self.own:
            self.debian.shell(line, user=self.user, at=self.at)
        elif "apt-get" in line:
            (self.debian.root / "etc/apt/apt.conf.d/simulate").write_text('APT::Get::Simulate "true";\n')
            self.debian.shell(line)
        else:
            run("/bin/sh", "-ec", line, cwd=self.place("."), env=environment)


def carry_out(file, context, folder, environment):
    """The last stage. `context` is a folder and the names of what is sent of it; `environment` that of steps here."""
    stages, stage = {}, None
    for step in re.sub(r"\\\n\s*", " ", Path(file).read_text()).splitlines():
        word, _, rest = step.strip().partition(" ")
        match word:
            case "" | "#":
                continue
            case "FROM":
                image, *name = rest.split(" AS ")
                stage = Stage(image, Path(folder) / f"stage{len(stages)}")
                stages[name[0] if name else len(stages)] = stage
            case "RUN":
                stage.run(rest, environment)
            case "WORKDIR":
                stage.at = str(Path(stage.at) / rest)
                stage.place(".").mkdir(parents=True, exist_ok=True)
            case "USER":
                stage.user = rest
            case "EXPOSE":
                stage.port = int(rest)
            case "CMD":
                stage.command = json.loads(rest)
            case "COPY":
                copy(stage, stages, shlex.split(rest), context)
            case _:
                raise AssertionError(f"unknown: {step}")
    return stage


def copy(stage, stages, words, context):
    """A step COPY: of a file of another stage into a folder, or of the whole context."""
    if words[0].startswith("--from="):
        option, source, target = words
        assert target.endswith("/"), "a folder"
        stage.place(target).mkdir(parents=True, exist_ok=True)
        shutil.copy(stages[option.removeprefix("--from=")].folder / source.lstrip("/"), stage.place(target))
    else:
        assert words == [".", "."], words
        root, names = context
        for name in names:
            stage.place(name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, stage.place(name))
