"""What the programs that draw graphs have in common."""

from __future__ import annotations

import argparse
import tempfile
import time


def fuzz(description, make, every, told):
    """Draws as many graphs as the command line says, and prints those that are wrong. Whether there
    were any. make: of a folder for files, what has `wrong(seed)`, a message or "". told: of that,
    what is printed every so many graphs."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="of the first graph")
    options = parser.parse_args()
    start, bad = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        fuzzer = make(folder)
        for i, seed in enumerate(range(options.seed, options.seed + options.count), 1):
            message = fuzzer.wrong(seed)
            if message:
                bad += 1
                print(message, flush=True)
            if i % every == 0 or i == options.count:
                print(f"graphs={i} wrong={bad} {told(fuzzer)} "
                      f"seconds={time.monotonic() - start:.0f}", flush=True)
    return bad > 0
