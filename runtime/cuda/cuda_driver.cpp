#include "runtime/cuda/cuda_driver.hpp"

#include <fmt/format.h>

#include <utility>

#include "spjit/error.hpp"

namespace spjit {
namespace {

constexpr const char* k_library = "libcuda.so.1";

DynamicLibrary open_driver(const std::filesystem::path& file) {
  try {
    return DynamicLibrary(file, DynamicLibrary::Lifetime::resident);
  } catch (const NotSupported& error) {
    throw NotSupported(fmt::format(
        "no CUDA driver: {}; install the NVIDIA driver, which brings {}, or name the library in "
        "SPJIT_CUDA_DRIVER",
        error.what(), k_library));
  }
}

// What to do about the codes of cuInit that people meet.
const char* advice_for(int result) {
  switch (result) {
    case k_cuda_stub_library:
      return "it only stands in for the driver when programs are linked; install the NVIDIA driver "
             "and take the stubs folder out of LD_LIBRARY_PATH";
    case k_cuda_no_device:
      return "check that the machine has an NVIDIA GPU, that CUDA_VISIBLE_DEVICES does not hide it "
             "and that a container is given it";
    default:
      return "check that nvidia-smi works, and that the driver's library and its kernel module are "
             "of one version";
  }
}

}  // namespace

CudaDriver::CudaDriver(DynamicLibrary library)
    : library_(std::move(library)), api_(find_cuda_api(library_)) {}

std::shared_ptr<const CudaDriver> CudaDriver::load(
    const std::optional<std::filesystem::path>& library) {
  // Not make_shared: the constructor is private.
  std::shared_ptr<CudaDriver> driver(new CudaDriver(open_driver(library.value_or(k_library))));
  const int result = driver->api().init(0);
  if (result != k_cuda_success) {
    throw NotSupported(fmt::format("the CUDA driver {} cannot be used: cuInit gives {}; {}",
                                   driver->path().string(), driver->describe(result),
                                   advice_for(result)));
  }
  driver->check(driver->api().driver_version(&driver->version_),
                [] { return "ask the CUDA driver for its version"; });
  return driver;
}

std::string CudaDriver::describe(int result) const {
  // The toolkit's stub does not even know the name of its own error.
  const bool is_stub = result == k_cuda_stub_library;
  const char* name = nullptr;
  const char* text = nullptr;
  if (api_.error_name(result, &name) != k_cuda_success || name == nullptr) {
    name = is_stub ? "CUDA_ERROR_STUB_LIBRARY" : "CUDA error";
  }
  if (api_.error_text(result, &text) != k_cuda_success || text == nullptr) {
    text = is_stub ? "the library is a stub" : "the driver has no text for it";
  }
  return fmt::format("{} ({}), {}", name, result, text);
}

void CudaDriver::fail(int result, const std::string& what) const {
  throw DeviceError(fmt::format("cannot {}: {}", what, describe(result)), result);
}

}  // namespace spjit
