#include "kernels/host/byte_windows/byte_windows_family.hpp"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "kernels/built_kernel.hpp"
#include "kernels/host/byte_windows/byte_windows_executable.hpp"
#include "kernels/host/object/csr_image.hpp"
#include "plan/numerics.hpp"
#include "plan/quantization.hpp"

namespace spjit {

Refusal ExactBytesFamily::numerics_refusal(const Numerics& numerics) const {
  if (numerics.accumulate.promise != Promise::integer) {
    return Refusal(fmt::format("it does not keep the promise {}", to_string(numerics.accumulate)));
  }
  Numerics others;
  if (numerics.a != DataType::i8 && numerics.a != DataType::i4) others.a = numerics.a;
  const DataType b = summed_type_of_b(numerics);
  if (b != DataType::i8 && b != DataType::u8) others.b = b;
  return beyond_default(others);
}

Refusal ExactBytesFamily::problem_refusal(const Problem& problem) {
  if (problem.epilogue.bias_first && problem.numerics.quantization == Quantization::token) {
    return Refusal("it multiplies with the scales of tokens first, and then adds a bias");
  }
  const std::int64_t cols = problem.a->cols;
  if (cols <= k_most_byte_columns) return Refusal::none();
  return Refusal(
      fmt::format("it is for up to {} columns of A, which has {}", k_most_byte_columns, cols));
}

BuiltKernel ExactBytesFamily::build(const BuildRequest& request) const {
  BuiltKernel built = build_csr(request, *this);
  built.reason = reason();
  return built;
}

LoadedKernel ExactBytesFamily::open_bytes(const HostObject& object, bool prefers_masks,
                                          const Cancellation& cancel) const {
  CsrImage read = read_csr_image(object.image, cancel);
  require_record(read.header.isa != HostIsa::generic, "instruction set of windows of bytes");
  require_record(read.header.cols <= k_most_byte_columns, "columns of A in windows of bytes");
  require_record(!prefers_masks || (!read.header.convolution && read.view().has_values()),
                 "masks without values, or of a convolution");
  const bool has_tokens = read.header.numerics.quantization == Quantization::token;
  require_record(!has_tokens || !read.header.epilogue.bias_first,
                 "a bias before the scales of tokens in windows of bytes");
  KernelInfo info = info_of(read.header, object);
  require_record(!first_inexact(read.header.numerics.a, read.values, cancel),
                 "values that the type of A does not have");
  const ByteForm form = byte_form(read.header.isa, host_cpu());
  return {std::move(info),
          std::make_shared<const ByteWindowsExecutable>(object, read, form, prefers_masks, cancel)};
}

Refusal ByteWindowsFamily::refusal(const FamilyRequest& request) const {
  if (request.options.target.isa() == HostIsa::generic) {
    return Refusal("it is for avx512 and avx2; the target is generic");
  }
  return problem_refusal(request.problem);
}

LoadedKernel ByteWindowsFamily::open(const HostObject& object, const Cancellation& cancel) const {
  return open_bytes(object, false, cancel);
}

}  // namespace spjit
