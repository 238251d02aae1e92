#pragma once

/// @file
/// The kernel that reads A from memory: it takes over where unrolled code would be too big, and it
/// is the peer that unrolled kernels are measured against.

#include "base/row_ranges.hpp"
#include "kernels/host/object/csr_view.hpp"
#include "kernels/host/operands/product.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// Rows `rows` of C = A * B; other rows of C are left alone, rows without entries become +0. Any n.
///
/// Arithmetic as KernelPlan states it: `fma(A[i][c], B[c][j], C[i][j])` from +0 in ascending c, so
/// avx512 and avx2 give the bits of every unrolled kernel; `generic` rounds product and sum
/// separately, as the generic target does. Groups of columns with scales are summed as GroupScales
/// says. Thread-safe; ranges that do not overlap may run at once.
/// Precondition: `rows` lies in the matrix and this CPU has `isa`.
void run_csr(const CsrView& matrix, HostIsa isa, RowRange rows, const Product& operands);

/// Runs all rows.
void run_csr(const CsrView& matrix, HostIsa isa, const Product& operands);

}  // namespace spjit
