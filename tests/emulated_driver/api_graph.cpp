// Stream capture and graphs.

#include <algorithm>
#include <utility>

#include "emulated_driver/driver.hpp"
#include "spjit/export.hpp"

// The names are CUDA's.
// NOLINTBEGIN(readability-identifier-naming)

namespace {

using namespace spjit::emulated;

// `use(driver, context, stream)` for a stream that was created.
template <typename Use>
int with_stream(const void* handle, Use&& use) {
  return with_context([&](Driver& driver, Context& context) {
    const auto found = context.streams.find(handle);
    return found == context.streams.end() ? Result::invalid_handle
                                          : use(driver, context, *found->second);
  });
}

template <typename Use>
int with_graph(const void* handle, Use&& use) {
  return with_context([&](Driver& driver, Context& context) {
    const auto found = context.graphs.find(handle);
    return found == context.graphs.end() ? Result::invalid_handle
                                         : use(driver, context, *found->second);
  });
}

void* keep(Context& context, std::vector<Operation> operations) {
  auto graph = std::make_unique<Graph>(Graph{std::move(operations)});
  void* handle = graph.get();
  context.graphs.emplace(handle, std::move(graph));
  return handle;
}

int destroy(const void* handle) {
  return with_context([&](Driver&, Context& context) {
    return context.graphs.erase(handle) == 1 ? Result::success : Result::invalid_handle;
  });
}

Result do_all(Driver& driver, const std::vector<Operation>& operations) {
  for (const Operation& operation : operations) {
    const Result result = operation(driver);
    if (result != Result::success) {
      return result;
    }
  }
  return Result::success;
}

}  // namespace

extern "C" {

SPJIT_EXPORT int cuStreamBeginCapture_v2(void* stream, int mode) {
  if (reinterpret_cast<std::uintptr_t>(stream) <= 1) {
    return with_context([](Driver&, Context&) { return Result::stream_capture_unsupported; });
  }
  return with_stream(stream, [&](Driver&, Context&, Stream& target) {
    if (mode < 0 || mode > 2) {
      return Result::invalid_value;
    }
    if (target.capture) {
      return Result::illegal_state;
    }
    target.capture = Capture{static_cast<CaptureMode>(mode), std::this_thread::get_id(), false, {}};
    return Result::success;
  });
}

SPJIT_EXPORT int cuStreamEndCapture(void* stream, void** graph) {
  *graph = nullptr;
  return with_stream(stream, [&](Driver&, Context& context, Stream& target) {
    if (!target.capture) {
      return Result::illegal_state;
    }
    if (target.capture->mode != CaptureMode::relaxed &&
        target.capture->thread != std::this_thread::get_id()) {
      return Result::stream_capture_wrong_thread;
    }
    Capture capture = std::move(*target.capture);
    target.capture.reset();
    if (capture.is_invalid) {
      return Result::stream_capture_invalidated;
    }
    *graph = keep(context, std::move(capture.operations));
    return Result::success;
  });
}

SPJIT_EXPORT int cuStreamIsCapturing(void* stream, int* status) {
  if (reinterpret_cast<std::uintptr_t>(stream) <= 2) {
    *status = 0;
    return with_context([](Driver&, Context&) { return Result::success; });
  }
  return with_stream(stream, [&](Driver&, Context&, const Stream& target) {
    const bool is_invalid = target.capture && target.capture->is_invalid;
    *status = is_invalid ? 2 : static_cast<int>(target.capture.has_value());
    return Result::success;
  });
}

SPJIT_EXPORT int cuGraphInstantiateWithFlags(void** executable, void* graph, std::uint64_t flags) {
  return with_graph(graph, [&](Driver&, Context& context, const Graph& found) {
    if (flags != 0) {
      return Result::not_supported;
    }
    *executable = keep(context, found.operations);
    return Result::success;
  });
}

SPJIT_EXPORT int cuGraphLaunch(void* executable, void* stream) {
  return with_graph(executable, [&](Driver& driver, Context& context, const Graph& found) {
    if (!is_stream(context, stream)) {
      return Result::invalid_handle;
    }
    return submit(driver, context, stream, [operations = found.operations](Driver& running) {
      return do_all(running, operations);
    });
  });
}

SPJIT_EXPORT int cuGraphExecDestroy(void* executable) { return destroy(executable); }

SPJIT_EXPORT int cuGraphDestroy(void* graph) { return destroy(graph); }

}  // extern "C"

// NOLINTEND(readability-identifier-naming)
