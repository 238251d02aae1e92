#pragma once

#include "tests/fuzz/fuzz_support.hpp"

namespace spjit::fuzz {

/// An archive of kernels is read: no more memory than a multiple of it. Each kernel that is given
/// has a key and file names that a cache allows, and files that its record lists, which match their
/// checksums and came from the archive.
void check_archive(Bytes archive);

}  // namespace spjit::fuzz
