"""`python -m spjit`: the command line (`python -m spjit --help`)."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from ._library import CONVERT_MODEL, library


def _convert_model(model: bytes, shapes: bytes, result: int, result_bytes: int) -> int:
    """Of an .onnx file: its path as .safetensors, or what is wrong, into `result`."""
    try:
        from ._onnx_file import convert

        text, failed = convert(os.fsdecode(model), os.fsdecode(shapes)), 0
    except ImportError as error:
        text, failed = f"reading .onnx takes the package onnx: pip install onnx ({error})", 1
    except Exception as error:  # nothing of Python is above
        text, failed = " ".join(str(error).split()) or type(error).__name__, 1
    content = os.fsencode(text)[:result_bytes]
    ctypes.memmove(result, content, len(content))
    return failed


def main() -> int:
    # Python does not look at signals until the command is done: Ctrl-C ends it as any other
    # program.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    arguments = [b"spjit", *map(os.fsencode, sys.argv[1:])]
    argv = (ctypes.c_char_p * (len(arguments) + 1))(*arguments, None)
    return int(library.spjit_python_main(len(arguments), argv, CONVERT_MODEL(_convert_model)))


if __name__ == "__main__":
    sys.exit(main())
