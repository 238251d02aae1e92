#pragma once

/// @file
/// The target that a kernel is compiled for.

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

/// A device and instruction set: a CPU or an NVIDIA GPU, which need not be in this machine.
/// Default: the host, the best instruction set this CPU has.
class SPJIT_EXPORT Target {
 public:
  /// The host with the best instruction set that this CPU and this build have.
  Target();
  /// The host with a given instruction set; it need not be this CPU's.
  explicit Target(HostIsa isa) : isa_(isa) {}

  /// - "host", "host-avx512", "host-avx2", "host-generic": choices are made for this CPU, and for
  ///   the card "any" where it lacks the instruction set
  /// - "host-avx512:zen4": the same for a named CPU, whatever is in this machine
  ///   (docs/design/host.md lists them); "host-avx512:any": for none in particular
  /// - "sm_90": GPUs of that architecture; tiles are chosen for one that is in this machine, else
  ///   for the architecture's default card
  /// - "sm_90:h200": the same for a named card, whatever is in this machine
  /// - "sm_90:gpu0": for the GPU of this machine with that ordinal
  /// - "native": the first GPU of this machine, else the host
  ///
  /// Throws InvalidArgument, listing what is known, for any other name, a CPU without the
  /// instruction set and a GPU that is not there. Throws NotSupported for an architecture that CUDA
  /// has dropped.
  [[nodiscard]] static Target parse(std::string_view name);

  /// The backend of a target's name, which need not be known here: "cuda" of "sm_90:gpu7".
  [[nodiscard]] static std::string_view backend_in(std::string_view name) noexcept {
    return name.starts_with("sm_") ? "cuda" : "host";
  }

  /// The kind of device: "host" or "cuda".
  [[nodiscard]] std::string_view backend() const noexcept { return arch_ == 0 ? "host" : "cuda"; }
  /// Instruction set of a host target; meaningless for a GPU.
  [[nodiscard]] HostIsa isa() const noexcept { return isa_; }
  /// Compute capability of a GPU target, 10 * major + minor: 90 is sm_90. 0 for the host.
  [[nodiscard]] int arch() const noexcept { return arch_; }
  /// A card's name: "h200", of a CPU "zen4"; "gpu0" for a GPU of this machine; or empty.
  [[nodiscard]] const std::string& card() const noexcept { return card_; }
  /// "host-avx512", "host-avx512:zen4", "sm_90", "sm_90:h200" and so on.
  [[nodiscard]] std::string name() const;
  /// Without the card, which says what choices are made for, not what runs: "sm_90".
  [[nodiscard]] std::string code() const;
  /// Whether this machine can run kernels of this target, whatever card they were chosen for.
  [[nodiscard]] bool runs_here() const;

  friend bool operator==(const Target&, const Target&) = default;

 private:
  Target(int arch, std::string card);

  HostIsa isa_;
  int arch_ = 0;
  std::string card_;
};

}  // namespace spjit
