"""The pages as the tests read them: every block of code a reader may type."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def blocks(page, language, heading=None):
    """The fenced blocks of a language in a page, in order; only those below a heading if one is named."""
    text = (ROOT / page).read_text()
    if heading is not None:
        level, rest = re.search(rf"^(#+) {re.escape(heading)}\n(.*)", text, re.M | re.S).groups()
        text = re.split(rf"^#{{1,{len(level)}}} ", rest, maxsplit=1, flags=re.M)[0]
    return re.findall(rf"^[ ]*```{re.escape(language)}\n(.*?)^[ ]*```$", text, re.M | re.S)
