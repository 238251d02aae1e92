#include "bench/side_by_side/onnxruntime_library.hpp"

#include <fmt/format.h>

#include <cstddef>

#include "base/dynamic_library.hpp"
#include "bench/side_by_side/onnx_model.hpp"
#include "spjit/error.hpp"

namespace spjit::side_by_side {
namespace {

// From onnxruntime_c_api.h, which is not in the wheel and not in Debian 12. OrtApi is a struct of
// pointers to functions that only grows at its end: a function keeps its place in all versions.
struct Status;  // null: success
struct Environment;
struct ThreadingOptions;
struct SessionOptions;
struct Session;
struct MemoryInfo;
struct Value;
struct RunOptions;

using Slot = void();
using ApiTable = Slot* const;  ///< the first of them
struct ApiBase {
  ApiTable* (*get_api)(std::uint32_t version);
  const char* (*version)();
};
using GetApiBase = const ApiBase*();

constexpr std::uint32_t k_api_version = 12;
constexpr int k_log_errors = 3;
constexpr int k_arena_allocator = 1;
constexpr int k_default_memory = 0;
constexpr int k_float_element = 1;

/// A function of OrtApi: its type, and its place.
template <class Signature, std::size_t place>
struct Function {
  static Signature* of(ApiTable* table) { return reinterpret_cast<Signature*>(table[place]); }
};
template <class Object, std::size_t place>
using Release = Function<void(Object*), place>;

using GetErrorMessage = Function<const char*(const Status*), 2>;
using CreateSessionFromArray =
    Function<Status*(const Environment*, const void* model, std::size_t bytes,
                     const SessionOptions*, Session**),
             8>;
using Run =
    Function<Status*(Session*, const RunOptions*, const char* const* input_names,
                     const Value* const* inputs, std::size_t input_count,
                     const char* const* output_names, std::size_t output_count, Value** outputs),
             9>;
using CreateSessionOptions = Function<Status*(SessionOptions**), 10>;
using CreateTensorWithData =
    Function<Status*(const MemoryInfo*, void* data, std::size_t bytes, const std::int64_t* shape,
                     std::size_t dimensions, int element_type, Value**),
             49>;
using CreateCpuMemoryInfo = Function<Status*(int allocator, int memory, MemoryInfo**), 69>;
using ReleaseEnvironment = Release<Environment, 92>;
using ReleaseStatus = Release<Status, 93>;
using ReleaseMemoryInfo = Release<MemoryInfo, 94>;
using ReleaseSession = Release<Session, 95>;
using ReleaseValue = Release<Value, 96>;
using ReleaseSessionOptions = Release<SessionOptions, 100>;
using CreateEnvironmentWithThreads =
    Function<Status*(int log_level, const char* name, const ThreadingOptions*, Environment**), 119>;
using DisableThreadsOfSession = Function<Status*(SessionOptions*), 120>;
using CreateThreadingOptions = Function<Status*(ThreadingOptions**), 121>;
using ReleaseThreadingOptions = Release<ThreadingOptions, 122>;
using SetIntraOpThreads = Function<Status*(ThreadingOptions*, int threads), 147>;
using SetInterOpThreads = Function<Status*(ThreadingOptions*, int threads), 148>;

constexpr const char* k_file = "libonnxruntime.so.1";
constexpr const char* k_bring_it =
    "'scripts/setup_peers.sh' brings it from PyPI; --onnxruntime FOLDER";

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
