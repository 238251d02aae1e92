#include "kernels/cuda/narrow/narrow_code.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "kernels/cuda/code/cuda_epilogue.hpp"
#include "kernels/cuda/code/cuda_parameters.hpp"
#include "kernels/cuda/code/sizes.hpp"

namespace spjit {
namespace {

/// With 64 registers a thread an SM holds so many blocks.
constexpr std::int64_t k_narrow_blocks = 8;
/// Entries that a thread has on their way at once.
constexpr std::int64_t k_in_flight = 8;
/// Products of a row that are unrolled.
constexpr std::int64_t k_unrolled = 4;

/// Writes the kernel of one width.
class NarrowEmission {
 public:
  NarrowEmission(CudaCode& code, const NarrowProgram& program, std::int64_t width)
      : code_(code),
        layer_(program.layer),
        columns_(program.columns),
        is_far_(program.is_far),
        width_(width),
        parts_(program.columns / width),
        slots_(k_narrow_threads / parts_),
        stage_(program.stage_entries()) {}

  void run() {
    code_.begin_kernel(
        {narrow_kernel_name(width_), k_narrow_threads, k_narrow_blocks, stage_ * (columns_ + 1)},
        narrow_parameters());
    find_columns();
    find_rows();
    read_b();
    for (std::int64_t i = 0; i < width_; ++i) {
      code_.set(sum_names(i, 1).front(), copy(CodeType::f32, CodeOperand::of(0)));
    }
    code_.set("some", compare("gt", "entries", 0));
    code_.begin_if("some");
    stages();
    code_.end();
    store();
    code_.end_kernel();
  }

 private:
  /// Sets `part`, the thread's of `parts` of a row's columns, `slot`, its row or entry, and `j`,
  /// its first column.
  void find_columns() {
    code_.set("thread", special("tid.x"));
    code_.set("part", bit_and("thread", parts_ - 1));
    code_.set("slot", shift_right("thread", shift_of(parts_)));
    code_.set("part", multiply("part", width_));
    code_.set("column_tile", special("ctaid.y"));
    code_.read("first_tile");
    code_.set("column_tile", add("column_tile", "first_tile"));
    code_.set("j", multiply_add("column_tile", columns_, "part"));
    code_.read("n");
    code_.set("has_columns", compare("lt", "j", "n"));
    code_.set("item", special("ctaid.z"));
  }

  /// Sets `row`, whether the thread has it, `row_begin` and `row_end`, its entries counted from the
  /// block's first, `entries`, those of the block, and moves A's arrays to them.
  void find_rows() {
    code_.set("block", special("ctaid.x"));
    code_.read("block_rows");
    code_.move("block_rows", "block_rows", "block");
    code_.load("row", {"block_rows"});
    code_.load("last_row", {"block_rows", 1});
    code_.read("row_ptrs");
    code_.move("of_block", "row_ptrs", "row");
    code_.load("block_begin", {"of_block"});
    code_.move("of_block", "row_ptrs", "last_row");
    code_.load("block_end", {"of_block"});
    code_.set("entries", distance("block_end", "block_begin"));
    code_.set("row", add("row", "slot"));
    code_.set("has_row", compare("lt", "row", "last_row"));
    code_.set("has_row", both("has_row", "has_columns"));
    code_.move("row_ptrs", "row_ptrs", "row");
    code_.load("begin", {"row_ptrs"}, {"has_row"});
    code_.load("end", {"row_ptrs", 1}, {"has_row"});
    code_.set("row_begin", distance("begin", "block_begin"));
    code_.set("row_end", distance("end", "block_begin"));
    for (const char* array : {"columns", "values"}) {
      code_.read(array);
      code_.move_far(array, array, "block_begin");
    }
  }

  /// Sets `b`, to the thread's first column; if it has none, to the block's, so that loads need no
  /// guard.
  void read_b() {
    code_.read("b");
    code_.read("b_distance");
    code_.move_to_item("b", "item", "b_distance");
    ldb_ = code_.stride("ldb", is_far_);
    code_.set("first_j", subtract("j", "part"));
    code_.set("first_j", select("has_columns", "j", "first_j"));
    if (layer_.has_tokens_of_b()) {
      code_.move("b", "b", "first_j", ldb_);
    } else {
      code_.move("b", "b", "first_j");
    }
  }

  /// A stage after the other: entries come into shared memory, then rows take theirs.
  void stages() {
    code_.shared_at("stage_values", stage_ * columns_);
    code_.set("stage", copy(CodeType::u32, 0));
    code_.begin_loop("more");
    code_.set("here", subtract("entries", "stage"));
    code_.set("here", smaller("here", stage_));
    fill_stage();
    code_.barrier();
    code_.begin_if("has_row");
    add_products();
    code_.end();
    code_.barrier();
    for (const char* array : {"columns", "values"}) code_.move(array, array, stage_);
    code_.set("stage", add("stage", stage_));
    code_.set("more", compare("lt", "stage", "entries"));
    code_.end_loop();
  }

  /// Threads past the last entry bring that one again, which costs no memory and needs no guards:
  /// with one for each entry on its way ptxas has loads wait for each other. Where they put it
  /// nobody reads.
  void fill_stage() {
    const std::int64_t count = std::min(k_in_flight, stage_ / slots_);
    code_.set("next", copy(CodeType::u32, "slot"));
    code_.begin_loop("filling");
    code_.set("last", subtract("here", 1));
    for (std::int64_t i = 0; i < count; ++i) {
      code_.set("place", add("next", i * slots_));
      code_.set("place", smaller("place", "last"));
      code_.move("from", "columns", "place");
      code_.load(numbered("column", i), {"from"});
      code_.move("from_value", "values", "place");
      code_.load(numbered("value", i), {"from_value"});
    }
    for (std::int64_t i = 0; i < count; ++i) {
      if (layer_.has_tokens_of_b()) {
        code_.move("at", "b", numbered("column", i));
      } else {
        code_.move("at", "b", numbered("column", i), ldb_);
      }
      code_.load(elements(i), {"at"});
    }
    code_.set("place", multiply_add("next", columns_, "part"));
    code_.shared_at("to_elements", "place");
    code_.shared_move("to_values", "stage_values", "next");
    for (std::int64_t i = 0; i < count; ++i) {
      code_.store(elements(i), {"to_elements", i * slots_ * columns_});
      code_.store(numbered("value", i), {"to_values", i * slots_});  // all parts the same one
    }
    code_.set("next", add("next", count * slots_));
    code_.set("filling", compare("lt", "next", "here"));
    code_.end_loop();
  }

  /// Variables of the elements of B that an entry meets.
  [[nodiscard]] std::vector<std::string> elements(std::int64_t entry) const {
    std::vector<std::string> names;
    names.reserve(to_size(width_));
    for (std::int64_t i = 0; i < width_; ++i) names.push_back(fmt::format("b{}_{}", entry, i));
    return names;
  }

  /// Those of the stage that are the row's, in their order.
  void add_products() {
    code_.set("low", larger("row_begin", "stage"));
    code_.set("high", add("stage", "here"));
    code_.set("high", smaller("high", "row_end"));
    code_.set("some", compare("lt", "low", "high"));
    code_.begin_if("some");
    code_.set("left", subtract("high", "low"));
    code_.set("low", subtract("low", "stage"));
    code_.set("place", multiply_add("low", columns_, "part"));
    code_.shared_at("from_elements", "place");
    code_.shared_move("from_values", "stage_values", "low");
    code_.set("many", compare("ge", "left", k_unrolled));
    code_.begin_if("many");
    code_.begin_loop("many");
    add_next(k_unrolled);
    code_.set("many", compare("ge", "left", k_unrolled));
    code_.end_loop();
    code_.end();
    code_.set("few", compare("gt", "left", 0));
    code_.begin_if("few");
    code_.begin_loop("few");
    add_next(1);
    code_.set("few", compare("gt", "left", 0));
    code_.end_loop();
    code_.end();
    code_.end();
  }

  void add_next(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      code_.load(numbered("value", i), {"from_values", i});
      code_.load(elements(i), {"from_elements", i * columns_});
    }
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t column = 0; column < width_; ++column) {
        const std::string sum = sum_names(column, 1).front();
        code_.set(sum, fused(elements(i)[to_size(column)], numbered("value", i), sum));
      }
    }
    code_.shared_move("from_values", "from_values", count);
    code_.shared_move("from_elements", "from_elements", count * columns_);
    code_.set("left", subtract("left", count));
  }

  void store() {
    code_.begin_if("has_row");
    read_operands_of_c(code_, layer_, "item");
    load_row_operands(code_, layer_, "row");
    const bool has_residual = layer_.epilogue.residual;
    const CodeStride ldc = code_.stride("ldc", is_far_);
    const CodeStride ldr = has_residual ? code_.far_stride("ldr") : CodeStride{};
    std::vector<SumsOfRow> all;
    if (!layer_.has_tokens_of_c()) {
      to_row("c", ldc);
      if (has_residual) to_row("residual", ldr);
      all.push_back({0, width_, {"c"}, {"residual"}});
    } else {
      code_.move("c", "c", "row");
      if (has_residual) code_.move("residual", "residual", "row");
      for (std::int64_t i = 0; i < width_; ++i) {
        code_.set("token", add("j", i));
        code_.move(numbered("c_of_", i), "c", "token", ldc);
        if (has_residual) code_.move(numbered("residual_of_", i), "residual", "token", ldr);
        all.push_back({i, 1, {numbered("c_of_", i)}, {numbered("residual_of_", i)}});
      }
    }
    finish_sums(code_, layer_, all);
    code_.end();
  }

  void to_row(std::string_view pointer, const CodeStride& ld) {
    code_.move(pointer, pointer, "row", ld);
    code_.move(pointer, pointer, "j");
  }

  CudaCode& code_;
  const CudaLayer& layer_;
  std::int64_t columns_;
  bool is_far_;
  std::int64_t width_;
  std::int64_t parts_;  ///< of a row's columns, a thread each
  std::int64_t slots_;  ///< rows, or entries, that the block has at once
  std::int64_t stage_;  ///< entries
  CodeStride ldb_;
};

}  // namespace

std::int64_t NarrowProgram::stage_entries() const noexcept {
  constexpr std::int64_t k_floats = 2048;  // of B: with values up to 12 KB, of 64 that sm_75 has
  return std::min<std::int64_t>(k_floats / columns, 1024);
}

std::span<const std::int64_t> narrow_widths(const NarrowProgram& program) {
  return widths_up_to(program.layer.has_tokens_of_b() ? 1 : program.columns);
}

std::string narrow_kernel_name(std::int64_t width) { return fmt::format("spjit_narrow_{}", width); }

std::span<const CudaCode::Parameter> narrow_parameters() {
  static const std::vector<CudaCode::Parameter> k_parameters =
      with_common_parameters({{"block_rows", CodeType::words},
                              {"row_ptrs", CodeType::longs},
                              {"columns", CodeType::words},
                              {"first_tile", CodeType::u32}});
  return k_parameters;
}

CudaCode::Texts emit_narrow(const NarrowProgram& program) {
  CudaCode code(static_cast<int>(program.arch), program.layer.epilogue);
  for (const std::int64_t width : narrow_widths(program)) {
    NarrowEmission(code, program, width).run();
  }
  return std::move(code).take();
}

}  // namespace spjit
