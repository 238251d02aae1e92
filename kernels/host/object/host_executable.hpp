#pragma once

/// @file
/// A loaded kernel of the host: an image, what multiplies by it, and the layer around that.

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/cancel.hpp"
#include "base/thread_pool.hpp"
#include "kernels/executable.hpp"
#include "kernels/host/layer/host_layer.hpp"
#include "kernels/host/layer/multiplier.hpp"
#include "kernels/host/object/csr_image.hpp"
#include "kernels/host/object/host_image.hpp"
#include "kernels/host/object/program_words.hpp"

namespace spjit {

/// A host kernel in memory.
struct HostObject {
  HostImage image;
  std::shared_ptr<const void> owner = nullptr;  ///< of the image; null: it outlives all kernels
  std::shared_ptr<ThreadPool> pool = nullptr;   ///< null: runs in the caller's thread
  bool executable = false;                      ///< the text runs where it is
  bool any_isa = false;                         ///< as HostDevice::any_isa
};

/// The work of a kernel: a layer, and panels of B and C that its products may be of; 0: none.
struct HostLayer {
  HostProgramHeader header;
  std::int64_t panel_columns = 0;
};

class HostExecutable final : public Executable {
 public:
  /// `multiplier` may read the object's image.
  HostExecutable(HostObject object, HostLayer layer, std::unique_ptr<const Multiplier> multiplier)
      : object_(std::move(object)),
        multiplier_(std::move(multiplier)),
        layer_(std::move(layer.header), layer.panel_columns, *multiplier_) {}

  [[nodiscard]] const HostImage* image() const noexcept override { return &object_.image; }
  void run(const Arguments& arguments) const override { layer_.run(arguments); }
  [[nodiscard]] std::int64_t workspace_bytes(const Arguments& arguments) const override {
    return layer_.workspace_bytes(arguments);
  }
  [[nodiscard]] std::shared_ptr<const PreparedValues::Stream> prepare_values(
      std::span<const float> values) const override {
    return multiplier_->prepare_values(id(), values);
  }

  /// The products alone, without what the layer has around them.
  [[nodiscard]] const Multiplier& multiplier() const noexcept { return *multiplier_; }

 private:
  HostObject object_;
  std::unique_ptr<const Multiplier> multiplier_;
  LayerRun layer_;
};

/// An executable of an image that is A, whose products a `Family` computes.
// NOLINTBEGIN(performance-unnecessary-value-param): one that holds its image moves it
template <class Family>
[[nodiscard]] std::shared_ptr<const HostExecutable> csr_executable(const HostObject& object,
                                                                   CsrImage read,
                                                                   const Cancellation& cancel) {
  // NOLINTEND(performance-unnecessary-value-param)
  HostLayer layer{read.header, read.panel_columns};
  auto multiplier =
      std::make_unique<const Family>(HostThreads(object.pool), std::move(read), cancel);
  return std::make_shared<const HostExecutable>(object, std::move(layer), std::move(multiplier));
}

}  // namespace spjit
