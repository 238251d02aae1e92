#pragma once

/// @file
/// What a kernel is compiled for.

#include <cstdint>
#include <string>
#include <string_view>

#include "spjit/export.hpp"

namespace spjit {

/// Instruction set a host kernel is made for.
enum class HostIsa : std::uint8_t {
  avx512,   ///< AVX-512 F + DQ + BW + VL; encoded directly
  avx2,     ///< AVX2 + FMA; encoded directly
  generic,  ///< any x86-64: LLVM compiles portable IR; multiply and add round separately
};

[[nodiscard]] SPJIT_EXPORT std::string to_string(HostIsa isa);

/// A device and instruction set. Default: the host, the best instruction set this CPU has.
class SPJIT_EXPORT Target {
 public:
  /// The host with the best instruction set that this CPU and this build have.
  Target();
  /// The host with a given instruction set; it need not be this CPU's.
  explicit Target(HostIsa isa) : isa_(isa) {}

  /// "host", "host-avx512", "host-avx2", "host-generic". Throws InvalidArgument for anything else,
  /// NotSupported for a target this version knows of but does not have.
  [[nodiscard]] static Target parse(std::string_view name);

  [[nodiscard]] HostIsa isa() const noexcept { return isa_; }
  /// "host-avx512" and so on.
  [[nodiscard]] std::string name() const;
  /// Whether this machine can run kernels of this target.
  [[nodiscard]] bool runs_here() const;

  friend bool operator==(const Target&, const Target&) = default;

 private:
  HostIsa isa_;
};

}  // namespace spjit
