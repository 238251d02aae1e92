#pragma once

/// @file
/// A layer of a network, ready to be computed in one way.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.hpp"
#include "bench/layer/separate_pass.hpp"
#include "bench/layer/way.hpp"
#include "bench/model/layer_buffers.hpp"
#include "bench/model/network.hpp"
#include "bench/side_by_side/peer.hpp"
#include "spjit/compiler.hpp"
#include "spjit/kernel.hpp"

namespace spjit::bench {

/// A network's layers with a bias each.
struct BiasedLayers {
  explicit BiasedLayers(std::vector<NetworkLayer> given);

  std::vector<NetworkLayer> layers;
  std::vector<AlignedFloats> biases;
};

/// Data that the ways of a comparison share.
struct WaySurroundings {
  std::shared_ptr<const BiasedLayers> network;
  Compiler compiler;
  std::shared_ptr<ThreadPool> pool;  ///< of passes apart from the kernels
};

class WayLayer final : public side_by_side::Runnable {
 public:
  /// Borrows `buffers`, of the way's layout and batch. Throws as Compiler::compile().
  WayLayer(const Way& way, const WaySurroundings& surroundings, LayerBuffers& buffers,
           std::size_t layer);

  void run() override;
  /// The kernel's family.
  [[nodiscard]] std::string detail() const override { return kernel_.info().family; }
  /// The median of a few calls of Kernel::prepare_values(); none where the kernel has its values.
  [[nodiscard]] std::optional<double> values_ms() const { return values_ms_; }

 private:
  void prepare_values(const CsrMatrix& a);

  Kernel kernel_;
  Finishing finishing_;
  Arguments arguments_ = {};
  SeparatePass pass_ = {};
  std::shared_ptr<ThreadPool> pool_;
  PreparedValues values_ = {};
  std::optional<double> values_ms_ = {};
};

/// Empty if the latest result of a layer is right, else where it is not.
[[nodiscard]] std::string check_way_layer(const Way& way, const BiasedLayers& network,
                                          const LayerBuffers& buffers, std::size_t layer);

}  // namespace spjit::bench
