#include "emulated_driver/capture.hpp"

#include <utility>

#include "emulated_driver/driver.hpp"

namespace spjit::emulated {

namespace {

constexpr std::uintptr_t k_legacy_stream = 1;
constexpr std::uintptr_t k_thread_stream = 2;

Stream* find_stream(Context& context, const void* stream) {
  const auto found = context.streams.find(stream);
  return found == context.streams.end() ? nullptr : found->second.get();
}

// Makes every capture invalid that `is_hurt` holds for; `error` if there is one.
template <typename Predicate>
Result invalidate(Context& context, Result error, Predicate&& is_hurt) {
  Result result = Result::success;
  for (const auto& [handle, stream] : context.streams) {
    if (stream->capture && is_hurt(*stream)) {
      stream->capture->is_invalid = true;
      result = error;
    }
  }
  return result;
}

// The legacy default stream waits for the blocking streams, which a captured one cannot be waited
// for.
Result use_legacy_stream(Context& context) {
  return invalidate(context, Result::stream_capture_implicit,
                    [](const Stream& stream) { return stream.is_blocking; });
}

}  // namespace

bool is_stream(const Context& context, const void* stream) {
  return reinterpret_cast<std::uintptr_t>(stream) <= k_thread_stream ||
         context.streams.contains(stream);
}

Result submit(Driver& driver, Context& context, const void* stream, Operation operation) {
  if (reinterpret_cast<std::uintptr_t>(stream) <= k_legacy_stream) {
    const Result result = use_legacy_stream(context);
    return result == Result::success ? operation(driver) : result;
  }
  Stream* target = find_stream(context, stream);
  if (target == nullptr || !target->capture) {
    return operation(driver);
  }
  if (target->capture->is_invalid) {
    return Result::stream_capture_invalidated;
  }
  target->capture->operations.push_back(std::move(operation));
  return Result::success;
}

Result wait_for_stream(Context& context, const void* stream) {
  if (reinterpret_cast<std::uintptr_t>(stream) <= k_legacy_stream) {
    return use_legacy_stream(context);
  }
  Stream* target = find_stream(context, stream);
  if (target == nullptr || !target->capture) {
    return Result::success;
  }
  target->capture->is_invalid = true;
  return Result::stream_capture_unsupported;
}

Result wait_for_all(Context& context) {
  return invalidate(context, Result::stream_capture_unsupported,
                    [](const Stream&) { return true; });
}

Result unsafe_call(Context& context) {
  return invalidate(context, Result::stream_capture_unsupported, [](const Stream& stream) {
    const Capture& capture = *stream.capture;
    return capture.mode == CaptureMode::global || (capture.mode == CaptureMode::thread_local_ &&
                                                   capture.thread == std::this_thread::get_id());
  });
}

}  // namespace spjit::emulated
