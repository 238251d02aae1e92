#pragma once

/// @file
/// A kernel that can run: what a family makes of an artifact on a device.

#include <cstdint>
#include <memory>
#include <span>

#include "spjit/arguments.hpp"

namespace spjit {

struct HostImage;

/// Immutable but for pools of memory; all members are thread-safe.
class Executable {
 public:
  Executable() = default;
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  virtual ~Executable() = default;

  /// Computes C of operands in host memory. `arguments` has every size, as Kernel::run() has
  /// checked them; a family checks what only it knows. Throws InvalidArgument, NoMemory,
  /// DeviceError.
  virtual void run(const Arguments& arguments) const = 0;

  /// Begins to compute C of operands in the device's memory. On the host as run().
  virtual void launch(const Arguments& arguments) const { run(arguments); }

  /// Bytes that Arguments::workspace needs for a run of such sizes; 0: none. `arguments` is what
  /// checked_sizes() gave.
  [[nodiscard]] virtual std::int64_t workspace_bytes(const Arguments& arguments) const {
    static_cast<void>(arguments);
    return 0;
  }

  /// `values` in CSR order, as many as A has, as this executable reads them: a stream with its
  /// id(). Throws NotSupported if its family has A's values in its code; NoMemory, DeviceError.
  [[nodiscard]] virtual std::shared_ptr<const PreparedValues::Stream> prepare_values(
      std::span<const float> values) const;

  /// Number of this object alone in this process.
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }

  /// The GPU it is loaded into; -1: the host.
  [[nodiscard]] virtual int device() const noexcept { return -1; }

  /// Blocks an SM of that GPU holds at once. Throws InvalidArgument on the host.
  [[nodiscard]] virtual std::int64_t active_blocks() const;

  /// The image it was made of; null for a GPU's.
  [[nodiscard]] virtual const HostImage* image() const noexcept { return nullptr; }

 private:
  [[nodiscard]] static std::uint64_t next_id() noexcept;

  std::uint64_t id_ = next_id();
};

}  // namespace spjit
