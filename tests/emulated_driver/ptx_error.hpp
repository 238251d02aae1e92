#pragma once

#include <string>

#include "spjit/error.hpp"

namespace spjit::emulated {

/// What a program did wrong; the driver maps each kind to one CUresult.
enum class FaultKind {
  invalid_ptx,          ///< the text: unknown opcode, modifier, type or state space, bad syntax
  unresolved_symbol,    ///< an .extern function that no unit defines
  illegal_address,      ///< outside every allocation, freed, or the wrong state space
  misaligned_address,   ///< not a multiple of the access's bytes
  uninitialized_read,   ///< a register or byte that nothing has written
  illegal_barrier,      ///< threads that wait at different barriers, or for ones that have exited
  trap,                 ///< `trap`, or a division that the hardware leaves undefined
  launch_out_of_range,  ///< grid, block or shared memory beyond the kernel or the device
  timeout,              ///< more instructions than a launch may take
};

/// A fault of a PTX program. The message names the line and its text once `located` has added them.
class PtxError : public Error {
 public:
  PtxError(FaultKind kind, const std::string& message) : Error(message), kind_(kind) {}

  [[nodiscard]] FaultKind kind() const noexcept { return kind_; }

 private:
  FaultKind kind_;
};

/// Throws what is wrong with the text.
[[noreturn]] inline void refuse_ptx(const std::string& message) {
  throw PtxError(FaultKind::invalid_ptx, message);
}

}  // namespace spjit::emulated
