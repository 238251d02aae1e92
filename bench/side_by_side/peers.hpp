#pragma once

/// @file
/// The plug-ins, and the list of them.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bench/side_by_side/peer.hpp"
#include "spjit/compiler.hpp"
#include "spjit/kernel.hpp"
#include "spjit/target.hpp"

namespace spjit::side_by_side {

struct PeerSettings {
  Target target = {};  ///< of spjit and of the CSR loop
  SearchMode search = SearchMode::instant;
  bool hot = false;  ///< spjit's kernels are chosen to be called again and again
  std::filesystem::path mkl_folder = {};  ///< where libmkl_rt.so is; empty: the loader's places
  std::filesystem::path onnxruntime_folder = {};   ///< the same of libonnxruntime.so.1
  std::filesystem::path onednn_folder = {};        ///< of libdnnl.so.3, before the loader's places
  std::vector<std::string> pythons = {"python3"};  ///< the first with scipy is taken
  std::filesystem::path scratch = {};              ///< a folder for files; must exist
};

/// Sets what the libraries' run-time systems read from the environment when they are loaded, so
/// that their threads do not spin into their neighbours' samples and none is held below its best.
/// Call it before there are threads and before make_peers().
void prepare_environment();

/// In the order in which they are listed and measured.
[[nodiscard]] std::vector<std::string> all_peer_names();

/// Those peers, missing ones too (PeerInfo::missing). Throws InvalidArgument for an unknown name.
[[nodiscard]] std::vector<std::unique_ptr<Peer>> make_peers(const PeerSettings& settings,
                                                            const std::vector<std::string>& names);

/// A line each; of a missing one, why it is.
void print_peers(const std::vector<PeerInfo>& peers);

// One function a plug-in; what cannot be loaded comes back as missing. In own_peers.cpp:
[[nodiscard]] std::unique_ptr<Peer> make_spjit_peer(const PeerSettings& settings);
/// One family of spjit's kernels, under its name.
[[nodiscard]] std::unique_ptr<Peer> make_family_peer(const PeerSettings& settings,
                                                     const std::string& family);
[[nodiscard]] std::unique_ptr<Peer> make_csr_peer(const PeerSettings& settings);
/// Of a kernel that was compiled for the problem.
[[nodiscard]] std::unique_ptr<Runnable> make_spjit_runnable(Kernel kernel, const Problem& problem);
// In dense_peers.cpp:
[[nodiscard]] std::unique_ptr<Peer> make_openblas_peer(const PeerSettings& settings);
[[nodiscard]] std::unique_ptr<Peer> make_onednn_peer(const PeerSettings& settings);
// In mkl_peers.cpp:
[[nodiscard]] std::unique_ptr<Peer> make_mkl_dense_peer(const PeerSettings& settings);
[[nodiscard]] std::unique_ptr<Peer> make_mkl_sparse_peer(const PeerSettings& settings);
// In onnxruntime_peer.cpp:
[[nodiscard]] std::unique_ptr<Peer> make_onnxruntime_peer(const PeerSettings& settings);
// In scipy_peer.cpp:
[[nodiscard]] std::unique_ptr<Peer> make_scipy_peer(const PeerSettings& settings);
// In eigen_peer.cpp, libxsmm_peer.cpp and xnnpack_peer.cpp, which are built where their headers
// are:
[[nodiscard]] std::unique_ptr<Peer> make_eigen_peer(const PeerSettings& settings);
[[nodiscard]] std::unique_ptr<Peer> make_libxsmm_peer(const PeerSettings& settings);
[[nodiscard]] std::unique_ptr<Peer> make_xnnpack_peer(const PeerSettings& settings);

/// A library that cannot be used here: `info.missing` says why.
[[nodiscard]] std::unique_ptr<Peer> make_missing_peer(PeerInfo info);

/// The sizes of the libraries' C interfaces. Throws NotSupported for one over 2^31 - 1.
[[nodiscard]] int to_int(std::int64_t size);

/// `problem.dense`. Throws NotSupported if there is none.
[[nodiscard]] const float* require_dense(const Problem& problem);

}  // namespace spjit::side_by_side
