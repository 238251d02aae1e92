#pragma once

#include "tests/fuzz/fuzz_support.hpp"

namespace spjit::fuzz {

/// A `.npz` archive is read as a matrix and as a dense array: no more memory than a multiple of
/// what its arrays decompress to, which is at most 1032 times the archive. A matrix is valid, and
/// the same after it was written as .npz again.
void check_npz(Bytes archive);

}  // namespace spjit::fuzz
