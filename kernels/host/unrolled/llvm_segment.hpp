#pragma once

/// @file
/// One plan segment as an LLVM function. Only in builds with LLVM (SPJIT_HAVE_LLVM).

#include <llvm/IR/Module.h>

#include <cstdint>
#include <string>

#include "plan/kernel_plan.hpp"

namespace spjit {

/// Data that all segments of a kernel share.
struct SegmentShape {
  std::int64_t nv = 1;              ///< vectors of 4 floats a panel row
  std::int64_t b_stride_bytes = 0;  ///< between rows of B
};

/// Adds the function `name` for `segment` to a module. It is a HostSegment; it reads the weights of
/// the segment in the order of the plan's entries.
void build_segment(llvm::Module& module, const std::string& name, const KernelPlan& plan,
                   const PlanSegment& segment, const SegmentShape& shape);

}  // namespace spjit
