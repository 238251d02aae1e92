"""`python -m spjit`: the command line (`python -m spjit --help`)."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from ._library import library


def main() -> int:
    # Nothing of Python runs until the command is done: Ctrl-C ends it as any other program.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    arguments = [b"spjit", *map(os.fsencode, sys.argv[1:])]
    argv = (ctypes.c_char_p * (len(arguments) + 1))(*arguments, None)
    return int(library.spjit_python_main(len(arguments), argv))


if __name__ == "__main__":
    sys.exit(main())
