#include "bench/side_by_side/peers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "spjit/error.hpp"

namespace spjit::side_by_side {
namespace {

using Factory = std::unique_ptr<Peer> (*)(const PeerSettings&);

struct Entry {
  const char* name;
  const char* kind;
  Factory make;          ///< null: not built in
  const char* packages;  ///< of Debian; what is needed to build it in
};

#ifdef SPJIT_HAVE_EIGEN
constexpr Factory k_make_eigen = make_eigen_peer;
#else
constexpr Factory k_make_eigen = nullptr;
#endif
#ifdef SPJIT_HAVE_LIBXSMM
constexpr Factory k_make_libxsmm = make_libxsmm_peer;
#else
constexpr Factory k_make_libxsmm = nullptr;
#endif
#ifdef SPJIT_HAVE_XNNPACK
constexpr Factory k_make_xnnpack = make_xnnpack_peer;
#else
constexpr Factory k_make_xnnpack = nullptr;
#endif

// oneDNN before MKL: MKL's OpenMP can stand in for oneDNN's, so that one must be there first.
constexpr Entry k_entries[] = {
    {"spjit", "jit", make_spjit_peer, ""},
    {"csr", "sparse", make_csr_peer, ""},
    {"openblas", "dense", make_openblas_peer, ""},
    {"onednn", "dense", make_onednn_peer, ""},
    {"eigen", "sparse", k_make_eigen, "libeigen3-dev"},
    {"libxsmm", "jit", k_make_libxsmm, "libxsmm-dev"},
    {"xnnpack", "sparse", k_make_xnnpack, "libxnnpack-dev libpthreadpool-dev"},
    {"mkl-dense", "dense", make_mkl_dense_peer, ""},
    {"mkl-sparse", "sparse", make_mkl_sparse_peer, ""},
    {"onnxruntime", "dense", make_onnxruntime_peer, ""},
    {"scipy", "sparse", make_scipy_peer, ""},
};

class MissingPeer final : public Peer {
 public:
  using Peer::Peer;

  std::unique_ptr<Runnable> prepare(const Problem& /*problem*/) override {
    throw NotSupported(info().missing);
  }
};

std::unique_ptr<Peer> make_peer(const PeerSettings& settings, const Entry& entry) {
  if (entry.make != nullptr) return entry.make(settings);
  return make_missing_peer(
      {entry.name, "", entry.kind,
       fmt::format("not built in: its headers were not found, or are of a version with another "
                   "interface; 'apt-get install {}' (Debian 12), then configure again",
                   entry.packages)});
}

}  // namespace

void prepare_environment() {
  // A choice of kernels or a number of threads left here could only make a peer weaker.
  for (const char* name :
       {"OPENBLAS_CORETYPE", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS",
        "MKL_CBWR", "LIBXSMM_TARGET", "OMP_THREAD_LIMIT", "OMP_WAIT_POLICY", "OMP_PROC_BIND",
        "OMP_PLACES", "GOMP_CPU_AFFINITY", "MKL_NUM_THREADS", "NVIDIA_TF32_OVERRIDE"}) {
    unsetenv(name);
  }
  setenv("GOMP_SPINCOUNT", "5000", 1);  // about 0.1 ms, as OpenBLAS is told
  setenv("KMP_BLOCKTIME", "1", 1);      // ms; 0 would make every call wake its threads
  // Else MKL's OpenMP binds the calling thread to a CPU, and with it every thread made after that.
  setenv("KMP_AFFINITY", "disabled", 1);
}

std::vector<std::string> all_peer_names() {
  std::vector<std::string> names;
  for (const Entry& entry : k_entries) names.emplace_back(entry.name);
  return names;
}

std::vector<std::unique_ptr<Peer>> make_peers(const PeerSettings& settings,
                                              const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const bool known = std::any_of(std::begin(k_entries), std::end(k_entries),
                                   [&](const Entry& entry) { return entry.name == name; });
    if (!known) {
      throw InvalidArgument(
          fmt::format("no peer '{}'; there are {}", name, fmt::join(all_peer_names(), ", ")));
    }
  }
  std::vector<std::unique_ptr<Peer>> peers;
  for (const Entry& entry : k_entries) {
    if (std::find(names.begin(), names.end(), entry.name) == names.end()) continue;
    peers.push_back(make_peer(settings, entry));
  }
  return peers;
}

void print_peers(const std::vector<PeerInfo>& peers) {
  for (const PeerInfo& info : peers) {
    fmt::print("{:<15} {:<7} {}\n", info.name, info.kind,
               info.missing.empty() ? info.version : "MISSING: " + info.missing);
  }
}

std::unique_ptr<Peer> make_missing_peer(PeerInfo info) {
  return std::make_unique<MissingPeer>(std::move(info));
}

int to_int(std::int64_t size) {
  if (size > std::numeric_limits<int>::max()) {
    throw NotSupported(fmt::format("a size of {}: its interface takes 2^31 - 1 at most", size));
  }
  return static_cast<int>(size);
}

const float* require_dense(const Problem& problem) {
  if (problem.dense == nullptr) throw NotSupported("A with its zeros is too large to be stored");
  return problem.dense;
}

}  // namespace spjit::side_by_side
