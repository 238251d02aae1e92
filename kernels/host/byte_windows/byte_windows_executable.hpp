#pragma once

/// @file
/// A loaded kernel of the family `byte_windows`.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/executable.hpp"
#include "kernels/host/byte_windows/byte_image.hpp"
#include "kernels/host/byte_windows/byte_kernel.hpp"
#include "kernels/host/byte_windows/byte_tokens.hpp"
#include "kernels/host/byte_windows/float_tokens.hpp"
#include "kernels/host/byte_windows/integer_matrix.hpp"
#include "kernels/host/layer/host_threads.hpp"
#include "kernels/host/object/csr_image.hpp"
#include "kernels/host/object/host_executable.hpp"
#include "kernels/host/object/program_words.hpp"
#include "plan/quantization.hpp"

namespace spjit {

/// B is copied token after token, some tokens at a time; floats become bytes then. Where C is i32
/// or f32 and there is no epilogue, sums go to C at once, unless it has several tokens, one after
/// the other. So they do where B is quantised and C is f32, and the rest is done in C, unless there
/// is a residual. Else they go through a workspace, but where C has tokens of bytes: with AVX-512,
/// sums become those while they are in registers.
///
/// Without VBMI many tokens may be multiplied as floats, while these are exact: B becomes such
/// floats, in its layout.
///
/// Of a convolution the tokens are pixels of the output, those of a tile at a time. Its part of the
/// image is copied, each pixel together, what is outside as the zero point.
class ByteWindowsExecutable final : public Executable {
 public:
  /// `prefers_masks`: A is MaskedBytes where this CPU can. Throws what `cancel` throws.
  /// Preconditions: as ByteMatrix and, for masks, values and no convolution.
  ByteWindowsExecutable(HostObject object, const CsrImage& read, ByteForm form, bool prefers_masks,
                        const Cancellation& cancel);

  [[nodiscard]] const HostImage* image() const noexcept override { return &object_.image; }
  void run(const Arguments& arguments) const override;
  [[nodiscard]] std::int64_t workspace_bytes(const Arguments& arguments) const override;
  [[nodiscard]] std::shared_ptr<const PreparedValues::Stream> prepare_values(
      std::span<const float> values) const override;

 private:
  struct Sizes;
  struct Memory;
  struct Tokens;
  struct Sums;

  [[nodiscard]] bool is_quantized() const noexcept {
    return header_.numerics.quantization != Quantization::none;
  }
  /// Whether the loop takes ByteKind::is_signed.
  [[nodiscard]] bool takes_signed() const noexcept {
    return !adds_products(matrix_.form()) && matrix_.slots() == ByteSlots::apart;
  }
  [[nodiscard]] bool has_sums() const noexcept;
  [[nodiscard]] bool has_float_sums() const noexcept;
  [[nodiscard]] bool stores_bytes(const Arguments& arguments) const noexcept;
  [[nodiscard]] bool stores_sums(const Arguments& arguments) const noexcept;
  /// Whether C is what it is to be as soon as sums are stored.
  [[nodiscard]] bool is_done(const Arguments& one) const noexcept {
    return stores_bytes(one) || (stores_sums(one) && !is_quantized());
  }
  [[nodiscard]] Sizes sizes_of(const Arguments& arguments) const;
  void run_in(std::byte* memory, const Sizes& sizes, const Arguments& arguments) const;
  void run_tokens(const Arguments& one, const Tokens& tokens, const Memory& memory) const;
  [[nodiscard]] bool reads_b(const Arguments& one) const noexcept;
  [[nodiscard]] std::int64_t run_first_tokens(const Arguments& one, std::int64_t most,
                                              const Memory& memory) const;
  void finish_tokens(const Arguments& one, const Tokens& tokens, const Memory& memory) const;
  [[nodiscard]] ByteScale scale_of_tensor(const Arguments& arguments) const;
  void copy(const Arguments& one, const Tokens& tokens, const Memory& memory,
            ByteOperands& to) const;
  void quantize(const Arguments& one, const Tokens& tokens, const Memory& memory,
                ByteOperands& to) const;
  [[nodiscard]] ByteSource bytes_of(const Arguments& one) const noexcept;
  [[nodiscard]] FloatsOfB floats_of(const Arguments& one) const noexcept;
  [[nodiscard]] bool is_faster_as_integers(std::int64_t tokens) const noexcept;
  [[nodiscard]] const IntegerMatrix::Values& integer_values(const Arguments& one) const noexcept;
  [[nodiscard]] bool has_little_work(const Tokens& tokens) const noexcept;
  [[nodiscard]] bool multiplies_integers(const Arguments& one, std::int64_t tokens) const noexcept;
  [[nodiscard]] IntegerTokens make_integers(const Arguments& one, const Tokens& tokens,
                                            const Memory& memory) const;
  void multiply_integers(const Arguments& one, const Tokens& tokens, const Memory& memory) const;
  void multiply_bytes(const Arguments& one, const Tokens& tokens, const Memory& memory) const;
  [[nodiscard]] ByteImage image_of(const Arguments& arguments) const;
  void add_image(const Arguments& arguments, Sizes& sizes) const;
  void run_images(const Arguments& arguments, const Memory& memory) const;
  void run_image(const Arguments& one, const ByteImage& image, const Memory& memory) const;
  void multiply_rows(const Arguments& one, ByteOperands operands, const Tokens& tokens,
                     const Memory& memory) const;
  void stage_row(const Arguments& one, const ByteImage::Row& row, const Memory& memory,
                 std::uint8_t* to) const;
  void multiply_tile(const Arguments& one, const ByteImage& image, const Tokens& tokens,
                     const Memory& memory) const;
  void set_target(const Arguments& one, const Tokens& tokens, const Memory& memory,
                  ByteOperands& operands) const;
  [[nodiscard]] const ByteValues& byte_values(const Arguments& one) const noexcept;
  [[nodiscard]] ByteFinish byte_finish(const Arguments& arguments, const Memory& memory) const;
  void finish_rows(const Arguments& one, const Tokens& tokens, const Memory& memory,
                   const RowRange& rows) const;
  void transpose_sums(const Arguments& one, const Tokens& tokens, const Memory& memory,
                      const RowRange& rows) const;
  [[nodiscard]] Sums sums_of(const Arguments& one, const Tokens& tokens,
                             const Memory& memory) const;
  [[nodiscard]] const float* scale_of_rows(const Arguments& one, const Sums& sums,
                                           const Tokens& tokens, const Memory& memory,
                                           const RowRange& rows) const;
  void finish_floats(const Arguments& one, const Tokens& tokens, const Memory& memory,
                     const RowRange& rows) const;

  HostObject object_;
  HostProgramHeader header_;
  HostThreads threads_;
  std::optional<ByteTaps> taps_;  ///< of a convolution
  ByteMatrix matrix_;
  std::vector<RowRange> parts_;            ///< groups of each thread
  std::optional<IntegerMatrix> integers_;  ///< where many tokens are multiplied so
};

}  // namespace spjit
