#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "emulated_driver/sass/lanes.hpp"

namespace spjit::emulated {

enum class AccessSpace : std::uint8_t {
  none,
  global,
  shared,
  local,
  generic,  ///< any of them, by the address
};

/// One instruction of one warp, as it was executed.
struct WarpStep {
  std::string_view function;  ///< whose section it is in
  std::uint32_t offset = 0;   ///< of the instruction in that section [bytes]
  std::array<std::uint32_t, 3> block = {};
  std::uint32_t warp = 0;                 ///< in its block
  LaneMask active = 0;                    ///< lanes that the guard lets execute it
  AccessSpace space = AccessSpace::none;  ///< of a load or store
  bool is_store = false;
  std::uint32_t width_bytes = 0;  ///< of a lane's access
  /// Lane i's address if it is active; an offset in shared and local memory.
  std::array<std::uint64_t, k_lanes> addresses = {};
};

/// Is told every instruction of a launch: for traces.
class LaunchObserver {
 public:
  LaunchObserver() = default;
  LaunchObserver(const LaunchObserver&) = delete;
  LaunchObserver& operator=(const LaunchObserver&) = delete;
  virtual ~LaunchObserver() = default;

  /// Warps of a block take turns between its barriers; blocks run one after another.
  virtual void step(const WarpStep& step) = 0;
};

}  // namespace spjit::emulated
