#pragma once

/// @file
/// The interface of a library whose convolutions are measured beside those of others.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/convolution/network.hpp"
#include "bench/side_by_side/peer.hpp"
#include "bench/side_by_side/peers.hpp"
#include "spjit/layout.hpp"
#include "spjit/target.hpp"

namespace spjit::bench {

/// Y = max(0, convolution(X, weights) + bias) of a batch of images, which follow each other.
/// Borrowed; must outlive what is prepared for it.
struct ConvProblem {
  const ConvLayer* layer = nullptr;
  const float* dense = nullptr;  ///< weights with their zeros, row-major
  const float* bias = nullptr;   ///< [filters]
  std::int64_t batch = 1;
  int threads = 1;
  const float* x = nullptr;  ///< in the peer's layout
  float* y = nullptr;
  std::int64_t network_nnz = 0;  ///< of all layers that run in turn
};

/// A library, and the layout in which it takes images.
class ConvPeer {
 public:
  ConvPeer(side_by_side::PeerInfo info, Layout layout) : info_(std::move(info)), layout_(layout) {}
  ConvPeer(const ConvPeer&) = delete;
  ConvPeer& operator=(const ConvPeer&) = delete;
  virtual ~ConvPeer() = default;

  [[nodiscard]] const side_by_side::PeerInfo& info() const noexcept { return info_; }
  [[nodiscard]] Layout layout() const noexcept { return layout_; }

  /// As side_by_side::Peer::prepare().
  [[nodiscard]] virtual std::unique_ptr<side_by_side::Runnable> prepare(
      const ConvProblem& problem) = 0;

 private:
  side_by_side::PeerInfo info_;
  Layout layout_;
};

using ConvPeerSettings = side_by_side::PeerSettings;

/// In the order in which they are listed and measured. spjit is the first.
[[nodiscard]] std::vector<std::string> all_conv_peer_names();

/// The kinds that libraries are of: those whose name begins with "onednn" are the dense
/// convolution that goals are held against, the fastest of them for each layer.
inline constexpr const char* k_dense_convolution = "onednn";
/// Behind the names of spjit's ways that take NHWC.
inline constexpr const char* k_nhwc_suffix = "-nhwc";
/// Products of spjit: of 1x1 layers the plain one, of others after an explicit im2col. Of NHWC
/// images B and C are tokens-major, and the taps of a pixel follow one another.
inline constexpr const char* k_explicit_im2col = "im2col+spmm";

/// Those, missing ones too. Names of spjit's families are taken as well, with "-nhwc" behind for
/// that layout. Throws InvalidArgument for an unknown name.
[[nodiscard]] std::vector<std::unique_ptr<ConvPeer>> make_conv_peers(
    const ConvPeerSettings& settings, const std::vector<std::string>& names);

// One function a plug-in; what cannot be loaded comes back as missing. In own_conv_peers.cpp:
/// `family`: the only one that is asked; empty: one is chosen. "-nhwc" is behind its name.
[[nodiscard]] std::unique_ptr<ConvPeer> make_spjit_conv_peer(const ConvPeerSettings& settings,
                                                             const std::string& family,
                                                             Layout layout);
// In im2col_peers.cpp:
[[nodiscard]] std::unique_ptr<ConvPeer> make_im2col_spmm_peer(const ConvPeerSettings& settings,
                                                              Layout layout);
[[nodiscard]] std::unique_ptr<ConvPeer> make_im2col_openblas_peer(const ConvPeerSettings& settings);
// In onednn_conv_peer.cpp, how activations lie:
enum class DnnlImages : std::uint8_t {
  blocked,  ///< as oneDNN likes best, between layers too: no reorders
  nchw,     ///< as NCHW, with oneDNN's reorders before and after each layer where it wants others
  nhwc,
};
[[nodiscard]] std::unique_ptr<ConvPeer> make_onednn_conv_peer(const ConvPeerSettings& settings,
                                                              DnnlImages images);
// In library_conv_peers.cpp:
[[nodiscard]] std::unique_ptr<ConvPeer> make_onnxruntime_conv_peer(
    const ConvPeerSettings& settings);
[[nodiscard]] std::unique_ptr<ConvPeer> make_xnnpack_conv_peer(const ConvPeerSettings& settings);

/// A library that cannot be used here: `info.missing` says why.
[[nodiscard]] std::unique_ptr<ConvPeer> make_missing_conv_peer(side_by_side::PeerInfo info);

}  // namespace spjit::bench
