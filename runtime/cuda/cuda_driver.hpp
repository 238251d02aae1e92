#pragma once

/// @file
/// The CUDA driver, loaded when it is first needed. The functions of its API that spjit calls are
/// declared here so that no CUDA header is needed. All have been there since CUDA 11.4; what is
/// newer may be null.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/dynamic_library.hpp"

namespace spjit {

/// CUdeviceptr.
using CudaAddress = std::uint64_t;

// CUcontext, CUmodule, CUfunction, CUevent, CUgraph, CUgraphExec. A stream is a plain void*: it
// may be the caller's.
using CudaContextHandle = struct CudaContextObject*;
using CudaModuleHandle = struct CudaModuleObject*;
using CudaFunctionHandle = struct CudaFunctionObject*;
using CudaEventHandle = struct CudaEventObject*;
using CudaGraphHandle = struct CudaGraphObject*;
using CudaGraphExecHandle = struct CudaGraphExecObject*;

// CUresult, as far as spjit decides by it.
inline constexpr int k_cuda_success = 0;
inline constexpr int k_cuda_stub_library = 34;
inline constexpr int k_cuda_no_device = 100;
inline constexpr int k_cuda_no_binary_for_gpu = 209;

/// Each member is the function of the driver that its comment names, and gives a CUresult.
struct CudaApi {
  int (*init)(unsigned flags);                             ///< cuInit
  int (*driver_version)(int* version);                     ///< cuDriverGetVersion
  int (*error_name)(int result, const char** name);        ///< cuGetErrorName
  int (*error_text)(int result, const char** text);        ///< cuGetErrorString
  int (*device_count)(int* count);                         ///< cuDeviceGetCount
  int (*device)(int* device, int ordinal);                 ///< cuDeviceGet
  int (*device_name)(char* name, int length, int device);  ///< cuDeviceGetName
  /// cuDeviceGetAttribute
  int (*device_attribute)(int* value, int attribute, int device);
  int (*device_memory)(std::size_t* bytes, int device);  ///< cuDeviceTotalMem_v2

  /// cuDevicePrimaryCtxRetain
  int (*retain_context)(CudaContextHandle* context, int device);
  int (*release_context)(int device);                  ///< cuDevicePrimaryCtxRelease_v2
  int (*set_current_context)(CudaContextHandle);       ///< cuCtxSetCurrent
  int (*current_context)(CudaContextHandle* context);  ///< cuCtxGetCurrent
  int (*synchronize_context)();                        ///< cuCtxSynchronize

  int (*allocate)(CudaAddress* address, std::size_t bytes);        ///< cuMemAlloc_v2
  int (*free)(CudaAddress address);                                ///< cuMemFree_v2
  int (*upload)(CudaAddress to, const void* from, std::size_t);    ///< cuMemcpyHtoD_v2
  int (*download)(void* to, CudaAddress from, std::size_t bytes);  ///< cuMemcpyDtoH_v2
  /// cuPointerGetAttribute
  int (*pointer_attribute)(void* value, int attribute, CudaAddress address);
  /// cuMemsetD8Async
  int (*fill_async)(CudaAddress to, unsigned char value, std::size_t bytes, void* stream);

  int (*create_stream)(void** stream, unsigned flags);  ///< cuStreamCreate
  int (*destroy_stream)(void* stream);                  ///< cuStreamDestroy_v2
  int (*synchronize_stream)(void* stream);              ///< cuStreamSynchronize
  /// cuStreamWaitEvent
  int (*wait_event)(void* stream, CudaEventHandle event, unsigned flags);
  int (*create_event)(CudaEventHandle* event, unsigned flags);  ///< cuEventCreate
  int (*destroy_event)(CudaEventHandle event);                  ///< cuEventDestroy_v2
  int (*record_event)(CudaEventHandle event, void* stream);     ///< cuEventRecord
  int (*synchronize_event)(CudaEventHandle event);              ///< cuEventSynchronize
  /// cuEventElapsedTime
  int (*elapsed_ms)(float* milliseconds, CudaEventHandle from, CudaEventHandle to);

  int (*begin_capture)(void* stream, int mode);              ///< cuStreamBeginCapture_v2
  int (*end_capture)(void* stream, CudaGraphHandle* graph);  ///< cuStreamEndCapture
  /// cuGraphInstantiateWithFlags
  int (*instantiate)(CudaGraphExecHandle* executable, CudaGraphHandle graph, std::uint64_t flags);
  int (*launch_graph)(CudaGraphExecHandle executable, void* stream);  ///< cuGraphLaunch
  int (*destroy_executable)(CudaGraphExecHandle executable);          ///< cuGraphExecDestroy
  int (*destroy_graph)(CudaGraphHandle graph);                        ///< cuGraphDestroy

  /// cuModuleLoadDataEx
  int (*load_module)(CudaModuleHandle* module, const void* image, unsigned count, int* options,
                     void** values);
  int (*unload_module)(CudaModuleHandle module);  ///< cuModuleUnload
  /// cuModuleGetFunction
  int (*function)(CudaFunctionHandle* function, CudaModuleHandle module, const char* name);
  /// cuFuncSetAttribute
  int (*set_function_attribute)(CudaFunctionHandle function, int attribute, int value);
  int (*load_function)(CudaFunctionHandle function);  ///< cuFuncLoad, CUDA 12.4; may be null
  /// cuLaunchKernel
  int (*launch)(CudaFunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                void* stream, void** parameters, void** extra);
  /// cuOccupancyMaxActiveBlocksPerMultiprocessor
  int (*active_blocks)(int* blocks, CudaFunctionHandle function, int threads,
                       std::size_t dynamic_shared_bytes);
};

/// The functions as `library` exports them. Throws NotSupported if one that is needed is missing.
[[nodiscard]] CudaApi find_cuda_api(const DynamicLibrary& library);

/// An initialized CUDA driver with at least one device. Immutable, so it may be used from any
/// thread; the library stays in the process once loaded.
class CudaDriver {
 public:
  /// Loads `library`, else libcuda.so.1, and initializes it. Throws NotSupported, in one line, if
  /// there is no such library, it is not a driver, or the driver finds no device it can use.
  [[nodiscard]] static std::shared_ptr<const CudaDriver> load(
      const std::optional<std::filesystem::path>& library = std::nullopt);

  [[nodiscard]] const CudaApi& api() const noexcept { return api_; }
  /// Where the loader found it, absolute.
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return library_.path(); }
  /// The newest CUDA it supports, 1000 * major + 10 * minor: 13000 is CUDA 13.0.
  [[nodiscard]] int version() const noexcept { return version_; }

  /// "CUDA_ERROR_INVALID_VALUE (1), invalid argument".
  [[nodiscard]] std::string describe(int result) const;

  /// Throws DeviceError unless `result` is success. `what()` says what was being done, as in
  /// "copy 4096 bytes to device 0"; it is called only then.
  template <typename What>
  void check(int result, const What& what) const {
    if (result != k_cuda_success) fail(result, what());
  }

  /// Throws DeviceError "cannot `what`: ...".
  [[noreturn]] void fail(int result, const std::string& what) const;

 private:
  explicit CudaDriver(DynamicLibrary library);

  DynamicLibrary library_;
  CudaApi api_;
  int version_ = 0;
};

}  // namespace spjit
