// .npz: the input is the archive.

#include "tests/fuzz/npz_checks.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spjit::fuzz::check_npz(spjit::fuzz::as_bytes(data, size));
  return 0;
}
