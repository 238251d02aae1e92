#include "bench/side_by_side/cuda/cuda_peers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/side_by_side/peers.hpp"
#include "spjit/error.hpp"

namespace spjit::side_by_side {
namespace {

/// Those of NVIDIA's libraries. Without their headers: missing.
std::unique_ptr<Peer> make_toolkit_peer([[maybe_unused]] const CudaPeerSettings& settings,
                                        const std::string& name) {
#ifdef SPJIT_HAVE_CUDA_LIBRARIES
  if (name.starts_with("cublas")) return make_cublas_peer(settings, name);
  return make_cusparse_peer(settings, name);
#else
  return make_missing_peer({name, "", name.rfind("cublas", 0) == 0 ? "dense" : "sparse",
                            "not built in: no CUDA toolkit with cublas_v2.h and cusparse.h was "
                            "found; install one, then configure again"});
#endif
}

std::unique_ptr<Peer> make_peer(const CudaPeerSettings& settings, const std::string& name) {
  if (name == "spjit") return make_cuda_spjit_peer(settings);
  if (!family_of_peer(name).empty()) return make_cuda_family_peer(settings, name);
  if (name == "sputnik-style") return make_sputnik_peer(settings);
  return make_toolkit_peer(settings, name);
}

}  // namespace

std::vector<std::string> all_cuda_peer_names() {
  return {"spjit",         "row-split",     "packed",        "narrow",        "dense",
          "sputnik-style", "cublas",        "cublas-tf32",   "cublas-tokens", "cublas-bf16",
          "cusparse-spmv", "cusparse-csr1", "cusparse-csr2", "cusparse-csr3", "cusparse-coo1",
          "cusparse-coo2", "cusparse-coo3", "cusparse-coo4"};
}

std::vector<std::unique_ptr<Peer>> make_cuda_peers(const CudaPeerSettings& settings,
                                                   const std::vector<std::string>& names) {
  const std::vector<std::string> known = all_cuda_peer_names();
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw InvalidArgument(
          fmt::format("no peer '{}' on a GPU; there are {}", name, fmt::join(known, ", ")));
    }
  }
  std::vector<std::unique_ptr<Peer>> peers;
  for (const std::string& name : known) {
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    peers.push_back(make_peer(settings, name));
  }
  return peers;
}

}  // namespace spjit::side_by_side
