"""The errors that spjit raises. Every message says what was given and what was expected."""

from __future__ import annotations


class SpjitError(Exception):
    """Base of all errors of spjit, and what it raises for a damaged kernel file."""


class InvalidArgument(SpjitError, ValueError):
    """A shape, stride, size or option that a function does not take."""


class InvalidMatrix(SpjitError, ValueError):
    """Arrays that are no CSR matrix."""


class IoError(SpjitError, OSError):
    """A file that cannot be opened, read, parsed or written."""


class NotSupported(SpjitError):
    """A target, instruction set or feature that this build or this machine does not have."""


class CompileFailed(SpjitError):
    """The compiler failed; `log` is what it printed."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class VerificationFailed(SpjitError):
    """A kernel was compiled and then failed its check. It was not kept."""


class Cancelled(SpjitError):
    """A compilation was told to stop."""


class DeadlineExceeded(SpjitError, TimeoutError):
    """A compilation took longer than its `timeout`."""


class DeviceError(SpjitError):
    """A call of the CUDA driver failed."""


class CacheError(SpjitError):
    """The cache directory cannot be used, or a kernel's folder is damaged."""


class OutOfMemory(SpjitError, MemoryError):
    """There is not so much memory."""


class InternalError(SpjitError):
    """A defect of spjit: please report the message."""


# By the numbers of enum spjit_status (spjit.h).
BY_STATUS: dict[int, type[SpjitError]] = {
    1: InvalidArgument,
    2: InvalidMatrix,
    3: IoError,
    4: NotSupported,
    5: CompileFailed,
    6: VerificationFailed,
    7: Cancelled,
    8: DeadlineExceeded,
    9: DeviceError,
    10: CacheError,
    11: OutOfMemory,
    12: SpjitError,
    13: InternalError,
}
