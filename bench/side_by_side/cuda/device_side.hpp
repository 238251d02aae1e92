#pragma once

/// @file
/// The part that all libraries of a GPU share: the device, a stream, B and C on the device. Turns
/// work on the device into something that can be measured.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/timing.hpp"
#include "bench/side_by_side/peer.hpp"
#include "runtime/cuda/cuda_context.hpp"
#include "runtime/cuda/cuda_memory.hpp"
#include "runtime/cuda/cuda_stream.hpp"
#include "tests/support/cuda/cuda_graph.hpp"

namespace spjit::side_by_side {

/// B and C of a problem on the device.
struct DeviceOperands {
  DeviceBuffer b;
  DeviceBuffer c;
};

/// One GPU. Used by one thread.
class DeviceSide {
 public:
  /// `between_bytes` of other A pass between two products with one: twice L2 for a cold A. 0: hot.
  explicit DeviceSide(const CudaContext& context, std::int64_t between_bytes = 0)
      : stream_(context), between_bytes_(between_bytes) {}

  [[nodiscard]] const CudaContext& context() const noexcept { return stream_.context(); }
  [[nodiscard]] const CudaStream& stream() const noexcept { return stream_; }

  /// The problem's B, and a C full of NaN: buffers that are the same for all libraries as long as
  /// sizes are.
  [[nodiscard]] std::shared_ptr<DeviceOperands> operands(const Problem& problem);

  /// How many copies of an A of so many bytes take turns.
  [[nodiscard]] std::int64_t copies(std::int64_t a_bytes) const;

  /// steady_clock, read when the stream has done all its work.
  [[nodiscard]] TimingClock clock() const;

 private:
  CudaStream stream_;
  std::int64_t between_bytes_ = 0;
  std::shared_ptr<DeviceOperands> operands_;
};

/// One way to compute one problem on a GPU.
class DeviceWork {
 public:
  DeviceWork() = default;
  DeviceWork(const DeviceWork&) = delete;
  DeviceWork& operator=(const DeviceWork&) = delete;
  virtual ~DeviceWork() = default;

  /// Gives C = A * B to the stream and returns. After the first call it allocates nothing, so that
  /// it can be recorded.
  virtual void enqueue(const float* b, float* c, void* stream) = 0;
  /// Of A on the device, in the form that a product reads.
  [[nodiscard]] virtual std::int64_t a_bytes() const = 0;
  /// Brings a result that lies elsewhere into C, once the stream is done. Not timed.
  virtual void finish(DeviceBuffer& /*c*/) {}
  [[nodiscard]] virtual std::string detail() const { return {}; }
};

/// Makes the work of a problem, with an A of its own; it is given the B and C of its runs, which
/// may be larger than the problem's.
using WorkMaker =
    std::function<std::unique_ptr<DeviceWork>(const DeviceBuffer& b, const DeviceBuffer& c)>;

/// A run is a graph of several products: the driver's work for a launch is not timed.
class DeviceRunnable final : public Runnable {
 public:
  DeviceRunnable(std::shared_ptr<DeviceSide> side, const Problem& problem, const WorkMaker& make);

  /// Returns before the device is done; DeviceSide::clock() waits.
  void run() override { graph_.launch(side_->stream().handle()); }
  [[nodiscard]] int products() const override;
  void publish() override;
  [[nodiscard]] std::string detail() const override { return works_.front()->detail(); }

 private:
  [[nodiscard]] CudaGraph record();

  std::shared_ptr<DeviceSide> side_;
  std::shared_ptr<DeviceOperands> operands_;
  std::vector<std::unique_ptr<DeviceWork>> works_;  ///< they take turns
  Problem problem_;
  CudaGraph graph_;
};

/// A library of a GPU.
class CudaPeer : public Peer {
 public:
  CudaPeer(PeerInfo info, std::shared_ptr<DeviceSide> side)
      : Peer(std::move(info)), side_(std::move(side)) {}

  /// Does here the work that a problem needs once. The maker refers to the problem. Throws as
  /// prepare().
  [[nodiscard]] virtual WorkMaker maker(const Problem& problem) = 0;

  std::unique_ptr<Runnable> prepare(const Problem& problem) final {
    return std::make_unique<DeviceRunnable>(side_, problem, maker(problem));
  }

 protected:
  [[nodiscard]] const DeviceSide& side() const noexcept { return *side_; }

 private:
  std::shared_ptr<DeviceSide> side_;
};

/// A copy of `values` on the device.
template <typename Value>
[[nodiscard]] DeviceBuffer to_device(const CudaContext& context, const std::vector<Value>& values) {
  DeviceBuffer buffer(context, values.size() * sizeof(Value));
  buffer.upload(std::as_bytes(std::span(values)));
  return buffer;
}

}  // namespace spjit::side_by_side
