// What spjit's Python asks a GPU about the arrays of other libraries.

#include <cstdint>
#include <optional>

#include "bindings/c/guard.hpp"
#include "runtime/cuda/cuda_memory.hpp"
#include "runtime/cuda/cuda_stream.hpp"
#include "runtime/cuda/local_gpus.hpp"

namespace spjit::python {

/// A GPU of this machine, for any thread.
struct Gpu {
  CudaContext context;
};

}  // namespace spjit::python

using spjit::python::Gpu;

/// GPU `ordinal`.
extern "C" __attribute__((visibility("default"))) int spjit_python_gpu_create(std::int32_t ordinal,
                                                                              Gpu** gpu) {
  return spjit::c::guarded([&] {
    Gpu*& result = spjit::c::result_of(gpu, "gpu");
    result = new Gpu{spjit::CudaContext(spjit::local_cuda_driver(), ordinal)};
  });
}

extern "C" __attribute__((visibility("default"))) void spjit_python_gpu_destroy(Gpu* gpu) {
  delete gpu;
}

/// The ordinal of the GPU that has this memory; -1 for memory of the host.
extern "C" __attribute__((visibility("default"))) int spjit_python_gpu_of_memory(
    const Gpu* gpu, std::uint64_t address, std::int32_t* ordinal) {
  return spjit::c::guarded([&] {
    spjit::c::require(ordinal, "ordinal");
    *ordinal = spjit::device_of_memory(gpu->context, address).value_or(-1);
  });
}

/// order_streams().
extern "C" __attribute__((visibility("default"))) int spjit_python_gpu_order(const Gpu* gpu,
                                                                             void* earlier,
                                                                             void* later) {
  return spjit::c::guarded([&] { spjit::order_streams(gpu->context, earlier, later); });
}
