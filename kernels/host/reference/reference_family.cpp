#include "kernels/host/reference/reference_family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "kernels/batch_item.hpp"
#include "kernels/built_kernel.hpp"
#include "kernels/host/layer/activation.hpp"
#include "kernels/host/object/csr_image.hpp"
#include "kernels/host/operands/placement.hpp"
#include "plan/elements.hpp"
#include "plan/quantization.hpp"

namespace spjit {
namespace {

void add_scaled_row_fused(float value, const float* b, float* c, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) c[j] = std::fma(value, b[j], c[j]);
}

// The same loop where std::fma is one instruction, not a call: ten times as fast, the same bits.
__attribute__((target("avx2,fma"))) void add_scaled_row_fma3(float value, const float* b, float* c,
                                                             std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) c[j] = std::fma(value, b[j], c[j]);
}

void add_scaled_row_separate(float value, const float* b, float* c, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) {
    float product = value * b[j];
    // Without this, -ffp-contract=fast and -march=native would make one FMA of product and sum.
    asm("" : "+x"(product));
    c[j] += product;
  }
}

/// Row by row: the sums as the promise has them, then the epilogue in fp32, then one rounding to
/// the type of C.
class ReferenceExecutable final : public Executable {
 public:
  ReferenceExecutable(HostObject object, CsrImage read)
      : object_(std::move(object)),
        read_(std::move(read)),
        add_scaled_row_(add_scaled_row_of(arithmetic_of(read_.header.isa))) {}

  [[nodiscard]] const HostImage* image() const noexcept override { return &object_.image; }

  [[nodiscard]] std::shared_ptr<const PreparedValues::Stream> prepare_values(
      std::span<const float> values) const override {
    return std::make_shared<const CsrValues>(id(), values);
  }

  void run(const Arguments& arguments) const override {
    if (arguments.n == 0) return;
    RowBuffers buffers(to_size(arguments.n));
    const Quantization quantization = read_.header.numerics.quantization;
    if (quantization == Quantization::given) {
      std::ranges::fill(buffers.scales, ByteScale{*arguments.b_scale, arguments.b_zero_point});
    } else if (quantization == Quantization::tensor) {
      FloatRange range;
      for (std::int64_t item = 0; item < arguments.batch; ++item) {
        const Arguments one = item_of(arguments, item);
        add_tensor(one, range);
      }
      std::ranges::fill(buffers.scales, scale_of(range, quantization));
    }
    for (std::int64_t item = 0; item < arguments.batch; ++item) {
      run_one(item_of(arguments, item), buffers);
    }
  }

 private:
  /// A row of each kind, made once a call. [n]
  struct RowBuffers {
    explicit RowBuffers(std::size_t n)
        : sums(n), floats(n), of_group(n), b(n), wide_b(n), scales(n) {}

    std::vector<double> sums;
    std::vector<float> floats;    ///< sums in order, then what the epilogue makes of them
    std::vector<float> of_group;  ///< sums of a group of columns of A
    std::vector<float> b;
    std::vector<double> wide_b;
    std::vector<ByteScale> scales;  ///< of tokens, where B is quantised
  };

  /// Of a product, not a convolution.
  [[nodiscard]] Placement place_of_b(const Arguments& arguments) const {
    const std::int64_t width = std::max<std::int64_t>(read_.panel_columns, 1);
    return {*arguments.b.layout, arguments.b.ld, {read_.header.cols, arguments.n, width}};
  }

  /// Adds those of B, or of the image that it is of.
  void add_tensor(const Arguments& arguments, FloatRange& range) const {
    if (!read_.header.convolution) {
      for (std::int64_t j = 0; j < arguments.n; ++j) add_token(arguments, j, range);
      return;
    }
    const Placement image{*arguments.b.layout, arguments.b.ld, {}};
    for (std::int64_t channel = 0; channel < read_.header.convolution->channels; ++channel) {
      for (std::int64_t pixel = 0; pixel < arguments.height * arguments.width; ++pixel) {
        range.add(arguments.b.as<float>()[image.offset(channel, pixel)]);
      }
    }
  }

  /// Adds the numbers of a token of B to a range.
  void add_token(const Arguments& arguments, std::int64_t token, FloatRange& range) const {
    const Placement b = place_of_b(arguments);
    for (std::int64_t row = 0; row < read_.header.cols; ++row) {
      range.add(arguments.b.as<float>()[b.offset(row, token)]);
    }
  }

  void run_one(const Arguments& arguments, RowBuffers& buffers) const {
    const Numerics& numerics = read_.header.numerics;
    const CsrView a =
        read_.view(arguments.values == nullptr ? nullptr : arguments.values->stream());
    const std::int64_t width = std::max<std::int64_t>(read_.panel_columns, 1);
    const std::int64_t n = arguments.n;
    if (numerics.quantization == Quantization::token) {
      for (std::int64_t j = 0; j < n; ++j) {
        FloatRange range;
        add_token(arguments, j, range);
        buffers.scales[to_size(j)] = scale_of(range, Quantization::token);
      }
    }
    Convolution convolution;
    PlacementOfB b{place_of_b(arguments)};
    if (read_.header.convolution) {
      convolution = *read_.header.convolution;
      convolution.height = arguments.height;
      convolution.width = arguments.width;
      b = {{*arguments.b.layout, arguments.b.ld, {}}, &convolution};
    }
    const Placement c{*arguments.c.layout, arguments.c.ld, {a.rows, n, width}};
    const Placement residual{c.layout, arguments.residual.ld, c.panels};
    for (std::int64_t row = 0; row < a.rows; ++row) {
      sum_row({a, row}, {b, arguments.b.data}, buffers);
      if (!read_.header.epilogue.empty() || is_quantized(numerics) || is_byte(numerics.c)) {
        finish_row(arguments, row, residual, buffers);
      }
      for (std::int64_t j = 0; j < n; ++j) {
        store_element(numerics.c, arguments.c.data, c.offset(row, j), buffers.sums[to_size(j)]);
      }
      if (c.layout != Layout::panel_major) continue;
      for (std::int64_t j = n; j % width != 0; ++j)
        store_element(numerics.c, arguments.c.data, c.offset(row, j), 0);
    }
  }

  struct RowOfA {
    const CsrView& a;
    std::int64_t row;
    std::int64_t first = a.row_ptrs[to_size(row)];  ///< of its entries
    std::int64_t end = a.row_ptrs[to_size(row) + 1];
  };

  /// B, and where its numbers lie.
  struct StoredB {
    const PlacementOfB& place;
    const void* data;
  };

  /// Sums of a row, of each column of B.
  void sum_row(const RowOfA& row, const StoredB& b, RowBuffers& buffers) const {
    const bool is_ordered = read_.header.numerics.accumulate.promise == Promise::ordered;
    if (!row.a.groups.empty()) {
      sum_groups(row, b, buffers, is_ordered);
      std::ranges::copy(buffers.floats, buffers.sums.begin());
    } else if (is_ordered) {
      sum_in_order(row, b, buffers, buffers.floats);
      std::ranges::copy(buffers.floats, buffers.sums.begin());
    } else {
      sum_exactly(row, b, buffers);
    }
  }

  /// Integers stay below 2^31, so that double adds them up exactly.
  void sum_exactly(const RowOfA& row, const StoredB& b, RowBuffers& buffers) const {
    std::vector<double>& sums = buffers.sums;
    std::ranges::fill(sums, 0.0);
    add_row(row, b, buffers, buffers.wide_b, [&](float value, const double* row_of_b) {
      for (std::size_t j = 0; j < sums.size(); ++j) {
        sums[j] += static_cast<double>(value) * row_of_b[j];
      }
    });
  }

  void sum_in_order(const RowOfA& row, const StoredB& b, RowBuffers& buffers,
                    std::vector<float>& sums) const {
    std::ranges::fill(sums, 0.0F);
    add_row(row, b, buffers, buffers.b, [&](float value, const float* row_of_b) {
      add_scaled_row_(value, row_of_b, sums.data(), std::ssize(sums));
    });
  }

  /// Floats of a row whose groups of columns have scales.
  void sum_groups(const RowOfA& row, const StoredB& b, RowBuffers& buffers, bool is_ordered) const {
    const GroupScalesView& groups = row.a.groups;
    const std::span<const float> scales = groups.of_row(row.a.cols, row.row);
    std::vector<float>& totals = buffers.floats;
    std::vector<float>& sums = buffers.of_group;
    std::ranges::fill(totals, 0.0F);
    RowOfA of_group = row;
    of_group.end = row.first;
    for (std::size_t group = 0; group < scales.size(); ++group) {
      of_group.first = of_group.end;
      const std::int64_t end_column = (static_cast<std::int64_t>(group) + 1) * groups.columns;
      while (of_group.end < row.end && row.a.col_idxs[to_size(of_group.end)] < end_column) {
        ++of_group.end;
      }
      if (is_ordered) {
        sum_in_order(of_group, b, buffers, sums);
      } else {
        sum_exactly(of_group, b, buffers);
        std::ranges::transform(buffers.sums, sums.begin(),
                               [](double sum) { return static_cast<float>(sum); });
      }
      add_scaled_row_(scales[group], sums.data(), totals.data(), std::ssize(totals));
    }
  }

  /// A number of B, or the difference of its byte and the zero point.
  [[nodiscard]] double summed(double value, const ByteScale& scale) const {
    const Numerics& numerics = read_.header.numerics;
    if (!is_quantized(numerics)) return value;
    if (quantizes_floats(numerics)) {
      value = quantized(static_cast<float>(value), scale, numerics.quantization);
    }
    return value - scale.zero_point;
  }

  /// Calls `add` with each entry of a row and the row of B that it reads, columns ascending. A row
  /// of B goes through `row_of_b`, one of `buffers`; what is outside of an image is 0.
  template <class Wide, class Add>
  void add_row(const RowOfA& of, const StoredB& b, const RowBuffers& buffers,
               std::vector<Wide>& row_of_b, const Add& add) const {
    const DataType type = read_.header.numerics.b;
    const CsrView& a = of.a;
    for (std::int64_t i = of.first; i < of.end; ++i) {
      for (std::int64_t j = 0; j < std::ssize(row_of_b); ++j) {
        const std::int64_t offset = b.place.offset(a.col_idxs[to_size(i)], j);
        const ByteScale& scale = buffers.scales[to_size(j)];
        row_of_b[to_size(j)] =
            offset < 0 ? Wide{0}
                       : static_cast<Wide>(summed(load_element(type, b.data, offset), scale));
      }
      add(a.values[to_size(i)], row_of_b.data());
    }
  }

  /// The epilogue of sums, in fp32, and the bytes of C that are made of it.
  void finish_row(const Arguments& arguments, std::int64_t row, const Placement& residual,
                  RowBuffers& buffers) const {
    const Epilogue& epilogue = read_.header.epilogue;
    const DataType type = read_.header.numerics.c;
    const ByteScale scale_of_bytes = scale_of_c(arguments);
    std::vector<float>& finished = buffers.floats;
    for (std::size_t j = 0; j < finished.size(); ++j) {
      auto sum = static_cast<float>(buffers.sums[j]);
      if (epilogue.bias_first) sum += arguments.bias[row];
      const float scale = epilogue.scale ? arguments.scale[row] : 1;
      if (is_quantized(read_.header.numerics)) {
        sum *= buffers.scales[j].scale * scale;
      } else if (epilogue.scale) {
        sum *= scale;
      }
      if (epilogue.bias && !epilogue.bias_first) sum += arguments.bias[row];
      if (epilogue.residual) {
        const std::int64_t offset = residual.offset(row, static_cast<std::int64_t>(j));
        const double added = load_element(type, arguments.residual.data, offset);
        sum += is_byte(type) ? number_of(static_cast<std::int32_t>(added), scale_of_bytes)
                             : static_cast<float>(added);
      }
      finished[j] = sum;
    }
    activate(finished, epilogue.activation, parameters_of(epilogue), read_.header.isa);
    std::ranges::transform(finished, buffers.sums.begin(), [&](float value) {
      return is_byte(type) ? static_cast<double>(quantized(value, scale_of_bytes, type))
                           : static_cast<double>(value);
    });
  }

  HostObject object_;
  CsrImage read_;
  AddScaledRow add_scaled_row_;
};

}  // namespace

AddScaledRow add_scaled_row_of(Arithmetic arithmetic) noexcept {
  if (arithmetic == Arithmetic::separate) return add_scaled_row_separate;
  const bool fma3 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  return fma3 ? add_scaled_row_fma3 : add_scaled_row_fused;
}

Arithmetic arithmetic_of(HostIsa isa) noexcept {
  return isa == HostIsa::generic ? Arithmetic::separate : Arithmetic::fused;
}

Refusal ReferenceFamily::numerics_refusal(const Numerics& numerics) const {
  if (numerics.accumulate.promise != Promise::tensor) return Refusal::none();
  return Refusal(fmt::format("it does not keep the promise {}", to_string(numerics.accumulate)));
}

BuiltKernel ReferenceFamily::build(const BuildRequest& request) const {
  return build_csr(request, *this);
}

LoadedKernel ReferenceFamily::open(const HostObject& object, const Cancellation& cancel) const {
  CsrImage read = read_csr_image(object.image, cancel);
  KernelInfo info = info_of(read.header, object);
  info.panel_columns = read.panel_columns;
  return {std::move(info), std::make_shared<const ReferenceExecutable>(object, std::move(read))};
}

}  // namespace spjit
