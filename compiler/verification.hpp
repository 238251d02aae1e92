#pragma once

/// @file
/// The check of a compiled kernel, where a Compiler makes it: before anybody gets the kernel.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "artifact/kernel_impl.hpp"
#include "compiler/kernel_check.hpp"
#include "plan/compile_context.hpp"
#include "spjit/options.hpp"
#include "spjit/problem.hpp"
#include "spjit/verification.hpp"

namespace spjit {

struct Verdict {
  Verification verification;
  std::string problem;  ///< what is wrong with the kernel, or empty
  std::string note;     ///< what the user should know, or empty

  [[nodiscard]] bool passed() const noexcept { return problem.empty(); }
};

/// How a kernel is run: as it was compiled, and where it takes others with larger leading
/// dimensions, which lose their alignment, the residual being in C, and with another n.
[[nodiscard]] std::vector<CheckRun> check_runs(const KernelInfo& info);

/// Checks anything that runs on `device` as `CompileOptions::verify` says, which is not `none`. For
/// what cannot be checked, B and C being too large or there being no memory, it has no problem but
/// a Verification::reason, and a note. Other kernels of the Compiler wait meanwhile. Throws what
/// `context` and the kernel throw.
[[nodiscard]] Verdict verdict_of(const CheckedKernel& kernel, const std::string& device,
                                 const CompileOptions& options, const CompileContext& context);

/// The verdict on a kernel compiled for a problem; `none` gives an empty one. A kernel that says it
/// is of another problem is wrong. One for a GPU runs on the first GPU of this machine that takes
/// it; one that faults in its launch is wrong. Throws DeviceError for what else a device cannot do,
/// a fault of others before it included: that breaks the context, and no kernel can be judged in
/// the process any more.
[[nodiscard]] Verdict verify_kernel(const Kernel::Impl& kernel, const Problem& problem,
                                    const CompileOptions& options, const CompileContext& context);

/// Throws VerificationFailed for a verdict that is not passed; `note` says what else happened.
void require_passed(const Verdict& verdict, const std::string& note);

/// Acts on the verdict on a fresh kernel: throws as require_passed() does; else `record` gets the
/// verification, and `note` what the user should know.
[[nodiscard]] Verification accept(Verdict verdict, nlohmann::json& record, std::string& note);

/// The member "verification" of a kernel's record (docs/design/cache-format.md).
[[nodiscard]] nlohmann::json to_json(const Verification& verification);

}  // namespace spjit
