#include "bench/side_by_side/onnxruntime_library.hpp"

#include <fmt/format.h>

#include <cstddef>

#include "base/dynamic_library.hpp"
#include "bench/side_by_side/onnx_model.hpp"
#include "bindings/ort/onnxruntime_abi.hpp"
#include "spjit/error.hpp"

namespace spjit::side_by_side {
namespace {

using namespace ort;

constexpr std::uint32_t k_api_version = 12;

constexpr const char* k_file = "libonnxruntime.so.1";
constexpr const char* k_bring_it =
    "'scripts/build/setup_peers.sh' brings it from PyPI; --onnxruntime FOLDER";

template <class Object>
using Owned = std::unique_ptr<Object, void (*)(Object*)>;

/// OrtApi. Copies share the library.
class Api {
 public:
  Api(DynamicLibrary library, ApiTable* table)
      : library_(std::make_shared<DynamicLibrary>(std::move(library))), table_(table) {}

  /// Throws Error with what ONNX Runtime says if it fails.
  template <class Called, class... Arguments>
  void call(Arguments... arguments) const {
    const Owned<Status> status(Called::of(table_)(arguments...), ReleaseStatus::of(table_));
    if (status == nullptr) return;
    throw Error(fmt::format("ONNX Runtime: {}", GetErrorMessage::of(table_)(status.get())));
  }

  /// What `Create` makes.
  template <class Object, class Create, class Destroy, class... Arguments>
  Owned<Object> make(Arguments... arguments) const {
    Object* made = nullptr;
    call<Create>(arguments..., &made);
    return Owned<Object>(made, Destroy::of(table_));
  }

 private:
  std::shared_ptr<DynamicLibrary> library_;
  ApiTable* table_;
};

/// The threads of all sessions.
struct Threads {
  int count;
  Owned<Environment> environment;
};

Threads make_threads(const Api& api, int count) {
  const auto options =
      api.make<ThreadingOptions, CreateThreadingOptions, ReleaseThreadingOptions>();
  api.call<SetIntraOpThreads>(options.get(), count);
  api.call<SetInterOpThreads>(options.get(), 1);
  return {count, api.make<Environment, CreateEnvironmentWithThreads, ReleaseEnvironment>(
                     k_log_errors, "spjit", options.get())};
}

Owned<Session> make_session(const Api& api, const Threads& threads, const std::string& model) {
  const auto options = api.make<SessionOptions, CreateSessionOptions, ReleaseSessionOptions>();
  api.call<DisableThreadsOfSession>(options.get());
  return api.make<Session, CreateSessionFromArray, ReleaseSession>(
      threads.environment.get(), model.data(), model.size(), options.get());
}

Owned<Value> make_tensor(const Api& api, const OnnxTensor& tensor) {
  const auto memory = api.make<MemoryInfo, CreateCpuMemoryInfo, ReleaseMemoryInfo>(
      k_arena_allocator, k_default_memory);
  std::size_t bytes = sizeof(float);
  for (const std::int64_t size : tensor.shape) bytes *= static_cast<std::size_t>(size);
  return api.make<Value, CreateTensorWithData, ReleaseValue>(
      memory.get(), tensor.data, bytes, tensor.shape.data(), tensor.shape.size(), k_float_element);
}

class SessionRunnable final : public Runnable {
 public:
  SessionRunnable(Api api, std::shared_ptr<const Threads> threads, const std::string& model,
                  const OnnxTensor& x, const OnnxTensor& y)
      : api_(std::move(api)),
        threads_(std::move(threads)),
        session_(make_session(api_, *threads_, model)),
        x_(make_tensor(api_, x)),
        y_(make_tensor(api_, y)) {}

  void run() override {
    const Value* const input = x_.get();
    Value* output = y_.get();
    api_.call<Run>(session_.get(), nullptr, &k_onnx_input, &input, std::size_t{1}, &k_onnx_output,
                   std::size_t{1}, &output);
  }

 private:
  Api api_;
  std::shared_ptr<const Threads> threads_;
  Owned<Session> session_;
  Owned<Value> x_;
  Owned<Value> y_;
};

}  // namespace

struct OnnxRuntime::Library {
  std::string version;
  Api api;
  std::weak_ptr<const Threads> threads = {};

  std::shared_ptr<const Threads> threads_of(int count) {
    std::shared_ptr<const Threads> found = threads.lock();
    if (found == nullptr) {
      found = std::make_shared<const Threads>(make_threads(api, count));
      threads = found;
    }
    if (found->count != count) {
      throw NotSupported(fmt::format(
          "ONNX Runtime has one pool of threads a process, and one of {} is in use", found->count));
    }
    return found;
  }
};

OnnxRuntime::Loaded OnnxRuntime::load(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / k_file;
  auto library = DynamicLibrary::try_open(file, DynamicLibrary::Lifetime::resident);
  if (!library) {
    return {{}, fmt::format("{} cannot be loaded; {}", file.string(), k_bring_it)};
  }
  const ApiBase* const base = library->require<GetApiBase>("OrtGetApiBase")();
  ApiTable* const table = base->get_api(k_api_version);
  const std::string version = base->version();
  if (table == nullptr) {
    return {{},
            fmt::format("ONNX Runtime {} is older than API version {}; {}", version, k_api_version,
                        k_bring_it)};
  }
  return {OnnxRuntime(std::make_shared<Library>(Library{version, Api(*std::move(library), table)})),
          {}};
}

const std::string& OnnxRuntime::version() const noexcept { return library_->version; }

std::unique_ptr<Runnable> OnnxRuntime::prepare(const std::string& model, int threads,
                                               const OnnxTensor& x, const OnnxTensor& y) const {
  return std::make_unique<SessionRunnable>(library_->api, library_->threads_of(threads), model, x,
                                           y);
}

}  // namespace spjit::side_by_side
