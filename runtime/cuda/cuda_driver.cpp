#include "runtime/cuda/cuda_driver.hpp"

#include <fmt/format.h>

#include <type_traits>
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

template <typename Function>
void require(const DynamicLibrary& library, Function*& function, const char* name) {
  function = library.require<Function>(name);
}

void find_device_functions(const DynamicLibrary& library, CudaApi& api) {
  require(library, api.init, "cuInit");
  require(library, api.driver_version, "cuDriverGetVersion");
  require(library, api.error_name, "cuGetErrorName");
  require(library, api.error_text, "cuGetErrorString");
  require(library, api.device_count, "cuDeviceGetCount");
  require(library, api.device, "cuDeviceGet");
  require(library, api.device_name, "cuDeviceGetName");
  require(library, api.device_attribute, "cuDeviceGetAttribute");
  require(library, api.device_memory, "cuDeviceTotalMem_v2");
  require(library, api.retain_context, "cuDevicePrimaryCtxRetain");
  require(library, api.release_context, "cuDevicePrimaryCtxRelease_v2");
  require(library, api.set_current_context, "cuCtxSetCurrent");
  require(library, api.current_context, "cuCtxGetCurrent");
  require(library, api.synchronize_context, "cuCtxSynchronize");
}

void find_memory_functions(const DynamicLibrary& library, CudaApi& api) {
  require(library, api.allocate, "cuMemAlloc_v2");
  require(library, api.free, "cuMemFree_v2");
  require(library, api.upload, "cuMemcpyHtoD_v2");
  require(library, api.download, "cuMemcpyDtoH_v2");
  require(library, api.fill_async, "cuMemsetD8Async");
  require(library, api.pointer_attribute, "cuPointerGetAttribute");
}

void find_stream_functions(const DynamicLibrary& library, CudaApi& api) {
  require(library, api.create_stream, "cuStreamCreate");
  require(library, api.destroy_stream, "cuStreamDestroy_v2");
  require(library, api.synchronize_stream, "cuStreamSynchronize");
  require(library, api.wait_event, "cuStreamWaitEvent");
  require(library, api.create_event, "cuEventCreate");
  require(library, api.destroy_event, "cuEventDestroy_v2");
  require(library, api.record_event, "cuEventRecord");
  require(library, api.synchronize_event, "cuEventSynchronize");
  require(library, api.elapsed_ms, "cuEventElapsedTime");
  require(library, api.begin_capture, "cuStreamBeginCapture_v2");
  require(library, api.end_capture, "cuStreamEndCapture");
  require(library, api.instantiate, "cuGraphInstantiateWithFlags");
  require(library, api.launch_graph, "cuGraphLaunch");
  require(library, api.destroy_executable, "cuGraphExecDestroy");
  require(library, api.destroy_graph, "cuGraphDestroy");
}

void find_module_functions(const DynamicLibrary& library, CudaApi& api) {
  require(library, api.load_module, "cuModuleLoadDataEx");
  require(library, api.unload_module, "cuModuleUnload");
  require(library, api.function, "cuModuleGetFunction");
  require(library, api.set_function_attribute, "cuFuncSetAttribute");
  require(library, api.launch, "cuLaunchKernel");
  require(library, api.active_blocks, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  api.load_function =
      library.find<std::remove_pointer_t<decltype(api.load_function)>>("cuFuncLoad");
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

CudaApi find_cuda_api(const DynamicLibrary& library) {
  CudaApi api{};
  find_device_functions(library, api);
  find_memory_functions(library, api);
  find_stream_functions(library, api);
  find_module_functions(library, api);
  return api;
}

}  // namespace spjit
