"""Waiting with an end."""

import time


def until(holds, seconds=20, what="the condition holds", every=0.01):
    """Asks `holds` until it answers something true, and answers that. Fails after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        answer = holds()
        if answer:
            return answer
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(every)
