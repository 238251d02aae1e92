#pragma once

/// @file
/// The errors spjit throws. Every message says what was given, what was expected, and what to do.

#include <stdexcept>
#include <string>
#include <utility>

#include "spjit/export.hpp"

namespace spjit {

/// Base of everything spjit throws on purpose. `what()` is one line of UTF-8 that a terminal can
/// show: in place of control characters, which names of files may have, it has a '?'.
class SPJIT_EXPORT Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message);
};

/// A matrix that is not a matrix: bad offsets, columns out of range, duplicate columns.
class SPJIT_EXPORT InvalidMatrix : public Error {
 public:
  using Error::Error;
};

/// A file that cannot be opened, read, parsed or written. The message starts with `file:line: `
/// (or `file: ` where lines mean nothing).
class SPJIT_EXPORT IoError : public Error {
 public:
  using Error::Error;
};

/// An option, pointer or shape that a function does not take.
class SPJIT_EXPORT InvalidArgument : public Error {
 public:
  using Error::Error;
};

/// A target, instruction set or feature this build or this machine does not have.
class SPJIT_EXPORT NotSupported : public Error {
 public:
  using Error::Error;
};

/// A kernel that could not be compiled; `log()` is what the compiler printed.
class SPJIT_EXPORT CompileFailed : public Error {
 public:
  explicit CompileFailed(const std::string& message, std::string log = {})
      : Error(message), log_(std::move(log)) {}

  [[nodiscard]] const std::string& log() const noexcept { return log_; }

 private:
  std::string log_;
};

/// A kernel that was compiled and then failed its check (CompileOptions::verify). It was not
/// published, and an entry of the cache that held it was withdrawn. The message names the first
/// element of C that is wrong.
class SPJIT_EXPORT VerificationFailed : public Error {
 public:
  using Error::Error;
};

/// A compilation that was told to stop (CompileControl::stop, Compilation::cancel()). Nothing of it
/// was kept.
class SPJIT_EXPORT Cancelled : public Error {
 public:
  using Error::Error;
};

/// A compilation that was not done at its deadline (CompileControl::deadline). Nothing of it was
/// kept.
class SPJIT_EXPORT DeadlineExceeded : public Error {
 public:
  using Error::Error;
};

/// A call of the CUDA driver that failed; `code()` is its CUresult. The message says what was being
/// done and on which device, and has the code's name and the driver's text.
class SPJIT_EXPORT DeviceError : public Error {
 public:
  DeviceError(const std::string& message, int code) : Error(message), code_(code) {}

  [[nodiscard]] int code() const noexcept { return code_; }

 private:
  int code_;
};

/// A cache directory that cannot be created, read or written. A damaged entry is not an error: it
/// is a miss.
class SPJIT_EXPORT CacheError : public Error {
 public:
  using Error::Error;
};

}  // namespace spjit
