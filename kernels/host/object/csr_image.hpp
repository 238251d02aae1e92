#pragma once

/// @file
/// A itself as the image of a host kernel, for families that read it. Weights are nnz values,
/// unless a run brings them, then nnz columns, and then scales of groups, if A has some. The
/// program record has the columns of a panel and row offsets. Values are floats or, in order, of
/// A's type (stored_values.hpp).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/cancel.hpp"
#include "kernels/host/object/csr_view.hpp"
#include "kernels/host/object/host_image.hpp"
#include "kernels/host/object/program_words.hpp"
#include "spjit/arguments.hpp"
#include "spjit/problem.hpp"

namespace spjit {

/// Columns a panel of panel-major B and C has where the problem leaves it free: one AVX-512 vector.
inline constexpr std::int64_t k_csr_panel_columns = 16;

/// Values in the order of A's CSR.
class CsrValues final : public PreparedValues::Stream {
 public:
  CsrValues(std::uint64_t kernel_id, std::span<const float> values)
      : Stream(kernel_id), values_(values.begin(), values.end()) {}

  [[nodiscard]] std::span<const float> values() const noexcept { return values_; }

 private:
  std::vector<float> values_;
};

/// The image of a kernel of `family`.
[[nodiscard]] HostArtifact make_csr_artifact(const Problem& problem, const std::string& family,
                                             HostIsa isa, const Cancellation& cancel = {});

/// Appends what the weights of such an image are.
void append_csr(std::vector<std::uint32_t>& weights, const Problem& problem,
                const Cancellation& cancel = {});
/// The type of values in such an image.
[[nodiscard]] DataType stored_type(const Numerics& numerics) noexcept;
/// Bytes of such weights.
[[nodiscard]] std::int64_t csr_bytes(const HostProgramHeader& header) noexcept;
/// Bytes of the scales of groups after them.
[[nodiscard]] std::int64_t group_scale_bytes(const HostProgramHeader& header);

/// The contents of such an image.
struct CsrImage {
  HostProgramHeader header;
  std::int64_t panel_columns = k_csr_panel_columns;
  std::vector<std::int64_t> row_ptrs;
  std::span<const std::int32_t> col_idxs;  ///< in the image
  /// In the image, or of `widened`; none where they are of a run.
  std::span<const float> values;
  /// In the image, those that are no floats there.
  std::span<const std::byte> stored_values;
  std::shared_ptr<const std::vector<float>> widened;  ///< these as floats; else null
  GroupScalesView groups = {};                        ///< in the image

  /// Refers to this.
  [[nodiscard]] CsrView view() const noexcept {
    return {header.rows, header.cols, row_ptrs, col_idxs, values, groups};
  }
  /// Who has arranged the values of another type needs no floats any more.
  void drop_widened() noexcept {
    if (widened == nullptr) return;
    values = {};
    widened = nullptr;
  }
  /// Makes them again. Precondition: they were dropped.
  [[nodiscard]] std::vector<float> widen() const;

  /// With the values of a run that brings CsrValues. Refers to them and to this.
  [[nodiscard]] CsrView view(const PreparedValues::Stream* stream) const {
    CsrView result = view();
    if (stream != nullptr) result.values = dynamic_cast<const CsrValues&>(*stream).values();
    return result;
  }
};

/// A of a header's sizes, in weights that are nothing else. Checks every count, offset and column.
/// Throws Error that says what is wrong; what `cancel` throws.
[[nodiscard]] CsrImage csr_of(const HostProgramHeader& header, std::vector<std::int64_t> row_ptrs,
                              std::span<const std::byte> weights, const Cancellation& cancel = {});

/// The CSR of an image. Throws as csr_of().
[[nodiscard]] CsrImage read_csr_image(const HostImage& image, const Cancellation& cancel = {});

}  // namespace spjit
