#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>

#include "bench/convolution/conv_peer.hpp"
#include "spjit/error.hpp"

namespace spjit::bench {
namespace {

using Settings = ConvPeerSettings;

struct ConvEntry {
  const char* name;
  std::unique_ptr<ConvPeer> (*make)(const Settings&);
};

const std::array<ConvEntry, 10> k_conv_entries = {
    {{"spjit", [](const Settings& s) { return make_spjit_conv_peer(s, "", Layout::row_major); }},
     {"spjit-nhwc",
      [](const Settings& s) { return make_spjit_conv_peer(s, "", Layout::tokens_major); }},
     {k_explicit_im2col,
      [](const Settings& s) { return make_im2col_spmm_peer(s, Layout::row_major); }},
     {"im2col+spmm-nhwc",
      [](const Settings& s) { return make_im2col_spmm_peer(s, Layout::tokens_major); }},
     {"im2col+openblas", make_im2col_openblas_peer},
     {"onednn", [](const Settings& s) { return make_onednn_conv_peer(s, DnnlImages::blocked); }},
     {"onednn-nchw", [](const Settings& s) { return make_onednn_conv_peer(s, DnnlImages::nchw); }},
     {"onednn-nhwc", [](const Settings& s) { return make_onednn_conv_peer(s, DnnlImages::nhwc); }},
     {"onnxruntime", make_onnxruntime_conv_peer},
     {"xnnpack", make_xnnpack_conv_peer}}};

constexpr std::array<std::string_view, 5> k_host_families = {"dense", "compact", "unrolled", "csr",
                                                             "reference"};

class MissingConvPeer final : public ConvPeer {
 public:
  using ConvPeer::ConvPeer;

  std::unique_ptr<side_by_side::Runnable> prepare(const ConvProblem& /*problem*/) override {
    throw NotSupported(info().missing);
  }
};

/// Null for a name that is not a family's.
std::unique_ptr<ConvPeer> make_family(const Settings& settings, std::string name) {
  constexpr std::string_view k_suffix = k_nhwc_suffix;
  const bool has_pixels = name.ends_with(k_suffix);
  if (has_pixels) name.resize(name.size() - k_suffix.size());
  if (std::ranges::count(k_host_families, name) == 0) return nullptr;
  return make_spjit_conv_peer(settings, name,
                              has_pixels ? Layout::tokens_major : Layout::row_major);
}

}  // namespace

std::vector<std::string> all_conv_peer_names() {
  std::vector<std::string> names;
  names.reserve(k_conv_entries.size());
  for (const ConvEntry& entry : k_conv_entries) names.emplace_back(entry.name);
  return names;
}

std::vector<std::unique_ptr<ConvPeer>> make_conv_peers(const Settings& settings,
                                                       const std::vector<std::string>& names) {
  std::vector<std::unique_ptr<ConvPeer>> peers;
  for (const std::string& name : names) {
    const auto entry = std::ranges::find(k_conv_entries, name, &ConvEntry::name);
    peers.push_back(entry == k_conv_entries.end() ? make_family(settings, name)
                                                  : entry->make(settings));
    if (peers.back() != nullptr) continue;
    throw InvalidArgument(fmt::format("no peer '{}'; there are {} and the families {}", name,
                                      fmt::join(all_conv_peer_names(), ", "),
                                      fmt::join(k_host_families, ", ")));
  }
  return peers;
}

std::unique_ptr<ConvPeer> make_missing_conv_peer(side_by_side::PeerInfo info) {
  return std::make_unique<MissingConvPeer>(std::move(info), Layout::row_major);
}

}  // namespace spjit::bench
