// Streams and events. Everything runs where it is called, so streams and events only have to exist
// and to follow the rules of captures.

#include "emulated_driver/driver.hpp"
#include "spjit/export.hpp"

// The names are CUDA's.
// NOLINTBEGIN(readability-identifier-naming)

namespace {

using namespace spjit::emulated;

Event* find_event(const Context& context, const void* handle) {
  const auto found = context.events.find(handle);
  return found == context.events.end() ? nullptr : found->second.get();
}

bool is_captured(const Context& context, const void* stream) {
  const auto found = context.streams.find(stream);
  return found != context.streams.end() && found->second->capture.has_value();
}

int wait_on_host(void* stream) {
  return with_context([&](Driver&, Context& context) {
    return is_stream(context, stream) ? wait_for_stream(context, stream) : Result::invalid_handle;
  });
}

int ask_event(void* event) {
  return with_context([&](Driver&, Context& context) {
    const Event* found = find_event(context, event);
    if (found == nullptr) {
      return Result::invalid_handle;
    }
    return found->is_captured ? Result::captured_event : Result::success;
  });
}

}  // namespace

extern "C" {

SPJIT_EXPORT int cuStreamCreate(void** stream, unsigned flags) {
  return with_context([&](Driver&, Context& context) {
    if (flags > 1) {
      return Result::invalid_value;
    }
    auto made = std::make_unique<Stream>();
    made->is_blocking = flags == 0;  // 1 is CU_STREAM_NON_BLOCKING
    *stream = made.get();
    context.streams.emplace(made.get(), std::move(made));
    return Result::success;
  });
}

SPJIT_EXPORT int cuStreamDestroy_v2(void* stream) {
  return with_context([&](Driver&, Context& context) {
    return context.streams.erase(stream) == 1 ? Result::success : Result::invalid_handle;
  });
}

SPJIT_EXPORT int cuStreamSynchronize(void* stream) { return wait_on_host(stream); }

SPJIT_EXPORT int cuStreamQuery(void* stream) { return wait_on_host(stream); }

SPJIT_EXPORT int cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  return with_context([&](Driver& driver, Context& context) {
    const Event* found = find_event(context, event);
    if (found == nullptr || !is_stream(context, stream)) {
      return Result::invalid_handle;
    }
    if (found->is_captured && !is_captured(context, stream)) {
      driver.log("a capture over several streams is not emulated");
      return Result::not_supported;
    }
    return flags == 0 ? Result::success : Result::not_supported;
  });
}

SPJIT_EXPORT int cuEventCreate(void** event, unsigned /*flags*/) {
  return with_context([&](Driver&, Context& context) {
    auto made = std::make_unique<Event>();
    *event = made.get();
    context.events.emplace(made.get(), std::move(made));
    return Result::success;
  });
}

SPJIT_EXPORT int cuEventRecord(void* event, void* stream) {
  return with_context([&](Driver& driver, Context& context) {
    Event* found = find_event(context, event);
    if (found == nullptr || !is_stream(context, stream)) {
      return Result::invalid_handle;
    }
    // A captured record only orders what is captured: a graph's launch does not repeat it.
    const Result result = submit(driver, context, stream, [](Driver&) { return Result::success; });
    if (result == Result::success) {
      found->is_captured = is_captured(context, stream);
      found->is_recorded = !found->is_captured;
      found->recorded = std::chrono::steady_clock::now();
    }
    return result;
  });
}

SPJIT_EXPORT int cuEventSynchronize(void* event) { return ask_event(event); }

SPJIT_EXPORT int cuEventQuery(void* event) { return ask_event(event); }

/// Milliseconds of the host's clock: of the interpreter, so of no use as a measurement.
SPJIT_EXPORT int cuEventElapsedTime(float* milliseconds, void* from, void* to) {
  return with_context([&](Driver&, Context& context) {
    const Event* first = find_event(context, from);
    const Event* last = find_event(context, to);
    if (first == nullptr || last == nullptr) {
      return Result::invalid_handle;
    }
    if (first->is_captured || last->is_captured) {
      return Result::captured_event;
    }
    if (!first->is_recorded || !last->is_recorded) {
      return Result::invalid_handle;
    }
    const auto span = last->recorded - first->recorded;
    *milliseconds = std::chrono::duration<float, std::milli>(span).count();
    return Result::success;
  });
}

SPJIT_EXPORT int cuEventDestroy_v2(void* event) {
  return with_context([&](Driver&, Context& context) {
    return context.events.erase(event) == 1 ? Result::success : Result::invalid_handle;
  });
}

}  // extern "C"

// NOLINTEND(readability-identifier-naming)
