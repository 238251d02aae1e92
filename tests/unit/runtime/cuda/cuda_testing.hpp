#pragma once

/// @file
/// The emulated CUDA driver, with two devices, for the tests of what runs on one.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cuda/cuda_driver.hpp"
#include "runtime/cuda/cuda_memory.hpp"
#include "runtime/cuda/cuda_module.hpp"

namespace spjit::test {

/// The emulated driver; its devices are sm_75.
[[nodiscard]] std::shared_ptr<const CudaDriver> emulated_driver();

/// PTX of kernel `add_one(.u64 in, .u64 out, .u32 n)`: out[i] = in[i] + 1 for i < n, a thread each,
/// of 32-bit integers; and of kernel `fault()`, which writes to no address.
[[nodiscard]] std::string_view test_ptx();

[[nodiscard]] CudaModule load_text(const CudaContext& context, std::string_view text);

[[nodiscard]] std::vector<std::uint32_t> download_words(const DeviceBuffer& buffer);
[[nodiscard]] DeviceBuffer upload_words(const CudaContext& context,
                                        const std::vector<std::uint32_t>& words);

/// Arguments of a launch of add_one. Refers to itself: not copyable.
class AddOneArguments {
 public:
  AddOneArguments(const DeviceBuffer& in, const DeviceBuffer& out, std::uint32_t n)
      : in_(in.address()), out_(out.address()), n_(n) {}
  AddOneArguments(const AddOneArguments&) = delete;
  AddOneArguments& operator=(const AddOneArguments&) = delete;

  [[nodiscard]] void** values() { return values_; }

 private:
  CudaAddress in_;
  CudaAddress out_;
  std::uint32_t n_;
  void* values_[3] = {&in_, &out_, &n_};
};

/// The message of the Error that `call` throws, with its type's check in `Expected`.
template <typename Expected, typename Call>
[[nodiscard]] std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Expected& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace spjit::test
