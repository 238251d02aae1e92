#pragma once

#include "sass/lanes.hpp"

namespace spjit::emulated {

using sass::for_each_lane;
using sass::k_all_lanes;
using sass::k_lanes;
using sass::LaneMask;
using sass::Lanes;

}  // namespace spjit::emulated
