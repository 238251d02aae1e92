#pragma once

/// @file
/// Everything in spjit's public interface.

#include "spjit/arguments.hpp"       // IWYU pragma: export
#include "spjit/bundle.hpp"          // IWYU pragma: export
#include "spjit/compilation.hpp"     // IWYU pragma: export
#include "spjit/compiler.hpp"        // IWYU pragma: export
#include "spjit/convolution.hpp"     // IWYU pragma: export
#include "spjit/data_type.hpp"       // IWYU pragma: export
#include "spjit/epilogue.hpp"        // IWYU pragma: export
#include "spjit/error.hpp"           // IWYU pragma: export
#include "spjit/export.hpp"          // IWYU pragma: export
#include "spjit/generate.hpp"        // IWYU pragma: export
#include "spjit/group_scales.hpp"    // IWYU pragma: export
#include "spjit/kernel.hpp"          // IWYU pragma: export
#include "spjit/kernel_info.hpp"     // IWYU pragma: export
#include "spjit/layout.hpp"          // IWYU pragma: export
#include "spjit/matrix.hpp"          // IWYU pragma: export
#include "spjit/matrix_io.hpp"       // IWYU pragma: export
#include "spjit/model_io.hpp"        // IWYU pragma: export
#include "spjit/numerics.hpp"        // IWYU pragma: export
#include "spjit/operand.hpp"         // IWYU pragma: export
#include "spjit/options.hpp"         // IWYU pragma: export
#include "spjit/parallel_for.hpp"    // IWYU pragma: export
#include "spjit/problem.hpp"         // IWYU pragma: export
#include "spjit/progress.hpp"        // IWYU pragma: export
#include "spjit/quantize.hpp"        // IWYU pragma: export
#include "spjit/recurrent.hpp"       // IWYU pragma: export
#include "spjit/recurrent_cell.hpp"  // IWYU pragma: export
#include "spjit/reorder.hpp"         // IWYU pragma: export
#include "spjit/target.hpp"          // IWYU pragma: export
#include "spjit/verification.hpp"    // IWYU pragma: export
#include "spjit/version.hpp"         // IWYU pragma: export
