"""Random commands against the model of what docs/commands.md says, and that a wrong rule is found."""

import pytest

from blackbox import model, words
from blackbox.run import crc64, fuzz, quoted

SECONDS = 15
#: Answers that are frequent: some hundreds each in this time.
OUTCOMES = [f"{command} {word}" for command, words_ in {
    "schedule": "OK EXISTS MISSING UNCHANGED LEASED FINISHED STATE STALE", "finish": "OK LEASED FINISHED MISSING STATE STALE",
    "status": "OK MISSING LEASED STATE STALE", "ack": "OK STALE FINISHED MISSING STATE", "nack": "OK STALE FINISHED MISSING STATE",
    "lock": "OK HELD BUSY EXPIRED FINISHED MISSING", "renew": "OK GONE MISSING", "unlock": "OK GONE MISSING", "break": "OK GONE MISSING",
    "mschedule": "OK EXISTS FINISHED", "mfinish": "OK FINISHED MISSING LEASED", "mack": "OK STALE", "mnack": "OK STALE", "mrenew": "OK GONE",
}.items() for word in words_.split()]


def run(tmp_path, seed):
    """The status, and what was printed."""
    said = []
    status = fuzz(tmp_path, SECONDS, seed, said.append)
    return status, "\n".join(said)


def test_the_server_answers_as_the_page_says(tmp_path):
    status, said = run(tmp_path, 20261)
    assert status == 0, said
    # All kinds of commands were sent, and answered in many ways.
    for name in words.Words.WEIGHTS:
        assert f"{name.replace('bad', 'error')} " in said, said
    for outcome in OUTCOMES:
        assert f" {outcome} " in said, f"no answer was {outcome}\n{said}"


@pytest.mark.parametrize("wrong", model.WRONG_RULES)
def test_a_wrong_rule_is_found(tmp_path, monkeypatch, wrong):
    """The model is told something else than the page says."""
    monkeypatch.setattr(model, "WRONG", wrong)
    status, said = run(tmp_path, 20262)
    assert status == 1, f"nobody saw {wrong}"
    assert "seed 20262, step " in said and "expected" in said and "ORDER." in said


def test_the_tools():
    # The check value of this CRC.
    assert crc64(b"123456789") == 0xE9C6D914C4B8D9CA
    assert [quoted(word) for word in (b"", b"a", b"a b", b'"\0\\', 5)] == ['""', "a", '"a b"', r'"\x22\x00\x5c"', "5"]
