"""The picture of README is what its data says."""

import importlib.util
import json
from xml.etree import ElementTree


def picture(root):
    spec = importlib.util.spec_from_file_location("picture", root / "scripts/bench/picture.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_is_drawn_from_its_data(root):
    drawn = picture(root).drawn(json.loads((root / "docs/six-ways.json").read_text()))
    assert drawn == (root / "docs/six-ways.svg").read_text(), "draw it again: python3 scripts/bench/picture.py"


def test_the_picture_says_every_way_and_its_figures(root):
    measured = json.loads((root / "docs/six-ways.json").read_text())
    words = " ".join(ElementTree.parse(root / "docs/six-ways.svg").getroot().itertext())
    assert len(measured["ways"]) == 6
    for way in measured["ways"]:
        assert way["way"] in words
        if "bytes_per_order" in way:
            assert f"{way['bytes_per_order']:.0f} B" in words
    assert "scripts/bench.sh --rows ways" in words
