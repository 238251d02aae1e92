// Archives of kernels, as `spjit cache import` takes them: the input is the tar file.

#include "tests/fuzz/archive_checks.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spjit::fuzz::check_archive(spjit::fuzz::as_bytes(data, size));
  return 0;
}
