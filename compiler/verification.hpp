#pragma once

/// @file
/// The check of a compiled kernel, where a Compiler makes it: before anybody gets the kernel.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/cuda_kernel_impl.hpp"
#include "compiler/kernel_check.hpp"
#include "kernels/spmm_kernel_impl.hpp"
#include "plan/compile_context.hpp"
#include "spjit/compiler.hpp"
#include "spjit/matrix.hpp"
#include "spjit/verification.hpp"

namespace spjit {

struct Verdict {
  Verification verification;
  std::string problem;  ///< what is wrong with the kernel, or empty
  std::string note;     ///< what the user should know, or empty

  [[nodiscard]] bool passed() const noexcept { return problem.empty(); }
};

/// The layouts a kernel is run in: its own, and where it takes others one with wider rows, which
/// lose their alignment.
[[nodiscard]] std::vector<CheckLayout> check_layouts(const CompileOptions& options);
[[nodiscard]] std::vector<CheckLayout> check_layouts(const CudaProgram& program);

/// Checks anything that runs on `device` as `CompileOptions::verify` says, which is not `none`. For
/// what cannot be checked, B and C being too large or there being no memory, it has no problem but
/// a Verification::reason, and a note. Other kernels of the Compiler wait meanwhile. Throws what
/// `watch` and the kernel throw.
[[nodiscard]] Verdict verdict_of(const CheckedKernel& kernel, const std::string& device,
                                 const CompileOptions& options, const CompileContext& watch);

/// The same for a kernel of the host; `none` gives an empty verdict.
[[nodiscard]] Verdict verify_kernel(const SpmmKernel::Impl& kernel, const CsrMatrix& matrix,
                                    const CompileOptions& options, const CompileContext& watch);

/// The same on the first GPU of this machine that runs the kernel. One that faults in its launch is
/// wrong. Throws DeviceError for what else a device cannot do, a fault of others before it
/// included: that breaks the context, and no kernel can be judged in the process any more.
[[nodiscard]] Verdict verify_kernel(const CudaKernel::Impl& kernel, const CsrMatrix& matrix,
                                    const CompileOptions& options, const CompileContext& watch);

/// Throws VerificationFailed for a verdict that is not passed; `note` says what else happened.
void require_passed(const Verdict& verdict, const std::string& note);

/// What becomes of the verdict on a fresh kernel: throws as require_passed() does; else `record`
/// gets the verification, and `note` what the user should know.
[[nodiscard]] Verification accept(Verdict verdict, nlohmann::json& record, std::string& note);

/// The member "verification" of a kernel's record (docs/cache-format.md).
[[nodiscard]] nlohmann::json to_json(const Verification& verification);

}  // namespace spjit
