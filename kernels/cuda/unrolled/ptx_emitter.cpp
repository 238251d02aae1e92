#include "kernels/cuda/unrolled/ptx_emitter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/arithmetic.hpp"
#include "kernels/cuda/code/activation_code.hpp"
#include "kernels/cuda/code/ptx_text.hpp"
#include "kernels/cuda/code/sizes.hpp"
#include "kernels/cuda/code/source_text.hpp"
#include "kernels/cuda/unrolled/cuda_patches.hpp"
#include "kernels/cuda/unrolled/cuda_units.hpp"
#include "kernels/cuda/unrolled/ptx_tokens.hpp"
#include "kernels/cuda/unrolled/value_stream.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// Text of about this size for each nonzero; only a reservation.
constexpr std::int64_t k_ptx_bytes_a_nonzero = 56;

/// Labels of one .branchtargets: from 16383 on nvJitLink 13.0 crashes.
constexpr std::int64_t k_most_targets = 16380;

/// What the entry hands to a function: a register of both, with the same name.
struct Passed {
  std::string_view type;
  std::string name;
};

std::vector<Passed> passed_registers(const CudaKernelSpec& spec) {
  std::vector<Passed> passed = {{"b64", "pb"}, {"b64", "pc"}};
  if (spec.tile.runtime_sizes) passed.insert(passed.end(), {{"b32", "ldb"}, {"b32", "ldc"}});
  if (spec.layer.epilogue.scale) passed.push_back({"b64", "pscale"});
  if (spec.layer.epilogue.bias) passed.push_back({"b64", "pbias"});
  if (spec.layer.epilogue.residual) passed.insert(passed.end(), {{"b64", "pr"}, {"b32", "ldr"}});
  if (spec.layer.has_tokens()) passed.insert(passed.end(), {{"b32", "left"}, {"b32", "shared"}});
  if (spec.layer.runtime_values) passed.push_back({"b64", "pvalues"});
  for (std::int64_t word = 0; word < mask_words(spec.layer); ++word) {
    passed.push_back({"b32", CudaPatches::word_name(word)});
  }
  return passed;
}

/// The kernel's parameters: CudaParameters.
constexpr std::string_view k_kernel_parameters =
    "(.param .u64 kernel_b, .param .u64 kernel_c, .param .u64 kernel_scale, "
    ".param .u64 kernel_bias, .param .u64 kernel_residual, .param .u32 kernel_n, "
    ".param .u32 kernel_ldb, .param .u32 kernel_ldc, .param .u32 kernel_ldr, "
    ".param .u64 kernel_b_distance, .param .u64 kernel_c_distance, "
    ".param .u64 kernel_residual_distance, .param .u64 kernel_values)";

class PtxEmission {
 public:
  PtxEmission(const KernelPlan& plan, const CudaKernelSpec& spec, int sm,
              const Cancellation& cancel)
      : plan_(plan),
        spec_(spec),
        pace_(cancel),
        sm_(sm),
        passed_(passed_registers(spec)),
        patches_(spec.layer, spec.ldb),
        units_(cut_into_units(plan, spec.tile.unit_nonzeros)) {
    if (spec.layer.runtime_values) value_ptrs_ = value_ptrs(plan);
  }

  std::vector<SourceUnit> run() {
    return emit_units(units_, pace_, [this](const UnitRange& range) { return unit(range); });
  }

 private:
  bool runtime() const { return spec_.tile.runtime_sizes; }
  bool has_tokens() const { return spec_.layer.has_tokens(); }
  bool has_values() const { return spec_.layer.runtime_values; }
  bool whole() const { return units_.size() == 1; }

  SourceUnit unit(const UnitRange& range) {
    SourceUnit unit = describe_unit(plan_, units_, range, spec_);
    unit.language = SourceLanguage::ptx;
    SourceText text(range.nonzeros * k_ptx_bytes_a_nonzero + (1 << 14));
    text << "// spjit, PTX emitter " << std::int64_t{k_ptx_emitter_version} << ".\n.version "
         << ptx_version(sm_) << "\n.target sm_" << std::int64_t{sm_} << "\n.address_size 64\n\n";
    emit_ptx_table(text, spec_.layer.epilogue.activation);

    for (std::int64_t function = range.begin; function < range.end; ++function) {
      this->function(text, function);
    }
    if (!unit.kernel.empty()) entry(text);
    unit.text = std::move(text).take();
    return unit;
  }

  /// Functions end the thread: what need not return need not save the caller's registers either
  /// (one of 32 accumulators saved 29 of them to local memory).
  void signature(SourceText& text, std::int64_t function) const {
    text << ".func " << function_name(function) << "(";
    for (const Passed& one : passed_) {
      text << (&one == passed_.data() ? "" : ", ") << ".param ." << one.type << " param_"
           << one.name;
    }
    text << ") .noreturn";
  }

  void function(SourceText& text, std::int64_t function) {
    const bool is_tile = function < plan_.grouping.tiles();
    const std::vector<std::int32_t> empty =
        is_tile ? std::vector<std::int32_t>{} : zero_rows(plan_, function);
    const std::span<const std::int32_t> rows = is_tile ? plan_.tile_rows(function) : empty;
    PtxTokens tokens(spec_, plan_.cols);
    tokens.table(text, function, rows);
    if (!whole()) text << ".visible ";
    signature(text, function);
    text << "\n{\n.reg .b64 address;\n";
    for (const Passed& one : passed_) {
      text << ".reg ." << one.type << " " << one.name << ";\nld.param." << one.type << " "
           << one.name << ",[param_" << one.name << "];\n";
    }
    emit_ptx_activation_registers(text, spec_.layer.epilogue.activation);
    if (has_tokens()) tokens.registers(text);
    if (is_tile) {
      tile(text, function, tokens);
    } else {
      empty_rows(text, {function, rows, 0, true}, tokens);
    }
    text << "exit;\n}\n\n";
  }

  /// One row after another, in one register: their values need no time.
  void empty_rows(SourceText& text, const PtxTokens::Rows& rows, PtxTokens& tokens) const {
    RowPointers pointers;
    const bool has_epilogue = !spec_.layer.epilogue.empty();
    if (has_epilogue || has_tokens()) text << ".reg .f32 c<4>;\n.reg .f32 b;\n";
    if (spec_.layer.has_tokens_of_c()) return tokens.store(text, rows);
    if (has_tokens()) PtxTokens::leave_outside(text);
    for (const std::int32_t row : rows.rows) {
      if (has_epilogue) {
        text << "mov.f32 c0,0f00000000;\n";
        finish(text, row, 0, pointers);
      }
      store_row(text, row, pointers.c) << (has_epilogue ? "c0;\n" : "0f00000000;\n");
    }
  }

  void tile(SourceText& text, std::int64_t tile, PtxTokens& tokens) {
    const std::span<const std::int32_t> rows = plan_.tile_rows(tile);
    const PlanSegment segment = plan_.segment(tile, 0);
    const std::int64_t spare = has_tokens() ? 4 : 0;
    text << ".reg .f32 c<" << std::ssize(rows) + spare << ">;\n.reg .f32 b;\n";
    for (std::int64_t row = 0; row < std::ssize(rows); ++row) {
      text << "mov.f32 c" << row << ",0f00000000;\n";
    }
    patches_.ptx_registers(text);
    MovingPointer b("pb");
    PtxValues values(has_values() ? value_ptrs_[to_size(tile)] : 0);
    if (has_values()) text << ".reg .f32 a<4>;\n";
    for (std::int64_t column = segment.column_begin; column < segment.column_end; ++column) {
      pace_.spend(k_cuda_column_work);
      std::string element = "b";
      if (spec_.layer.has_tokens_of_b()) {
        tokens.load(text, plan_.columns[to_size(column)]);
      } else {
        element = load(text, plan_.columns[to_size(column)], b);
      }
      multiply(text, column, element, values);
    }
    if (spec_.layer.has_tokens_of_c()) {
      return tokens.store(text, {tile, rows, std::ssize(rows), false});
    }
    if (has_tokens()) PtxTokens::leave_outside(text);
    RowPointers pointers;
    // Residuals are read before C is written, so that ptxas may read them early.
    for (std::int64_t row = 0; row < std::ssize(rows); ++row) {
      finish(text, rows[to_size(row)], row, pointers);
    }
    for (std::int64_t row = 0; row < std::ssize(rows); ++row) {
      store_row(text, rows[to_size(row)], pointers.c) << "c" << row << ";\n";
    }
  }

  /// Pointers to what rows of C have, which ascend.
  struct RowPointers {
    MovingPointer c{"pc"};
    MovingPointer scale{"pscale"};
    MovingPointer bias{"pbias"};
  };

  /// The epilogue of a row whose sum is in the register c`accumulator`.
  void finish(SourceText& text, std::int64_t row, std::int64_t accumulator,
              RowPointers& pointers) const {
    const Epilogue& epilogue = spec_.layer.epilogue;
    const auto of_row = [&](std::string_view name, MovingPointer& pointer,
                            std::string_view operation) {
      const std::int64_t offset = pointer.reach(text, row * 4);
      text << "ld.global.nc.f32 b,[" << name << "+" << offset << "];\n"
           << operation << " c" << accumulator << ",c" << accumulator << ",b;\n";
    };
    if (epilogue.scale) of_row("pscale", pointers.scale, "mul.rn.f32");
    if (epilogue.bias) of_row("pbias", pointers.bias, "add.rn.f32");
    if (epilogue.residual) {
      runtime_address(text, row, "ldr", "pr");
      text << "ld.global.f32 b,[address];\nadd.rn.f32 c" << accumulator << ",c" << accumulator
           << ",b;\n";
    }
    emit_ptx_activation(text, epilogue, accumulator);
  }

  /// Returns the register.
  std::string load(SourceText& text, std::int64_t column, MovingPointer& b) const {
    if (!runtime()) return patches_.ptx_load(text, column, b);
    runtime_address(text, column, "ldb", "pb");
    text << "ld.global.nc.f32 b,[address];\n";
    return "b";
  }

  void multiply(SourceText& text, std::int64_t column, std::string_view element,
                PtxValues& values) const {
    for (std::int64_t e = plan_.entry_ptrs[to_size(column)];
         e < plan_.entry_ptrs[to_size(column) + 1]; ++e) {
      const std::int64_t row = plan_.entry_rows[to_size(e)];
      if (has_values()) {
        const std::string_view value = values.next(text);
        text << "fma.rn.f32 c" << row << "," << element << "," << value << ",c" << row << ";\n";
        continue;
      }
      text << "fma.rn.f32 c" << row << "," << element << ",";
      append_ptx_literal(text, plan_.entry_values[to_size(e)]) << ",c" << row << ";\n";
    }
  }

  /// "st.global.f32 [pc+384],", which the register or literal to store follows: the one place that
  /// stores a row of C, be it empty.
  SourceText& store_row(SourceText& text, std::int64_t row, MovingPointer& c) const {
    if (runtime()) {
      runtime_address(text, row, "ldc", "pc");
      return text << "st.global.f32 [address],";
    }
    const std::int64_t offset = c.reach(text, row * spec_.ldc * 4);
    return text << "st.global.f32 [pc+" << offset << "],";
  }

  void entry(SourceText& text) const {
    const std::int64_t functions = count_functions(plan_);
    // Here only: nvJitLink 13.0 calls it defined twice where several functions of a unit use it.
    if (has_tokens()) text << ".extern .shared .align 16 .b8 spjit_shared[];\n\n";
    for (std::int64_t function = 0; function < functions && !whole(); ++function) {
      text << ".extern ";
      signature(text, function);
      text << ";\n";
    }
    text << (whole() ? "" : "\n") << ".visible .entry " << k_cuda_kernel_name << k_kernel_parameters
         << "\n.maxntid " << spec_.tile.threads() << ", 1, 1\n.minnctapersm " << spec_.min_blocks
         << "\n{\n";
    prologue(text);
    jump(text);
    for (std::int64_t function = 0; function < functions; ++function) call(text, function);
    text << "}\n";
  }

  /// To the function of this row tile.
  void jump(SourceText& text) const {
    const std::int64_t tiles = launched_tiles(plan_, spec_);
    for (std::int64_t begin = 0; begin < tiles; begin += k_most_targets) {
      const std::int64_t end = std::min(begin + k_most_targets, tiles);
      // The first table's name is all that programs of one table have.
      const std::string table = begin == 0 ? "targets" : "targets_" + std::to_string(begin);
      if (end < tiles) {
        text << "setp.ge.u32 outside,tile," << k_most_targets << ";\n@outside bra after_" << begin
             << ";\n";
      }
      text << table << ": .branchtargets ";
      for (std::int64_t tile = begin; tile < end; ++tile) {
        text << (tile > begin ? ",to_" : "to_") << function_of(spec_, tile);
      }
      text << ";\nbrx.idx tile," << table << ";\n";
      if (end < tiles)
        text << "after_" << begin << ":\nsub.u32 tile,tile," << k_most_targets << ";\n";
    }
  }

  /// Leaves where j >= n, unless tokens pass through shared memory; then all that is passed on is
  /// set: pointers to column j of the block's product, or to the thread's first token, and leading
  /// dimensions in bytes.
  void prologue(SourceText& text) const {
    text << ".reg .pred outside;\n.reg .b32 tile, j, thread, n, first, feature;\n"
            ".reg .b64 offset, item, distance;\n";
    for (const Passed& one : passed_) text << ".reg ." << one.type << " " << one.name << ";\n";
    text << "mov.u32 tile,%ctaid.x;\nmov.u32 j,%ctaid.y;\nmov.u32 thread,%tid.x;\n";
    if (spec_.tile.tiles_a_block > 1 || spec_.runtime_threads) tile_of_thread(text);
    if (runtime()) {
      text << "ld.param.u32 n,[kernel_n];\n";
      leading_dimension(text, "ldb");
      leading_dimension(text, "ldc");
    }
    if (spec_.layer.epilogue.residual) leading_dimension(text, "ldr");
    if (has_tokens()) {
      tokens_of_block(text);
    } else {
      column_of_thread(text);
    }
    text << "mov.u32 n,%ctaid.z;\ncvt.u64.u32 item,n;\nshl.b64 item,item,2;\n";
    const CudaLayer& layer = spec_.layer;
    const std::string ldb = runtime() ? "ldb" : std::to_string(spec_.ldb * 4);
    const std::string ldc = runtime() ? "ldc" : std::to_string(spec_.ldc * 4);
    of_product(text, "b");
    if (patches_.are_patches()) {
      patches_.ptx_thread(text);
    } else {
      of_thread(text, "b", layer.has_tokens_of_b(), ldb);
    }
    if (layer.has_tokens_of_b()) text << "mul.wide.u32 offset,feature,4;\nadd.s64 pb,pb,offset;\n";
    of_product(text, "c");
    of_thread(text, "c", layer.has_tokens_of_c(), ldc);
    if (layer.epilogue.residual) {
      of_product(text, "residual");
      of_thread(text, "residual", layer.has_tokens_of_c(), "ldr");
    }
    if (layer.epilogue.scale) pointer(text, "pscale", "scale");
    if (layer.epilogue.bias) pointer(text, "pbias", "bias");
    if (layer.runtime_values) pointer(text, "pvalues", "values");
  }

  /// Sets `tile` where a block may have several; threads without one leave.
  void tile_of_thread(SourceText& text) const {
    text << ".reg .b32 tiles, of_block;\nmov.u32 of_block,%tid.y;\n";
    if (spec_.runtime_threads) {
      text << "mov.u32 tiles,%ntid.y;\n";
    } else {
      text << "mov.u32 tiles," << spec_.tile.tiles_a_block << ";\n";
    }
    text << "mad.lo.u32 tile,tile,tiles,of_block;\nsetp.ge.u32 outside,tile,"
         << launched_tiles(plan_, spec_) << ";\n@outside exit;\n";
  }

  void column_of_thread(SourceText& text) const {
    if (spec_.runtime_threads) {
      text << ".reg .b32 threads;\nmov.u32 threads,%ntid.x;\nmad.lo.u32 j,j,threads,thread;\n";
    } else {
      text << "mad.lo.u32 j,j," << spec_.tile.n1 << ",thread;\n";
    }
    if (runtime()) {
      text << "setp.ge.u32 outside,j,n;\n";
    } else {
      text << "setp.ge.u32 outside,j," << spec_.n << ";\n";
    }
    text << "@outside exit;\n";
  }

  /// Sets `left`, the thread's `first` token and `feature`, and its column j, that of the last
  /// token if it has none.
  void tokens_of_block(SourceText& text) const {
    const CudaStage stage = stage_of(spec_.layer, spec_.tile.n1);
    if (!runtime()) text << "mov.u32 n," << spec_.n << ";\n";
    text << "mul.lo.u32 j,j," << spec_.tile.n1 << ";\nsub.u32 left,n,j;\nand.b32 feature,thread,"
         << stage.features - 1 << ";\nshr.u32 first,thread," << shift_of(stage.features)
         << ";\nadd.u32 first,first,j;\nadd.u32 j,j,thread;\nsub.u32 n,n,1;\nmin.u32 "
            "j,j,n;\nmov.u32 shared,spjit_shared;\n";
    if (spec_.tile.tiles_a_block > 1) {
      text << "mad.lo.u32 shared,of_block," << stage.bytes << ",shared;\n";
    }
  }

  static void pointer(SourceText& text, std::string_view to, std::string_view name) {
    text << "ld.param.u64 " << to << ",[kernel_" << name << "];\ncvta.to.global.u64 " << to << ","
         << to << ";\n";
  }

  static std::string_view pointer_to(std::string_view name) {
    return name == "b" ? "pb" : name == "c" ? "pc" : "pr";
  }

  /// To the block's product: `item` is 4 times the product's number.
  static void of_product(SourceText& text, std::string_view name) {
    const std::string_view to = pointer_to(name);
    pointer(text, to, name);
    text << "ld.param.u64 distance,[kernel_" << name << "_distance];\n"
         << "mad.lo.s64 " << to << ",distance,item," << to << ";\n";
  }

  /// From there to column j, or to the thread's first token.
  static void of_thread(SourceText& text, std::string_view name, bool has_tokens,
                        std::string_view leading_dimension) {
    const std::string_view to = pointer_to(name);
    text << "mul.wide.u32 offset,";
    if (has_tokens) {
      text << "first," << leading_dimension;
    } else {
      text << "j,4";
    }
    text << ";\nadd.s64 " << to << "," << to << ",offset;\n";
  }

  static void leading_dimension(SourceText& text, std::string_view name) {
    text << "ld.param.u32 " << name << ",[kernel_" << name << "];\nshl.b32 " << name << "," << name
         << ",2;\n";
  }

  void call(SourceText& text, std::int64_t function) const {
    text << "to_" << function << ":\n{\n";
    for (const Passed& one : passed_) {
      text << ".param ." << one.type << " arg_" << one.name << ";\nst.param." << one.type
           << " [arg_" << one.name << "]," << one.name << ";\n";
    }
    text << "call " << function_name(function) << ",";
    for (const Passed& one : passed_) {
      text << (&one == passed_.data() ? "(arg_" : ",arg_") << one.name;
    }
    text << ");\n}\nexit;\n";
  }

  const KernelPlan& plan_;
  const CudaKernelSpec& spec_;
  CancelPace pace_;
  int sm_;
  std::vector<Passed> passed_;
  CudaPatches patches_;
  std::vector<UnitRange> units_;
  std::vector<std::int64_t> value_ptrs_;  ///< of values at run time
};

}  // namespace

std::vector<SourceUnit> emit_ptx(const KernelPlan& plan, const CudaKernelSpec& spec, int sm,
                                 const Cancellation& cancel) {
  check_cuda_spec(plan, spec);
  return PtxEmission(plan, spec, sm, cancel).run();
}

}  // namespace spjit
