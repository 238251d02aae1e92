#include "bindings/ort/session_kernel.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "bindings/ort/open_bundles.hpp"

namespace spjit::ort {
namespace {

/// Who runs a kernel in this thread: its callback for threads has to know.
struct Caller {
  Api api;
  const KernelContext* context;
  std::string error = {};
};

/// Of this thread; null while it runs none.
Caller*& caller_of_thread() noexcept {
  thread_local Caller* caller = nullptr;  // NOLINT: one a thread
  return caller;
}

struct Tasks {
  spjit_task task;
  void* context;
};

/// spjit_parallel_for in the pool of the session.
void in_session_pool(void*, std::int32_t count, spjit_task task, void* context) {
  Caller& caller = *caller_of_thread();
  Tasks tasks{task, context};
  const auto one = [](void* given, std::size_t index) {
    const Tasks& of = *static_cast<const Tasks*>(given);
    of.task(of.context, static_cast<std::int32_t>(index));  // below `count`
  };
  try {
    caller.api.call<ParallelFor>(caller.context, one, static_cast<std::size_t>(count),
                                 std::size_t{0}, static_cast<void*>(&tasks));
  } catch (const Error& error) {
    caller.error = error.what();
  }
}

/// The entry of the layer for this CPU.
std::int64_t entry_of(const spjit_bundle* bundle, const KernelSource& source) {
  std::int64_t entry = -1;
  if (spjit_bundle_find_layer(bundle, source.layer.c_str(), nullptr, &entry) != SPJIT_OK) {
    throw_last_error();
  }
  if (entry < 0) {
    throw Error(fmt::format("{}: there is no layer '{}'; expected the kernels of this model",
                            source.path, source.layer));
  }
  const char* json = nullptr;
  if (spjit_bundle_entry_info(bundle, entry, &json) != SPJIT_OK) throw_last_error();
  if (!computes(json, source.problem)) {
    throw Error(
        fmt::format("{}: the layer '{}' is another one: its weights or what it computes "
                    "are not those of this model; save model and kernels together",
                    source.path, source.layer));
  }
  return entry;
}

}  // namespace

OwnedKernel load_kernel(const spjit_bundle* bundle, const KernelSource& source) {
  spjit_load_options options{};
  options.struct_size = sizeof options;
  options.threads = source.threads;
  options.parallel_for = in_session_pool;
  spjit_kernel* kernel = nullptr;
  if (spjit_bundle_load(bundle, entry_of(bundle, source), &options, &kernel) != SPJIT_OK) {
    throw_last_error();
  }
  return OwnedKernel(kernel);
}

const char* info_of(const spjit_kernel* kernel) {
  const char* json = nullptr;
  if (spjit_kernel_info(kernel, &json) != SPJIT_OK) throw_last_error();
  return json;
}

void run_in_session(const Api& api, const KernelContext* context, FunctionRef<int()> run) {
  Caller caller{api, context};
  caller_of_thread() = &caller;
  const int status = run();
  caller_of_thread() = nullptr;
  if (status != SPJIT_OK) throw_last_error();
  if (!caller.error.empty()) throw Error(caller.error);
}

Tensor tensor_of(const Api& api, const Value* value) {
  const auto info = api.make<TensorInfo, GetTensorInfo, ReleaseTensorInfo>(value);
  Shape shape(api.get<std::size_t, GetDimensionCount>(info.get()));
  api.call<GetDimensions>(info.get(), shape.data(), shape.size());
  return {api.get<void*, GetTensorData>(value), std::move(shape),
          api.get<int, GetElementType>(info.get())};
}

void check_shape(const Tensor& tensor, const char* name, const Shape& expected) {
  if (tensor.shape == expected) return;
  throw InvalidArgument(fmt::format("{} has the shape [{}]; expected [{}]", name,
                                    fmt::join(tensor.shape, ", "), fmt::join(expected, ", ")));
}

std::optional<Tensor> optional_input(const Api& api, const KernelContext* context,
                                     std::size_t index, const char* name, const Shape& expected) {
  const auto* const value = api.get<const Value*, GetInput>(context, index);
  if (value == nullptr) return {};
  Tensor tensor = tensor_of(api, value);
  check_shape(tensor, name, expected);
  return tensor;
}

std::int64_t count(Shape::const_iterator first, Shape::const_iterator last) {
  std::int64_t elements = 1;
  for (; first != last; ++first) elements *= *first;
  return elements;
}

}  // namespace spjit::ort
