#pragma once

#include <string>

#include "spjit/error.hpp"

namespace spjit::emulated {

/// The kind of a program's error; the driver maps each kind to one CUresult.
enum class FaultKind {
  invalid_ptx,          ///< the text: unknown opcode, modifier, type or state space, bad syntax
  invalid_cubin,        ///< no cubin, or an instruction or a relocation that is not known
  other_architecture,   ///< a cubin of a device that this one is not
  unresolved_symbol,    ///< an .extern function that no unit defines
  illegal_address,      ///< outside every allocation, freed, or the wrong state space
  misaligned_address,   ///< not a multiple of the access's bytes
  uninitialized_read,   ///< a register or byte that nothing has written
  illegal_barrier,      ///< threads that wait at different barriers, or for ones that have exited
  hazard,               ///< a stall count or a scoreboard that does not wait for a result
  trap,                 ///< `trap`, or a division that the hardware leaves undefined
  launch_out_of_range,  ///< grid, block or shared memory beyond the kernel or the device
  timeout,              ///< more instructions than a launch may take
};

/// A fault of a program. The message names where: the line of PTX and its text, or the function,
/// the offset and the instruction of machine code.
class ProgramError : public Error {
 public:
  ProgramError(FaultKind kind, const std::string& message) : Error(message), kind_(kind) {}

  [[nodiscard]] FaultKind kind() const noexcept { return kind_; }

 private:
  FaultKind kind_;
};

/// Throws what is wrong with the text.
[[noreturn]] inline void refuse_ptx(const std::string& message) {
  throw ProgramError(FaultKind::invalid_ptx, message);
}

}  // namespace spjit::emulated
