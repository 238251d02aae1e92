/// @file
/// scipy.sparse in a Python process, which times its own calls.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "bench/side_by_side/line_process.hpp"
#include "bench/side_by_side/peers.hpp"
#include "spjit/error.hpp"
#include "spjit/matrix_io.hpp"

namespace spjit::side_by_side {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

/// What the process answers, read as JSON. Throws Error with what it says went wrong.
Json checked(const std::string& answer) {
  Json json = Json::parse(answer, nullptr, false);
  if (json.is_discarded() || !json.is_object()) {
    throw Error(fmt::format("scipy_peer.py answered '{}'; expected a JSON object", answer));
  }
  if (json.contains("error")) throw Error(json["error"].get<std::string>());
  return json;
}

/// The process and the files that carry B to it and C back.
struct Session {
  std::shared_ptr<LineProcess> process;
  fs::path matrix;
  fs::path b;
  fs::path c;
};

class ScipyRunnable final : public Runnable {
 public:
  ScipyRunnable(Session session, const Problem& problem)
      : session_(std::move(session)), c_(problem.c) {
    SaveOptions stored;
    stored.compress = false;
    save_matrix(*problem.matrix, session_.matrix, stored);
    const std::int64_t k = problem.matrix->cols;
    save_dense({k, problem.n, {problem.b, problem.b + k * problem.n}}, session_.b);
    (void)checked(session_.process->ask(Json{
        {"do", "load"},
        {"matrix", session_.matrix.string()},
        {"b", session_.b.string()},
        {"n", problem.n}}.dump()));
  }

  void run() override {
    const auto begin = Clock::now();
    const std::string answer = session_.process->ask("run");
    std::int64_t own_ns = 0;
    const auto parsed = std::from_chars(answer.data(), answer.data() + answer.size(), own_ns);
    if (parsed.ec != std::errc() || own_ns < 0) (void)checked(answer);
    overhead_ += Clock::now() - begin - std::chrono::nanoseconds(own_ns);
  }

  void publish() override {
    (void)checked(session_.process->ask(Json{{"do", "store"}, {"c", session_.c.string()}}.dump()));
    const DenseMatrix result = load_dense(session_.c);
    std::copy(result.values.begin(), result.values.end(), c_);
  }

  void forget() override { (void)checked(session_.process->ask(Json{{"do", "flush"}}.dump())); }

  [[nodiscard]] std::chrono::nanoseconds overhead() const override { return overhead_; }

 private:
  Session session_;
  float* c_;
  std::chrono::nanoseconds overhead_{0};
};

class ScipyPeer final : public Peer {
 public:
  ScipyPeer(PeerInfo info, Session session) : Peer(std::move(info)), session_(std::move(session)) {}

  std::unique_ptr<Runnable> prepare(const Problem& problem) override {
    if (problem.threads > 1) throw NotSupported("scipy's products have one thread");
    return std::make_unique<ScipyRunnable>(session_, problem);
  }

 private:
  Session session_;
};

}  // namespace

std::unique_ptr<Peer> make_scipy_peer(const PeerSettings& settings) {
  PeerInfo info{"scipy", "", "sparse"};
  for (const std::string& python : settings.pythons) {
    try {
      auto process = std::make_shared<LineProcess>(
          std::vector<std::string>{python, SPJIT_SOURCE_DIR "/bench/side_by_side/scipy_peer.py"});
      info.version = checked(process->read_line()).at("version").get<std::string>();
      return std::make_unique<ScipyPeer>(
          std::move(info), Session{std::move(process), settings.scratch / "a.npz",
                                   settings.scratch / "b.npy", settings.scratch / "c.npy"});
    } catch (const Error& error) {
      info.missing += fmt::format("{}: {}; ", python, error.what());
    }
  }
  info.missing += "'scripts/build/setup_peers.sh' brings it from PyPI; --python PROGRAM";
  return make_missing_peer(std::move(info));
}

}  // namespace spjit::side_by_side
