#include "runtime/cuda/cuda_api.hpp"

#include <type_traits>

namespace spjit {
namespace {

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
}

void find_stream_functions(const DynamicLibrary& library, CudaApi& api) {
  require(library, api.create_stream, "cuStreamCreate");
  require(library, api.destroy_stream, "cuStreamDestroy_v2");
  require(library, api.synchronize_stream, "cuStreamSynchronize");
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

CudaApi find_cuda_api(const DynamicLibrary& library) {
  CudaApi api{};
  find_device_functions(library, api);
  find_memory_functions(library, api);
  find_stream_functions(library, api);
  find_module_functions(library, api);
  return api;
}

}  // namespace spjit
