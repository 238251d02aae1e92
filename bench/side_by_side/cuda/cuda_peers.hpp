#pragma once

/// @file
/// The plug-ins for NVIDIA GPUs, and the list of them. B, C and A's copies are on the device.

#include <memory>
#include <string>
#include <vector>

#include "bench/gpu/cubin_cache.hpp"
#include "bench/side_by_side/cuda/device_side.hpp"
#include "bench/side_by_side/peer.hpp"
#include "spjit/compiler.hpp"

namespace spjit::side_by_side {

struct CudaPeerSettings {
  std::shared_ptr<DeviceSide> side;  ///< never null
  SearchMode search = SearchMode::instant;
  /// Where cubins come from; null: they are compiled when they are needed.
  std::shared_ptr<bench::CubinCache> cubins = nullptr;
};

/// In the order in which they are listed and measured.
[[nodiscard]] std::vector<std::string> all_cuda_peer_names();

/// Those peers, missing ones too (PeerInfo::missing). Throws InvalidArgument for an unknown name.
[[nodiscard]] std::vector<std::unique_ptr<Peer>> make_cuda_peers(
    const CudaPeerSettings& settings, const std::vector<std::string>& names);

// In cuda_own_peers.cpp:
[[nodiscard]] std::unique_ptr<Peer> make_cuda_spjit_peer(const CudaPeerSettings& settings);
/// One of spjit's families by itself: "row-split" (the family `csr`: rows are split among warps, or
/// parts of them, as they come), "packed", "narrow" or "dense". Of another name: empty.
[[nodiscard]] std::string family_of_peer(const std::string& name);
[[nodiscard]] std::unique_ptr<Peer> make_cuda_family_peer(const CudaPeerSettings& settings,
                                                          const std::string& name);
/// A CSR kernel written for this repository after Sputnik's design (sputnik_kernel.hpp).
[[nodiscard]] std::unique_ptr<Peer> make_sputnik_peer(const CudaPeerSettings& settings);

/// Compiles into the cache what those of this repository among `names` need for a matrix. Throws
/// as Compiler::compile(), NotSupported without the compilers.
void fill_cuda_peers(const std::vector<std::string>& names, const CsrMatrix& matrix, std::int64_t n,
                     bench::CubinCache& cubins);

// In cublas_peers.cpp and cusparse_peers.cpp, which are built where their headers are:
/// `name` says how: "cublas" (fp32; of one column its matrix-vector product), "cublas-tf32",
/// "cublas-tokens" (fp32, B and C tokens-major), "cublas-bf16" (A, B and C in bf16, tokens-major).
[[nodiscard]] std::unique_ptr<Peer> make_cublas_peer(const CudaPeerSettings& settings,
                                                     const std::string& name);
/// `name` says which algorithm: "cusparse-csr1" to 3, "cusparse-coo1" to 4; "cusparse-spmv" is its
/// matrix-vector product, for one column.
[[nodiscard]] std::unique_ptr<Peer> make_cusparse_peer(const CudaPeerSettings& settings,
                                                       const std::string& name);

}  // namespace spjit::side_by_side
