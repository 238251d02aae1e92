#include "kernels/cuda/csr/csr_code.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/arithmetic.hpp"
#include "kernels/cuda/code/cuda_epilogue.hpp"
#include "kernels/cuda/code/cuda_parameters.hpp"
#include "kernels/cuda/code/sizes.hpp"

namespace spjit {
namespace {

/// With 64 registers a thread an SM holds so many blocks.
constexpr std::int64_t k_csr_blocks = 8;

constexpr std::int64_t k_tail = k_csr_cuda_group - 1;

/// Writes the kernel of one width.
class CsrEmission {
 public:
  CsrEmission(CudaCode& code, const CsrCudaProgram& program, std::int64_t width)
      : code_(code),
        layer_(program.layer),
        tile_(program.tile),
        is_far_(program.is_far),
        width_(width),
        slices_(program.tile.columns / width) {}

  void run() {
    code_.begin_kernel({csr_kernel_name(width_), k_csr_cuda_threads, k_csr_blocks, 0},
                       csr_parameters());
    find_row();
    find_columns();
    read_b();
    for (std::int64_t i = 0; i < tile_.columns; ++i) {
      code_.set(sum_names(i, 1).front(), copy(CodeType::f32, CodeOperand::of(0)));
    }
    code_.set("some", compare("gt", "left", 0));
    code_.begin_if("some");
    entries();
    code_.end();
    store();
    code_.end_kernel();
  }

 private:
  [[nodiscard]] bool has_patches() const { return layer_.convolution.has_value(); }
  /// Column of a slice, from the thread's first.
  [[nodiscard]] std::int64_t column_of(std::int64_t slice) const {
    return slice * tile_.lanes * width_;
  }
  /// Whether C has the slice; the first it has.
  [[nodiscard]] static std::string inside(std::int64_t slice) {
    return slice == 0 ? std::string() : numbered("inside", slice);
  }

  /// Sets `row`, `left`, its entries, and `begin`, the first one's place. Threads without leave.
  void find_row() {
    code_.set("thread", special("tid.x"));
    code_.set("lane", bit_and("thread", tile_.lanes - 1));
    code_.set("place", shift_right("thread", shift_of(tile_.lanes)));
    code_.set("block", special("ctaid.x"));
    code_.set("place", multiply_add("block", tile_.rows_a_block(), "place"));
    code_.read("rows");
    code_.set("outside", compare("ge", "place", "rows"));
    code_.leave_if("outside");
    for (const auto& [array, variable] :
         {std::pair{"order", "row"}, {"lengths", "left"}, {"begins", "begin"}}) {
      code_.read(array);
      code_.move(array, array, "place");
      code_.load(variable, {array});
    }
  }

  /// Sets `j`, the first column, and whether there are others. Threads without leave.
  void find_columns() {
    code_.set("column_tile", special("ctaid.y"));
    code_.read("first_tile");
    code_.set("column_tile", add("column_tile", "first_tile"));
    code_.set("lane", multiply("lane", width_));
    code_.set("j", multiply_add("column_tile", tile_.width(), "lane"));
    code_.read("n");
    code_.set("outside", compare("ge", "j", "n"));
    code_.leave_if("outside");
    for (std::int64_t slice = 1; slice < slices_; ++slice) {
      code_.set(numbered("j", slice), add("j", column_of(slice)));
      code_.set(inside(slice), compare("lt", numbered("j", slice), "n"));
    }
    code_.set("item", special("ctaid.z"));
  }

  /// Sets `b`, of row-major B to the thread's first column, and what else an element is found with.
  void read_b() {
    code_.read("b");
    code_.read("b_distance");
    code_.move_to_item("b", "item", "b_distance");
    ldb_ = code_.stride("ldb", is_far_);
    if (has_patches()) {
      pixel_of_thread();
    } else if (layer_.has_tokens_of_b()) {
      code_.move("b", "b", "j", ldb_);
    } else {
      code_.move("b", "b", "j");
    }
  }

  /// Sets `y` and `x`, of the first tap of the thread's pixel, which may lie outside the image:
  /// they wrap around then, and are no smaller than its sizes.
  void pixel_of_thread() {
    for (const char* name :
         {"height", "width", "out_width", "stride_height", "stride_width", "pad_top", "pad_left"}) {
      code_.read(name);
    }
    code_.set("y", divide("j", "out_width"));
    code_.set("x", multiply("y", "out_width"));
    code_.set("x", subtract("j", "x"));
    code_.set("y", multiply("y", "stride_height"));
    code_.set("y", subtract("y", "pad_top"));
    code_.set("x", multiply("x", "stride_width"));
    code_.set("x", subtract("x", "pad_left"));
  }

  /// Loads entries [offset, offset + 4) from where the arrays are, into variables of a set.
  void load_entries(std::string_view set, std::int64_t offset) {
    const auto load = [&](const char* array) {
      std::vector<std::string> names;
      names.reserve(k_csr_cuda_group);
      for (std::int64_t i = 0; i < k_csr_cuda_group; ++i) {
        names.push_back(numbered(fmt::format("{}_{}", array, set), i));
      }
      code_.load(names, {array, offset});
    };
    load("columns");
    if (has_patches()) {
      load("down");
      load("right");
    }
    load("values");
  }

  void for_each_array(const auto& action) {
    action("columns");
    if (has_patches()) {
      action("down");
      action("right");
    }
    action("values");
  }

  /// All of the row.
  void entries() {
    for_each_array([&](const char* array) {
      code_.read(array);
      code_.move_far(array, array, "begin");
    });
    load_entries("a", 0);
    for (std::int64_t i = 0; i < k_csr_cuda_group; ++i) {
      for (std::int64_t slice = 0; slice < slices_; ++slice) {
        // What is loaded where there is an element, and never written elsewhere.
        for (const std::string& name : elements(i, slice)) {
          code_.set(name, copy(CodeType::f32, CodeOperand::of(0)));
        }
      }
    }
    // While entries are multiplied, the next ones are on their way.
    code_.set("more", compare("ge", "left", 2 * k_csr_cuda_group));
    code_.begin_if("more");
    code_.begin_loop("more");
    load_entries("b", k_csr_cuda_group);
    multiply_group("a");
    load_entries("a", 2 * k_csr_cuda_group);
    multiply_group("b");
    for_each_array([&](const char* array) { code_.move(array, array, 2 * k_csr_cuda_group); });
    code_.set("left", subtract("left", 2 * k_csr_cuda_group));
    code_.set("more", compare("ge", "left", 2 * k_csr_cuda_group));
    code_.end_loop();
    code_.end();
    code_.set("more", compare("ge", "left", k_csr_cuda_group));
    code_.begin_if("more");
    load_entries("b", k_csr_cuda_group);
    multiply_group("a");
    take_next_entries();
    code_.set("left", subtract("left", k_csr_cuda_group));
    code_.end();
    multiply_tail();
  }

  void take_next_entries() {
    for_each_array([&](const std::string& array) {
      const CodeType type = array == "values" ? CodeType::f32 : CodeType::u32;
      for (std::int64_t i = 0; i < k_csr_cuda_group; ++i) {
        code_.set(numbered(array + "_a", i), copy(type, numbered(array + "_b", i)));
      }
    });
  }

  /// Variables of the elements of B that an entry meets in a slice.
  [[nodiscard]] std::vector<std::string> elements(std::int64_t entry, std::int64_t slice) const {
    std::vector<std::string> names;
    names.reserve(to_size(width_));
    for (std::int64_t i = 0; i < width_; ++i) {
      names.push_back(fmt::format("b{}_{}", entry, slice * width_ + i));
    }
    return names;
  }

  /// Loads what entry `i` of a set meets, if `present`, a predicate or nothing, says so.
  void load_elements(std::string_view set, std::int64_t i, const std::string& present) {
    const std::string column = numbered(fmt::format("columns_{}", set), i);
    const std::string at = numbered("at", i);
    if (has_patches()) return load_pixel(set, i, present);
    if (layer_.has_tokens_of_b()) {
      code_.move(at, "b", column);
    } else {
      code_.move(at, "b", column, ldb_);
    }
    for (std::int64_t slice = 0; slice < slices_; ++slice) {
      std::string guard = inside(slice);
      if (guard.empty()) guard = present;
      if (guard != present && !present.empty()) {
        code_.set("loaded", both(guard, present));
        guard = "loaded";
      }
      code_.load(elements(i, slice), {at, column_of(slice)}, {guard, CodeOtherwise::kept});
    }
  }

  /// Loads an element of B that is a pixel of an image: +0 where padding is.
  void load_pixel(std::string_view set, std::int64_t i, const std::string& present) {
    const std::string at = numbered("at", i);
    const std::string channel = numbered(fmt::format("columns_{}", set), i);
    code_.set("yy", add("y", numbered(fmt::format("down_{}", set), i)));
    code_.set("xx", add("x", numbered(fmt::format("right_{}", set), i)));
    code_.set("loaded", compare("lt", "yy", "height"));
    code_.set("in_row", compare("lt", "xx", "width"));
    code_.set("loaded", both("loaded", "in_row"));
    if (!present.empty()) code_.set("loaded", both("loaded", present));
    code_.set("pixel", multiply_add("yy", "width", "xx"));
    if (layer_.b_layout == Layout::tokens_major) {
      code_.move(at, "b", "pixel", ldb_);
      code_.move(at, at, channel);
    } else {
      code_.move(at, "b", channel, ldb_);
      code_.move(at, at, "pixel");
    }
    code_.load(elements(i, 0), {at}, {"loaded", CodeOtherwise::zero});
  }

  void multiply_elements(std::string_view set, std::int64_t i, const std::string& present) {
    const std::string value = numbered(fmt::format("values_{}", set), i);
    for (std::int64_t column = 0; column < tile_.columns; ++column) {
      const std::string sum = sum_names(column, 1).front();
      code_.set(sum, fused(fmt::format("b{}_{}", i, column), value, sum), present);
    }
  }

  void multiply_group(std::string_view set) {
    for (std::int64_t i = 0; i < k_csr_cuda_group; ++i) load_elements(set, i, {});
    for (std::int64_t i = 0; i < k_csr_cuda_group; ++i) multiply_elements(set, i, {});
  }

  /// Up to three entries: products are left out, not made with zeros, which could change a sum.
  void multiply_tail() {
    for (std::int64_t i = 0; i < k_tail; ++i) {
      code_.set(numbered("has", i), compare("gt", "left", i));
      load_elements("a", i, numbered("has", i));
    }
    for (std::int64_t i = 0; i < k_tail; ++i) multiply_elements("a", i, numbered("has", i));
  }

  void store() {
    read_operands_of_c(code_, layer_, "item");
    load_row_operands(code_, layer_, "row");
    const bool has_residual = layer_.epilogue.residual;
    const CodeStride ldc = code_.stride("ldc", is_far_);
    const CodeStride ldr = has_residual ? code_.far_stride("ldr") : CodeStride{};
    std::vector<SumsOfRow> all;
    if (!layer_.has_tokens_of_c()) {
      to_row("c", ldc);
      if (has_residual) to_row("residual", ldr);
      for (std::int64_t slice = 0; slice < slices_; ++slice) {
        all.push_back({slice * width_,
                       width_,
                       {"c", column_of(slice)},
                       {"residual", column_of(slice)},
                       inside(slice)});
      }
      return finish_sums(code_, layer_, all);
    }
    code_.move("c", "c", "row");
    if (has_residual) code_.move("residual", "residual", "row");
    for (std::int64_t column = 0; column < tile_.columns; ++column) {
      const std::int64_t slice = column / width_;
      code_.set("token", add("j", column_of(slice) + column % width_));
      code_.move(numbered("c_of_", column), "c", "token", ldc);
      if (has_residual) code_.move(numbered("residual_of_", column), "residual", "token", ldr);
      all.push_back({column,
                     1,
                     {numbered("c_of_", column)},
                     {numbered("residual_of_", column)},
                     inside(slice)});
    }
    finish_sums(code_, layer_, all);
  }

  void to_row(std::string_view pointer, const CodeStride& ld) {
    code_.move(pointer, pointer, "row", ld);
    code_.move(pointer, pointer, "j");
  }

  CudaCode& code_;
  const CudaLayer& layer_;
  CsrTile tile_;
  bool is_far_;
  std::int64_t width_;
  std::int64_t slices_;
  CodeStride ldb_;
};

}  // namespace

std::string to_string(const CsrTile& tile) {
  return fmt::format("lanes={} columns={}", tile.lanes, tile.columns);
}

CsrTile csr_tile_for(const CudaLayer& layer, std::int64_t n) noexcept {
  constexpr std::array<std::int64_t, 3> k_lanes = {32, 16, 8};
  if (!layer.has_rows_of_b()) return {.lanes = 32, .columns = 1};
  if (n <= 8) return {.lanes = 8, .columns = 1};
  if (n <= 16) return {.lanes = 8, .columns = 2};
  CsrTile best;
  for (const std::int64_t lanes : k_lanes) {
    const CsrTile tile{.lanes = lanes};
    if (round_up(n, tile.width()) < round_up(n, best.width())) best = tile;
  }
  return best;
}

std::span<const std::int64_t> csr_widths(const CudaLayer& layer, const CsrTile& tile) {
  return widths_up_to(layer.has_rows_of_b() ? tile.columns : 1);
}

std::string csr_kernel_name(std::int64_t width) { return fmt::format("spjit_csr_{}", width); }

std::span<const CudaCode::Parameter> csr_parameters() {
  static const std::vector<CudaCode::Parameter> k_parameters = with_common_parameters({
      {"order", CodeType::words},
      {"begins", CodeType::longs},
      {"lengths", CodeType::words},
      {"columns", CodeType::words},
      {"down", CodeType::words},
      {"right", CodeType::words},
      {"rows", CodeType::u32},
      {"first_tile", CodeType::u32},
      {"height", CodeType::u32},
      {"width", CodeType::u32},
      {"out_width", CodeType::u32},
      {"stride_height", CodeType::u32},
      {"stride_width", CodeType::u32},
      {"pad_top", CodeType::u32},
      {"pad_left", CodeType::u32},
  });
  return k_parameters;
}

CudaCode::Texts emit_csr(const CsrCudaProgram& program) {
  CudaCode code(static_cast<int>(program.arch), program.layer.epilogue);
  for (const std::int64_t width : csr_widths(program.layer, program.tile)) {
    CsrEmission(code, program, width).run();
  }
  return std::move(code).take();
}

}  // namespace spjit
