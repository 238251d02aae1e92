#pragma once

/// @file
/// Work on one of several files: what goes wrong with it does not stop the others.

#include <exception>
#include <filesystem>
#include <new>
#include <string>

#include "terminal.hpp"

namespace spjit::cli {

/// Runs `work`, and gives the message of what it throws, beginning with the file; empty if it
/// throws nothing. `advice` follows "out of memory".
template <typename Work>
[[nodiscard]] std::string attempt(const std::filesystem::path& path, const Work& work,
                                  const std::string& advice = {}) {
  std::string error;
  try {
    work();
  } catch (const std::bad_alloc&) {
    error = "out of memory" + advice;
  } catch (const std::exception& thrown) {
    error = thrown.what();
  }
  // Errors of reading begin with the file; the others do not know it.
  const std::string name = shown(path);
  if (!error.empty() && !error.starts_with(name)) error.insert(0, name + ": ");
  return error;
}

}  // namespace spjit::cli
