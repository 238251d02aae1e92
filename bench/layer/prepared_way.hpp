#pragma once

/// @file
/// The layers of a network, ready to be computed in one way.

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
#include "bench/model/sequence.hpp"
#include "spjit/compiler.hpp"
#include "spjit/kernel.hpp"
#include "spjit/target.hpp"

namespace spjit::bench {

/// A network's layers with a bias each.
struct BiasedLayers {
  explicit BiasedLayers(std::vector<NetworkLayer> given);

  std::vector<NetworkLayer> layers;
  std::vector<AlignedFloats> biases;
};

/// What the ways of a comparison share.
struct WaySurroundings {
  std::shared_ptr<const BiasedLayers> network;
  Compiler compiler;
  std::shared_ptr<ThreadPool> pool;  ///< of passes apart from the kernels
};

class PreparedWay {
 public:
  /// Borrows `buffers`, of the way's layout and batch. Throws as Compiler::compile().
  PreparedWay(Way way, WaySurroundings surroundings, LayerBuffers& buffers);

  [[nodiscard]] const Way& way() const noexcept { return way_; }
  /// Runs all layers with NaN in C before. Empty if every result is right, else where it is not.
  [[nodiscard]] std::string check();
  /// Of this, which must outlive it.
  [[nodiscard]] Sequence sequence() const;

  [[nodiscard]] const LayerBuffers& buffers() const noexcept { return *buffers_; }
  [[nodiscard]] const std::string& family(std::size_t layer) const;
  /// The median of a few calls of Kernel::prepare_values(); none where the kernel has its values.
  [[nodiscard]] std::optional<double> prepare_us(std::size_t layer) const;

 private:
  struct Layer {
    Kernel kernel;
    Arguments arguments = {};
    SeparatePass pass = {};
    PreparedValues values = {};
    double prepare_us = 0;
  };

  [[nodiscard]] Problem problem(std::size_t layer) const;
  [[nodiscard]] Arguments arguments(std::size_t layer) const;
  void prepare_values(Layer& layer, const CsrMatrix& a) const;
  void run(std::size_t layer) const;

  Way way_;
  WaySurroundings surroundings_;
  LayerBuffers* buffers_;
  std::vector<std::unique_ptr<Layer>> layers_;  // arguments point to values beside them
};

}  // namespace spjit::bench
