#include "kernels/cuda/dense/dense_code.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "kernels/cuda/code/cuda_epilogue.hpp"
#include "kernels/cuda/code/cuda_parameters.hpp"
#include "kernels/cuda/code/sizes.hpp"
#include "kernels/dense_bits.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// Floats that lie side by side in shared memory, of a thread's rows or columns.
constexpr std::int64_t k_group = 4;
/// Between rows of B in shared memory: tokens are written down the rows, and rows that are a
/// multiple of 32 floats apart share banks.
constexpr std::int64_t k_gap = 4;
/// Registers of an SM, on every architecture; of a thread those that it has sums for, the operands
/// of two products, what is on its way from memory, and addresses.
constexpr std::int64_t k_registers_of_sm = 65536;
constexpr std::int64_t k_registers_besides = 64;

/// Writes the kernel of one width.
class DenseEmission {
 public:
  DenseEmission(CudaCode& code, const DenseCudaProgram& program, std::int64_t width)
      : code_(code),
        layer_(program.layer),
        tile_(program.tile),
        is_far_(program.is_far),
        width_(width),
        threads_(program.tile.threads()),
        pitch_(program.tile.columns + k_gap),
        stage_floats_(program.tile.depth * (program.tile.rows + pitch_)),
        a_loads_(program.tile.rows * program.tile.depth / (threads_ * k_group)),
        b_loads_(program.tile.columns * program.tile.depth / (threads_ * width)) {}

  void run() {
    const std::int64_t sums = tile_.thread_rows * tile_.thread_columns;
    const std::int64_t blocks = k_registers_of_sm / ((sums + k_registers_besides) * threads_);
    code_.begin_kernel({dense_kernel_name(width_), threads_, std::max<std::int64_t>(blocks, 1),
                        2 * stage_floats_ + k_group},
                       dense_parameters());
    find_threads();
    find_columns();
    for (std::int64_t i = 0; i < sums; ++i) zero(sum_names(i, 1).front());
    code_.read("cols");
    code_.set("some", compare("gt", "cols", 0));
    code_.begin_if("some");
    multiply_stages();
    multiply_entries_if_needed();
    code_.end();
    store();
    code_.end_kernel();
  }

 private:
  [[nodiscard]] bool has_tokens_of_b() const { return layer_.has_tokens_of_b(); }
  void zero(const std::string& name) { code_.set(name, copy(CodeType::f32, CodeOperand::of(0))); }

  /// The sum of a thread's row and column. What is stored side by side has neighbouring names.
  [[nodiscard]] std::string sum_of_thread(std::int64_t row, std::int64_t column) const {
    return sum_names(place_of_sum(row, column), 1).front();
  }
  [[nodiscard]] std::int64_t place_of_sum(std::int64_t row, std::int64_t column) const {
    return layer_.has_tokens_of_c() ? column * tile_.thread_rows + row
                                    : row * tile_.thread_columns + column;
  }
  /// Of the block's rows (columns), from the thread's first.
  [[nodiscard]] std::int64_t row_offset(std::int64_t row) const {
    return row / k_group * (tile_.rows / 2) + row % k_group;
  }
  [[nodiscard]] std::int64_t column_offset(std::int64_t column) const {
    return column / k_group * (tile_.columns / 2) + column % k_group;
  }

  /// Sets where the thread's rows and columns are in the block, and its `row` of C.
  void find_threads() {
    const std::int64_t across = tile_.columns / tile_.thread_columns;
    code_.set("thread", special("tid.x"));
    code_.set("column_place", bit_and("thread", across - 1));
    code_.set("column_place", multiply("column_place", k_group));
    code_.set("row_place", shift_right("thread", shift_of(across)));
    code_.set("row_place", multiply("row_place", k_group));
    code_.set("block", special("ctaid.x"));
    code_.set("row", multiply_add("block", tile_.rows, "row_place"));
    code_.read("rows");
  }

  /// Sets `j`, the thread's first column of C, whether C has each, and the product's `b`.
  void find_columns() {
    code_.set("column_tile", special("ctaid.y"));
    code_.read("first_tile");
    code_.set("column_tile", add("column_tile", "first_tile"));
    code_.set("first_j", multiply("column_tile", tile_.columns));
    code_.set("j", add("first_j", "column_place"));
    code_.read("n");
    for (std::int64_t column = 0; column < tile_.thread_columns; ++column) {
      if (column % step_of_columns() != 0) continue;
      code_.set("jj", add("j", column_offset(column)));
      code_.set(numbered("inside", column), compare("lt", "jj", "n"));
    }
    code_.set("item", special("ctaid.z"));
    code_.read("b");
    code_.read("b_distance");
    code_.move_to_item("b", "item", "b_distance");
    ldb_ = code_.stride("ldb", is_far_);
  }

  /// Columns that C has all or none of: n is a multiple of the width where they lie side by side.
  [[nodiscard]] std::int64_t step_of_columns() const {
    return has_tokens_of_b() && layer_.has_tokens_of_c() ? 1 : width_;
  }
  [[nodiscard]] std::string inside(std::int64_t column) const {
    return numbered("inside", column / step_of_columns() * step_of_columns());
  }

  // From memory into registers: a stage of A, whose floats lie as in shared memory, and of B.

  void prepare_loads() {
    code_.read("values");
    code_.read("depth_tiles");
    code_.set("of_block", widen("block"));
    code_.set("block_floats", widen("depth_tiles"));
    code_.set("of_block", multiply_far("of_block", "block_floats"));
    code_.set("of_block", multiply_far("of_block", tile_.rows * tile_.depth));
    code_.move_far("values", "values", "of_block");
    code_.set("a_place", multiply("thread", k_group));
    code_.move("values", "values", "a_place");
    code_.set("left_depth", copy(CodeType::u32, "cols"));
    if (has_tokens_of_b()) {
      prepare_tokens();
    } else {
      prepare_rows();
    }
    code_.set("most", copy(CodeType::u32, 0));
    code_.set("least_seen", copy(CodeType::u32, std::int64_t{0xFFFF'FFFF}));
  }

  /// Row-major: neighbouring threads have neighbouring columns of a row.
  void prepare_rows() {
    const std::int64_t across = tile_.columns / width_;
    code_.set("loads_column", bit_and("thread", across - 1));
    code_.set("loads_column", multiply("loads_column", width_));
    code_.set("loads_row", shift_right("thread", shift_of(across)));
    code_.set("b_place", multiply_add("loads_row", pitch_, "loads_column"));
    code_.set("loads_column", add("loads_column", "first_j"));
    code_.set("loads", compare("lt", "loads_column", "n"));
    code_.move("from", "b", "loads_column");
    code_.move("from", "from", "loads_row", ldb_);
  }
  [[nodiscard]] std::int64_t rows_a_load() const { return threads_ * width_ / tile_.columns; }

  /// Tokens: neighbouring threads have neighbouring features of a token.
  void prepare_tokens() {
    const std::int64_t across = tile_.depth / width_;
    code_.set("loads_row", bit_and("thread", across - 1));
    code_.set("loads_row", multiply("loads_row", width_));
    code_.set("loads_column", shift_right("thread", shift_of(across)));
    code_.set("b_place", multiply_add("loads_row", pitch_, "loads_column"));
    code_.set("loads_column", add("loads_column", "first_j"));
    code_.move("from", "b", "loads_row");
    code_.move("from", "from", "loads_column", ldb_);
    for (std::int64_t i = 0; i < b_loads_; ++i) {
      code_.set("token", add("loads_column", i * tokens_a_load()));
      code_.set(numbered("loads", i), compare("lt", "token", "n"));
    }
  }
  [[nodiscard]] std::int64_t tokens_a_load() const { return threads_ * width_ / tile_.depth; }

  [[nodiscard]] static std::vector<std::string> a_names(std::int64_t load) {
    std::vector<std::string> names;
    names.reserve(k_group);
    for (std::int64_t i = 0; i < k_group; ++i) names.push_back(fmt::format("x{}_{}", load, i));
    return names;
  }
  [[nodiscard]] std::vector<std::string> b_names(std::int64_t load) const {
    std::vector<std::string> names;
    names.reserve(to_size(width_));
    for (std::int64_t i = 0; i < width_; ++i) names.push_back(fmt::format("y{}_{}", load, i));
    return names;
  }

  /// Brings the next stage, zeros past the last column of A and of C.
  void load_stage() {
    for (std::int64_t i = 0; i < a_loads_; ++i) {
      code_.load(a_names(i), {"values", i * threads_ * k_group});
    }
    code_.move("values", "values", tile_.rows * tile_.depth);
    if (has_tokens_of_b()) code_.set("in_depth", compare("lt", "loads_row", "left_depth"));
    for (std::int64_t i = 0; i < b_loads_; ++i) {
      if (has_tokens_of_b()) {
        code_.set("loaded", both(numbered("loads", i), "in_depth"));
      } else {
        code_.set("loaded_row", add("loads_row", i * rows_a_load()));
        code_.set("loaded", compare("lt", "loaded_row", "left_depth"));
        code_.set("loaded", both("loaded", "loads"));
      }
      code_.move("from_now", "from", i * (has_tokens_of_b() ? tokens_a_load() : rows_a_load()),
                 ldb_);
      code_.load(b_names(i), {"from_now"}, {"loaded"});
    }
    if (has_tokens_of_b()) {
      code_.move("from", "from", tile_.depth);
    } else {
      code_.move("from", "from", tile_.depth, ldb_);
    }
    code_.set("here", smaller("left_depth", tile_.depth));
    code_.set("left_depth", subtract("left_depth", "here"));
  }

  /// Registers of the stage into shared memory, at `buffer`, in floats. What B has is looked at.
  void store_stage(std::string_view buffer) {
    code_.set("to", add(buffer, "a_place"));
    code_.shared_at("to_a", "to");
    for (std::int64_t i = 0; i < a_loads_; ++i) {
      code_.store(a_names(i), {"to_a", i * threads_ * k_group});
    }
    code_.set("to", add(buffer, "b_place"));
    code_.shared_at("to_b", "to");
    for (std::int64_t i = 0; i < b_loads_; ++i) {
      const std::vector<std::string> names = b_names(i);
      look_at(names);
      if (!has_tokens_of_b()) {
        code_.store(names, {"to_b", b_floats() + i * rows_a_load() * pitch_});
        continue;
      }
      for (std::int64_t row = 0; row < width_; ++row) {
        code_.store(names[to_size(row)], {"to_b", b_floats() + i * tokens_a_load() + row * pitch_});
      }
    }
  }
  /// Of B in a stage, behind A.
  [[nodiscard]] std::int64_t b_floats() const { return tile_.rows * tile_.depth; }

  /// The largest magnitude so far, and the smallest less 1, which makes zeros the largest.
  void look_at(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      code_.set("bits", bits_of_float(name));
      code_.set("bits", bit_and("bits", std::int64_t{0x7FFF'FFFF}));
      code_.set("most", larger("most", "bits"));
      code_.set("bits", subtract("bits", 1));
      code_.set("least_seen", smaller("least_seen", "bits"));
    }
  }

  /// All stages; while one is multiplied the next is on its way.
  void multiply_stages() {
    prepare_loads();
    code_.shared_at("special_values", 2 * stage_floats_);
    zero("nothing");
    code_.store("nothing", {"special_values"});  // all threads the same
    code_.set("buffer", copy(CodeType::u32, 0));
    load_stage();
    store_stage("buffer");
    code_.barrier();
    code_.begin_loop("more");
    load_stage();
    multiply_stage();
    code_.set("buffer", subtract(stage_floats_, "buffer"));
    store_stage("buffer");
    code_.barrier();
    code_.set("depth_tiles", subtract("depth_tiles", 1));
    code_.set("more", compare("gt", "depth_tiles", 0));
    code_.end_loop();
  }

  void multiply_stage() {
    code_.set("at", add("buffer", "row_place"));
    code_.shared_at("of_a", "at");
    code_.set("at", add("buffer", "column_place"));
    code_.shared_at("of_b", "at");
    for (std::int64_t k = 0; k < tile_.depth; ++k) {
      load_groups("a", {"of_a", k * tile_.rows}, tile_.thread_rows, tile_.rows / 2);
      load_groups("b", {"of_b", b_floats() + k * pitch_}, tile_.thread_columns, tile_.columns / 2);
      for (std::int64_t row = 0; row < tile_.thread_rows; ++row) {
        for (std::int64_t column = 0; column < tile_.thread_columns; ++column) {
          const std::string sum = sum_of_thread(row, column);
          code_.set(sum, fused(numbered("b", column), numbered("a", row), sum));
        }
      }
    }
  }

  void load_groups(std::string_view name, const CodePlace& from, std::int64_t count,
                   std::int64_t apart) {
    for (std::int64_t group = 0; group < count / k_group; ++group) {
      std::vector<std::string> names;
      names.reserve(k_group);
      for (std::int64_t i = 0; i < k_group; ++i) {
        names.push_back(numbered(name, group * k_group + i));
      }
      code_.load(names, {from.pointer, from.offset + group * apart});
    }
  }

  /// Where any thread of the block has seen a value of B that a product with a zero is not +0 of,
  /// or that makes sums that are none's multiples, all sums are made anew, of entries alone.
  void multiply_entries_if_needed() {
    code_.read("least");
    code_.set("least", subtract("least", 1));
    code_.set("special", compare("lt", "least_seen", "least"));
    code_.set("endless", compare("ge", "most", std::int64_t{k_endless_bits}));
    code_.set("special", either("special", "endless"));
    code_.set("one", copy(CodeType::f32, CodeOperand::of(1)));
    code_.store("one", {"special_values"}, "special");
    code_.barrier();
    code_.load("found", {"special_values"});
    code_.set("bits", bits_of_float("found"));
    code_.set("special", compare("ne", "bits", 0));
    code_.begin_if("special");
    code_.comment("B has special values here: sums of entries alone.");
    for (const char* array : {"row_ptrs", "columns", "entries"}) code_.read(array);
    for (std::int64_t column = 0; column < tile_.thread_columns; ++column) {
      zero(numbered("b", column));
      code_.set("jj", add("j", column_offset(column)));
      if (has_tokens_of_b()) {
        code_.move(numbered("b_of_", column), "b", "jj", ldb_);
      }
    }
    if (!has_tokens_of_b()) code_.move("b_of_0", "b", "j");
    for (std::int64_t row = 0; row < tile_.thread_rows; ++row) multiply_row(row);
    code_.end();
  }

  void multiply_row(std::int64_t row) {
    for (std::int64_t column = 0; column < tile_.thread_columns; ++column) {
      zero(sum_of_thread(row, column));
    }
    code_.set("of_row_number", add("row", row_offset(row)));
    code_.set("has_row", compare("lt", "of_row_number", "rows"));
    code_.begin_if("has_row");
    code_.move("of_row_ptrs", "row_ptrs", "of_row_number");
    code_.load("begin", {"of_row_ptrs"});
    code_.load("end", {"of_row_ptrs", 1});
    code_.set("left", distance("end", "begin"));
    code_.move_far("of_columns", "columns", "begin");
    code_.move_far("of_entries", "entries", "begin");
    code_.set("again", compare("gt", "left", 0));
    code_.begin_if("again");
    code_.begin_loop("again");
    code_.load("column", {"of_columns"});
    code_.load("value", {"of_entries"});
    if (!has_tokens_of_b()) code_.move("at_row", "b_of_0", "column", ldb_);
    for (std::int64_t column = 0; column < tile_.thread_columns; ++column) {
      const std::string element = numbered("b", column);
      const std::string sum = sum_of_thread(row, column);
      CodePlace from{"at_row", column_offset(column)};
      if (has_tokens_of_b()) {
        code_.move("at_row", numbered("b_of_", column), "column");
        from.offset = 0;
      }
      code_.load(element, from, {inside(column), CodeOtherwise::kept});
      code_.set(sum, fused(element, "value", sum));
    }
    code_.move("of_columns", "of_columns", 1);
    code_.move("of_entries", "of_entries", 1);
    code_.set("left", subtract("left", 1));
    code_.set("again", compare("gt", "left", 0));
    code_.end_loop();
    code_.end();
    code_.end();
  }

  void store() {
    read_operands_of_c(code_, layer_, "item");
    has_residual_ = layer_.epilogue.residual;
    ldc_ = code_.stride("ldc", is_far_);
    if (has_residual_) ldr_ = code_.far_stride("ldr");
    if (layer_.has_tokens_of_c()) {
      store_tokens();
    } else {
      for (std::int64_t row = 0; row < tile_.thread_rows; ++row) store_row(row);
    }
  }

  void store_row(std::int64_t row) {
    code_.set("row_of_c", add("row", row_offset(row)));
    code_.set("has_row", compare("lt", "row_of_c", "rows"));
    code_.begin_if("has_row");
    load_row_operands(code_, layer_, "row_of_c");
    to_element("c_of_row", "c", ldc_);
    if (has_residual_) to_element("residual_of_row", "residual", ldr_);
    std::vector<SumsOfRow> all;
    for (std::int64_t column = 0; column < tile_.thread_columns; column += width_) {
      all.push_back({place_of_sum(row, column),
                     width_,
                     {"c_of_row", column_offset(column)},
                     {"residual_of_row", column_offset(column)},
                     inside(column)});
    }
    finish_sums(code_, layer_, all);
    code_.end();
  }

  void to_element(const char* name, const char* pointer, const CodeStride& ld) {
    code_.move(name, pointer, "row_of_c", ld);
    code_.move(name, name, "j");
  }

  /// Rows lie side by side: vectors are of rows.
  void store_tokens() {
    code_.move("c", "c", "row");
    if (has_residual_) code_.move("residual", "residual", "row");
    for (std::int64_t column = 0; column < tile_.thread_columns; ++column) {
      code_.set("jj", add("j", column_offset(column)));
      code_.move(numbered("c_of_", column), "c", "jj", ldc_);
      if (has_residual_) code_.move(numbered("residual_of_", column), "residual", "jj", ldr_);
    }
    for (std::int64_t row = 0; row < tile_.thread_rows; row += width_) {
      code_.set("row_of_c", add("row", row_offset(row)));
      code_.set("has_row", compare("lt", "row_of_c", "rows"));
      code_.begin_if("has_row");
      for (std::int64_t i = 0; i < width_; ++i) {
        if (i > 0) code_.set("row_of_c", add("row_of_c", 1));
        load_row_operands(code_, layer_, "row_of_c", i);
      }
      std::vector<SumsOfRow> all;
      all.reserve(to_size(tile_.thread_columns));
      for (std::int64_t column = 0; column < tile_.thread_columns; ++column) {
        all.push_back({place_of_sum(row, column),
                       width_,
                       {numbered("c_of_", column), row_offset(row)},
                       {numbered("residual_of_", column), row_offset(row)},
                       inside(column),
                       0,
                       true});
      }
      finish_sums(code_, layer_, all);
      code_.end();
    }
  }

  CudaCode& code_;
  const CudaLayer& layer_;
  DenseTile tile_;
  bool is_far_;
  std::int64_t width_;
  std::int64_t threads_;
  std::int64_t pitch_;         ///< floats between rows of B in shared memory
  std::int64_t stage_floats_;  ///< A, then B
  std::int64_t a_loads_;       ///< of a thread, four floats each
  std::int64_t b_loads_;       ///< of a thread, of the width
  bool has_residual_ = false;
  CodeStride ldb_;
  CodeStride ldc_;
  CodeStride ldr_;
};

/// Of the time that a block of a tile takes, what goes to its multiplications: in a stage a thread
/// loads thread_rows + thread_columns floats of shared memory, four at once, for thread_rows x
/// thread_columns of them. An SM takes 32 lanes' FMAs a cycle and a half, and eight lanes' loads.
/// Reasoned, not measured.
double share_of_products(const DenseTile& tile) {
  const double products = as_double(tile.thread_rows * tile.thread_columns);
  const double loads = as_double(tile.thread_rows + tile.thread_columns) / k_group;
  return products / (products + 4 * loads + 4);
}

}  // namespace

std::string to_string(const DenseTile& tile) {
  return fmt::format("rows={} columns={}", tile.rows, tile.columns);
}

std::span<const DenseTile> dense_tiles() noexcept {
  static constexpr std::array<DenseTile, 5> k_tiles = {
      DenseTile{32, 32, 4, 4, 16}, DenseTile{64, 64, 8, 4, 8}, DenseTile{32, 128, 8, 4, 16},
      DenseTile{128, 32, 8, 4, 16}, DenseTile{128, 128, 8, 8, 8}};
  return k_tiles;
}

DenseTile dense_tile_of(std::int64_t rows, std::int64_t columns) {
  for (const DenseTile& tile : dense_tiles()) {
    if (tile.rows == rows && tile.columns == columns) return tile;
  }
  throw Error(fmt::format("no tile of {} x {}", rows, columns));
}

DenseTile dense_tile_for(std::int64_t m, std::int64_t n, const CudaDeviceInfo& limits) noexcept {
  const std::int64_t sms = std::max<std::int64_t>(limits.sms, 1);
  const auto time_of = [&](const DenseTile& tile) {
    const std::int64_t blocks = ceil_div(m, tile.rows) * ceil_div(n, tile.columns);
    const double block = as_double(tile.rows * tile.columns) / share_of_products(tile);
    // Fewer than eight warps leave an SM waiting for memory.
    const std::int64_t warps = ceil_div(blocks, sms) * tile.threads() / k_cuda_warp;
    const double waiting = warps >= 8 ? 1 : 8 / as_double(warps);
    return as_double(ceil_div(blocks, sms)) * block * (1 + 0.25 * (waiting - 1));
  };
  const std::span<const DenseTile> tiles = dense_tiles();
  return *std::ranges::min_element(tiles, {}, time_of);
}

std::span<const std::int64_t> dense_widths() noexcept {
  static constexpr std::array<std::int64_t, 2> k_widths = {4, 1};
  return k_widths;
}

std::string dense_kernel_name(std::int64_t width) { return fmt::format("spjit_dense_{}", width); }

std::span<const CudaCode::Parameter> dense_parameters() {
  static const std::vector<CudaCode::Parameter> k_parameters =
      with_common_parameters({{"row_ptrs", CodeType::longs},
                              {"columns", CodeType::words},
                              {"entries", CodeType::floats},
                              {"rows", CodeType::u32},
                              {"depth_tiles", CodeType::u32},
                              {"cols", CodeType::u32},
                              {"first_tile", CodeType::u32},
                              {"least", CodeType::u32}});
  return k_parameters;
}

CudaCode::Texts emit_dense(const DenseCudaProgram& program) {
  CudaCode code(static_cast<int>(program.arch), program.layer.epilogue);
  for (const std::int64_t width : dense_widths()) DenseEmission(code, program, width).run();
  return std::move(code).take();
}

}  // namespace spjit
