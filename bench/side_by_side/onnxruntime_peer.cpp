/// @file
/// ONNX Runtime, loaded at run time: a session a layer, all on one pool of threads.

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/dynamic_library.hpp"
#include "bench/host/buffers.hpp"
#include "bench/side_by_side/onnx_model.hpp"
#include "bench/side_by_side/peers.hpp"
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

/// B or C as ONNX Runtime's users have them, a row a token: `[n x features]`. NaN at first.
class Activations {
 public:
  Activations(std::int64_t features, std::int64_t n)
      : features_(features),
        n_(n),
        values_(features * n, std::numeric_limits<float>::quiet_NaN()) {}

  [[nodiscard]] bool are(std::int64_t features, std::int64_t n) const {
    return features_ == features && n_ == n;
  }
  /// `rows`: `[features x n]`.
  void read(const float* rows) {
    for (std::int64_t i = 0; i < features_; ++i) {
      for (std::int64_t j = 0; j < n_; ++j) values_.data()[j * features_ + i] = rows[i * n_ + j];
    }
  }
  void write(float* rows) const {
    for (std::int64_t i = 0; i < features_; ++i) {
      for (std::int64_t j = 0; j < n_; ++j) rows[i * n_ + j] = values_.data()[j * features_ + i];
    }
  }
  [[nodiscard]] Owned<Value> tensor(const Api& api) {
    const auto memory = api.make<MemoryInfo, CreateCpuMemoryInfo, ReleaseMemoryInfo>(
        k_arena_allocator, k_default_memory);
    const std::array shape = {n_, features_};
    return api.make<Value, CreateTensorWithData, ReleaseValue>(
        memory.get(), values_.data(), sizeof(float) * static_cast<std::size_t>(features_ * n_),
        shape.data(), shape.size(), k_float_element);
  }

 private:
  std::int64_t features_;
  std::int64_t n_;
  bench::AlignedFloats values_;
};

Owned<Session> make_session(const Api& api, const Threads& threads, const Problem& problem) {
  const auto options = api.make<SessionOptions, CreateSessionOptions, ReleaseSessionOptions>();
  api.call<DisableThreadsOfSession>(options.get());
  const std::string model = onnx_matmul_model(
      {problem.matrix->rows, problem.matrix->cols, problem.n, require_dense(problem)});
  return api.make<Session, CreateSessionFromArray, ReleaseSession>(
      threads.environment.get(), model.data(), model.size(), options.get());
}

class OnnxRunnable final : public Runnable {
 public:
  OnnxRunnable(Api api, std::shared_ptr<const Threads> threads, const Problem& problem,
               std::shared_ptr<Activations> input, std::shared_ptr<Activations> output)
      : api_(std::move(api)),
        threads_(std::move(threads)),
        input_(std::move(input)),
        output_(std::move(output)),
        session_(make_session(api_, *threads_, problem)),
        x_(input_->tensor(api_)),
        y_(output_->tensor(api_)),
        c_(problem.c) {}

  void run() override {
    const Value* const input = x_.get();
    Value* output = y_.get();
    api_.call<Run>(session_.get(), nullptr, &k_onnx_input, &input, std::size_t{1}, &k_onnx_output,
                   std::size_t{1}, &output);
  }

  void publish() override { output_->write(c_); }

 private:
  Api api_;
  std::shared_ptr<const Threads> threads_;
  std::shared_ptr<Activations> input_;
  std::shared_ptr<Activations> output_;
  Owned<Session> session_;
  Owned<Value> x_;
  Owned<Value> y_;
  float* c_;
};

class OnnxPeer final : public Peer {
 public:
  OnnxPeer(PeerInfo info, Api api) : Peer(std::move(info)), api_(std::move(api)) {}

  std::unique_ptr<Runnable> prepare(const Problem& problem) override {
    const CsrMatrix& a = *problem.matrix;
    auto threads = threads_of(problem.threads);
    auto [input, is_new] = activations_at(problem.b, a.cols, problem.n);
    if (is_new) input->read(problem.b);
    auto output = activations_at(problem.c, a.rows, problem.n).first;
    return std::make_unique<OnnxRunnable>(api_, std::move(threads), problem, std::move(input),
                                          std::move(output));
  }

 private:
  std::shared_ptr<const Threads> threads_of(int count) {
    std::shared_ptr<const Threads> threads = threads_.lock();
    if (threads == nullptr) {
      threads = std::make_shared<const Threads>(make_threads(api_, count));
      threads_ = threads;
    }
    if (threads->count != count) {
      throw NotSupported(
          fmt::format("ONNX Runtime has one pool of threads a process, and one of {} is in use",
                      threads->count));
    }
    return threads;
  }

  /// B or C at `place` in the other layout, and whether nobody has it yet: a layer reads what
  /// another wrote.
  std::pair<std::shared_ptr<Activations>, bool> activations_at(const float* place,
                                                               std::int64_t features,
                                                               std::int64_t n) {
    std::weak_ptr<Activations>& known = activations_[place];
    std::shared_ptr<Activations> found = known.lock();
    const bool is_new = found == nullptr || !found->are(features, n);
    if (is_new) {
      found = std::make_shared<Activations>(features, n);
      known = found;
    }
    return {std::move(found), is_new};
  }

  Api api_;
  std::weak_ptr<const Threads> threads_;
  std::map<const float*, std::weak_ptr<Activations>> activations_;
};

}  // namespace

std::unique_ptr<Peer> make_onnxruntime_peer(const PeerSettings& settings) {
  PeerInfo info{"onnxruntime", "", "dense", "", "packing"};
  const std::filesystem::path file = settings.onnxruntime_folder / k_file;
  auto library = DynamicLibrary::try_open(file, DynamicLibrary::Lifetime::resident);
  if (!library) {
    info.missing = fmt::format("{} cannot be loaded; {}", file.string(), k_bring_it);
    return make_missing_peer(std::move(info));
  }
  const ApiBase* const base = library->require<GetApiBase>("OrtGetApiBase")();
  ApiTable* const table = base->get_api(k_api_version);
  info.version = fmt::format("ONNX Runtime {}, MatMul, W constant", base->version());
  if (table == nullptr) {
    info.missing =
        fmt::format("{} is older than API version {}; {}", info.version, k_api_version, k_bring_it);
    return make_missing_peer(std::move(info));
  }
  return std::make_unique<OnnxPeer>(std::move(info), Api(*std::move(library), table));
}

}  // namespace spjit::side_by_side
