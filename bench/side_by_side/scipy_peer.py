#!/usr/bin/env python3
"""scipy.sparse, measured beside the others by side_by_side_bench.

Reads a command a line and answers each with a line. `run` computes C = A @ B once and answers with
the nanoseconds of that alone; everything else is a JSON object in and out:

    {"do": "load", "matrix": "a.npz", "b": "b.npy", "n": 32}    A and B of the next runs
    {"do": "store", "c": "c.npy"}                               writes C of the last run
    {"do": "flush"}                                             overwrites the caches

What fails is answered with {"error": "..."}. The first line, without a command, is the version.
"""

import json
import sys
import time

FLUSH_BYTES = 64 << 20  # the caller flushes the cache all cores share; this is for this core's own


def answer(fields):
    print(json.dumps(fields), flush=True)


try:
    import numpy
    import scipy
    import scipy.sparse
except ImportError as missing:
    answer({"error": str(missing)})
    sys.exit(0)


class Peer:
    def __init__(self):
        self.a = self.b = self.c = self.flushed = None

    def load(self, command):
        self.a = scipy.sparse.load_npz(command["matrix"]).astype(numpy.float32)
        self.b = numpy.load(command["b"]).reshape(self.a.shape[1], command["n"])
        if command["n"] == 1:  # scipy has a faster way for a vector
            self.b = self.b.ravel()
        self.c = None

    def store(self, command):
        numpy.save(command["c"], self.c)

    def flush(self, _command):
        if self.flushed is None:
            self.flushed = numpy.zeros(FLUSH_BYTES, dtype=numpy.uint8)
        self.flushed += 1

    def run(self):
        begin = time.perf_counter_ns()
        c = self.a @ self.b
        nanoseconds = time.perf_counter_ns() - begin
        self.c = c
        return nanoseconds


def main():
    peer = Peer()
    answer({"version": f"scipy {scipy.__version__}, numpy {numpy.__version__}, A @ B"})
    for line in sys.stdin:
        try:
            if line == "run\n":
                print(peer.run(), flush=True)
                continue
            command = json.loads(line)
            getattr(peer, command["do"])(command)
            answer({})
        except Exception as error:  # whatever it is, the caller has to know
            answer({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
