#pragma once

/// @file
/// The interface of a library that is measured beside others. Plug-ins implement it, and the driver
/// sees nothing else of them.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "spjit/matrix.hpp"

namespace spjit::side_by_side {

/// C `[m x n]` = A `[m x k]` * B `[k x n]`, B and C row-major and contiguous, the same for all
/// libraries. Borrowed; must outlive what is prepared for it. A cache line behind B and C is
/// readable.
struct Problem {
  const CsrMatrix* matrix = nullptr;  ///< never null; sorted rows
  const float* dense = nullptr;       ///< A with its zeros, row-major; null: too large
  std::int64_t n = 0;
  int threads = 1;
  const float* b = nullptr;
  float* c = nullptr;
  std::int64_t network_nnz = 0;  ///< of all layers that run in turn; 0: it is alone
  /// Of convolutions; only plug-ins that say so take them.
  std::int64_t batch = 1;       ///< products with one A: B and C follow those before them
  const float* bias = nullptr;  ///< [m], and C is max(0, A * B + bias); null: C is the product
};

/// A library ready to compute one problem. Used by one thread.
class Runnable {
 public:
  Runnable() = default;
  Runnable(const Runnable&) = delete;
  Runnable& operator=(const Runnable&) = delete;
  virtual ~Runnable() = default;

  /// C = A * B, all of it. What is timed.
  virtual void run() = 0;

  /// How many products one run() computes.
  [[nodiscard]] virtual int products() const { return 1; }

  /// The members below are never timed.

  /// Takes B as it is now, for libraries that read it somewhere else.
  virtual void receive() {}
  /// Brings the result of the last run into C, for libraries that compute somewhere else.
  virtual void publish() {}
  /// Lets the library's own threads stop spinning: they would take time from whoever is next.
  virtual void rest() {}
  /// Empties caches the caller cannot reach, those of another process.
  virtual void forget() {}
  /// Time of the runs so far that was not the library's own: talking to another process.
  [[nodiscard]] virtual std::chrono::nanoseconds overhead() const { return {}; }
  /// The library's choice for this problem, in a few words; may be empty.
  [[nodiscard]] virtual std::string detail() const { return {}; }
};

struct PeerInfo {
  std::string name;
  std::string version;
  std::string kind;          ///< "dense": computes with A's zeros; "sparse"; "jit": code for this A
  std::string missing = {};  ///< why it cannot be used and what to install; empty: it can
  /// Part of prepare() that a user pays for once a matrix: "cold compile", "inspection", "packing".
  /// Empty: nothing to speak of.
  std::string prepare_kind = {};
  /// How many times fp32's rounding bound its result may be off.
  double rounding = 1;
};

/// TF32 has 10 bits of mantissa, and operands are cut to them: a product is off by 2^-9 at most,
/// 2^15 times the bound of one fp32 product. Twice that, because sums are cut too.
inline constexpr double k_tf32_rounding = 65536;

/// bf16 has 7 bits of mantissa: a product of rounded operands is off by 2^-8 at most, 2^16 times
/// the bound of one fp32 product, and C is rounded too. Four times that.
inline constexpr double k_bf16_rounding = 262144;

/// A library.
class Peer {
 public:
  explicit Peer(PeerInfo info) : info_(std::move(info)) {}
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  virtual ~Peer() = default;

  [[nodiscard]] const PeerInfo& info() const noexcept { return info_; }

  /// Throws Error, with the reason in one line, for a problem the library cannot compute. Only the
  /// one prepared last may run: numbers of threads are settings of the process in some libraries.
  [[nodiscard]] virtual std::unique_ptr<Runnable> prepare(const Problem& problem) = 0;

 private:
  PeerInfo info_;
};

/// Of peers, or of what else has an info().
template <class Pointers>
[[nodiscard]] std::vector<PeerInfo> infos_of(const Pointers& peers) {
  std::vector<PeerInfo> infos;
  for (const auto& peer : peers) infos.push_back(peer->info());
  return infos;
}

}  // namespace spjit::side_by_side
