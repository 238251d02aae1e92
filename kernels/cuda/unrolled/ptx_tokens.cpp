#include "kernels/cuda/unrolled/ptx_tokens.hpp"

#include <algorithm>

#include "base/arithmetic.hpp"
#include "kernels/cuda/code/activation_code.hpp"
#include "kernels/cuda/code/sizes.hpp"

namespace spjit {
namespace {

/// Tokens that a thread has in registers at once, on their way from B and to C.
constexpr std::int64_t k_loads = 4;  // with 8 the code of a stage is twice as long
constexpr std::int64_t k_stores = 4;

}  // namespace

bool are_neighbours(std::span<const std::int32_t> rows) {
  return std::ranges::adjacent_find(
             rows, [](std::int64_t a, std::int64_t b) { return b != a + 1; }) == rows.end();
}

void PtxTokens::table(SourceText& text, std::int64_t function,
                      std::span<const std::int32_t> rows) const {
  if (!spec_.layer.has_tokens_of_c() || are_neighbours(rows)) return;
  text << ".global .align 4 .u32 spjit_rows_" << function << "[" << std::ssize(rows) << "] = {";
  for (std::size_t i = 0; i < rows.size(); ++i)
    text << (i == 0 ? "" : ",") << std::int64_t{rows[i]};
  text << "};\n";
}

std::string PtxTokens::barrier() const {
  if (spec_.tile.tiles_a_block == 1) return "bar.sync 0;\n";
  return "bar.sync barrier_id," + std::to_string(spec_.tile.n1) + ";\n";
}

void PtxTokens::registers(SourceText& text) const {
  if (spec_.tile.tiles_a_block > 1) text << ".reg .b32 barrier_id;\nmov.u32 barrier_id,%tid.y;\n";
  text << ".reg .b32 mine, feature, place, to, mine_left, rest, row, count;\n"
          ".reg .b64 from, stride, target, rtarget, rstride;\n"
          ".reg .pred outside, more, inside<"
       << k_stores << ">;\n.reg .f32 v<" << k_loads << ">, scale, bias;\n"
       << "mov.u32 mine,%tid.x;\nsetp.ge.u32 outside,mine,left;\nand.b32 feature,mine,"
       << stage_.features - 1 << ";\nshr.u32 to,mine," << shift_of(stage_.features)
       << ";\nsub.s32 mine_left,left,to;\nmad.lo.u32 place,feature," << stage_.pitch
       << ",to;\nshl.b32 place,place,2;\nshl.b32 mine,mine,2;\n"
          "add.u32 place,place,shared;\nadd.u32 mine,mine,shared;\n";
}

void PtxTokens::leave_outside(SourceText& text) { text << "@outside exit;\n"; }

void PtxTokens::load(SourceText& text, std::int64_t column) {
  const std::int64_t base = column / stage_.features * stage_.features;
  if (base != base_) stage(text, base);
  text << "ld.shared.f32 b,[mine+" << (column - base) * stage_.pitch * k_float_bytes << "];\n";
}

void PtxTokens::stride(SourceText& text, std::string_view name, std::int64_t fixed, bool is_fixed,
                       std::string_view leading_dimension) const {
  if (is_fixed) {
    text << "mov.u64 " << name << "," << stage_.step * fixed * k_float_bytes << ";\n";
  } else {
    text << "mul.wide.u32 " << name << "," << leading_dimension << "," << stage_.step << ";\n";
  }
}

/// Brings features [base, base + stage_.features) of the block's tokens into shared memory: zeros
/// where there is no token or feature.
void PtxTokens::stage(SourceText& text, std::int64_t base) {
  if (base_ >= 0) text << barrier();
  base_ = base;
  const std::int64_t step_bytes = stage_.step * k_float_bytes;
  text << "add.s64 from,pb," << base * k_float_bytes << ";\nmov.u32 to,place;\n"
       << "mov.u32 rest,mine_left;\n";
  if (base + stage_.features > cols_) {
    text << "setp.lt.u32 more,feature," << cols_ - base << ";\nselp.b32 rest,rest,0,more;\n";
  }
  stride(text, "stride", spec_.ldb, !spec_.tile.runtime_sizes, "ldb");
  const std::int64_t rounds = stage_.features / k_loads;
  const std::int64_t label = labels_++;
  if (rounds > 1)
    text << "mov.u32 count," << rounds << ";\nstage_" << label << ":\n.pragma \"nounroll\";\n";
  for (std::int64_t u = 0; u < k_loads; ++u) {
    text << "mov.f32 v" << u << ",0f00000000;\nsetp.gt.s32 more,rest," << u * stage_.step
         << ";\n@more ld.global.nc.f32 v" << u << ",[from];\nadd.s64 from,from,stride;\n";
  }
  for (std::int64_t u = 0; u < k_loads; ++u) {
    text << "st.shared.f32 [to+" << u * step_bytes << "],v" << u << ";\n";
  }
  if (rounds > 1) {
    text << "add.u32 to,to," << k_loads * step_bytes << ";\nsub.s32 rest,rest,"
         << k_loads * stage_.step
         << ";\nsub.u32 count,count,1;\nsetp.ne.u32 more,count,0;\n@more bra stage_" << label
         << ";\n";
  }
  text << barrier();
}

void PtxTokens::store(SourceText& text, const Rows& rows) {
  const std::int64_t all = std::ssize(rows.rows);
  for (std::int64_t begin = 0; begin < all; begin += stage_.features) {
    store_part(text, rows, begin, std::min(stage_.features, all - begin));
  }
}

/// Sets `row`, `rest` and the pointers of this thread's feature: row `begin` + `feature`.
void PtxTokens::address_part(SourceText& text, const Rows& rows, std::int64_t begin,
                             std::int64_t count) const {
  text << "setp.lt.u32 more,feature," << count
       << ";\nmov.u32 rest,mine_left;\nselp.b32 rest,rest,0,more;\n";
  if (are_neighbours(rows.rows)) {
    text << "add.u32 row,feature," << std::int64_t{rows.rows[to_size(begin)]} << ";\n";
  } else {
    text << "mul.wide.u32 address,feature,4;\nmov.u64 from,spjit_rows_" << rows.function
         << ";\nadd.s64 address,address,from;\nmov.u32 row,0;\n@more ld.global.nc.u32 row,[address+"
         << begin * k_float_bytes << "];\n";
  }
  const Epilogue& epilogue = spec_.layer.epilogue;
  if (epilogue.scale) operand_of_row(text, "scale");
  if (epilogue.bias) operand_of_row(text, "bias");
  text << "mul.wide.u32 target,row,4;\n";
  if (epilogue.residual) {
    text << "add.s64 rtarget,target,pr;\n";
    stride(text, "rstride", 0, false, "ldr");
  }
  text << "add.s64 target,target,pc;\n";
  stride(text, "stride", spec_.ldc, !spec_.tile.runtime_sizes, "ldc");
}

void PtxTokens::operand_of_row(SourceText& text, std::string_view name) const {
  text << "mul.wide.u32 address,row,4;\nadd.s64 address,address,p" << name << ";\nmov.f32 " << name
       << ",0f00000000;\n@more ld.global.nc.f32 " << name << ",[address];\n";
}

void PtxTokens::store_part(SourceText& text, const Rows& rows, std::int64_t begin,
                           std::int64_t count) {
  if (!rows.are_zeros) {
    if (begin > 0 || base_ >= 0) text << barrier();
    for (std::int64_t i = 0; i < count; ++i) {
      text << "st.shared.f32 [mine+" << i * stage_.pitch * k_float_bytes << "],c" << begin + i
           << ";\n";
    }
    text << barrier();
  }
  address_part(text, rows, begin, count);
  const std::int64_t label = labels_++;
  text << "mov.u32 to,place;\nmov.u32 count," << stage_.features / k_stores << ";\nstore_" << label
       << ":\n.pragma \"nounroll\";\n";
  finish_step(text, rows);
  text << "add.u32 to,to," << k_stores * stage_.step * k_float_bytes << ";\nsub.s32 rest,rest,"
       << k_stores * stage_.step
       << ";\nsub.u32 count,count,1;\nsetp.ne.u32 more,count,0;\n@more bra store_" << label
       << ";\n";
}

/// Some tokens of one feature, side by side for ptxas to overlap.
void PtxTokens::finish_step(SourceText& text, const Rows& rows) const {
  const Epilogue& epilogue = spec_.layer.epilogue;
  for (std::int64_t u = 0; u < k_stores; ++u) {
    const std::int64_t c = rows.spare + u;
    text << "setp.gt.s32 inside" << u << ",rest," << u * stage_.step << ";\nmov.f32 c" << c
         << ",0f00000000;\n";
    if (!rows.are_zeros) {
      text << "@inside" << u << " ld.shared.f32 c" << c << ",[to+"
           << u * stage_.step * k_float_bytes << "];\n";
    }
    if (epilogue.scale) text << "mul.rn.f32 c" << c << ",c" << c << ",scale;\n";
    if (epilogue.bias) text << "add.rn.f32 c" << c << ",c" << c << ",bias;\n";
    if (!epilogue.residual) continue;
    text << "mov.f32 b,0f00000000;\n@inside" << u
         << " ld.global.f32 b,[rtarget];\nadd.s64 rtarget,rtarget,rstride;\nadd.rn.f32 c" << c
         << ",c" << c << ",b;\n";
  }
  for (std::int64_t u = 0; u < k_stores; ++u) emit_ptx_activation(text, epilogue, rows.spare + u);
  for (std::int64_t u = 0; u < k_stores; ++u) {
    text << "@inside" << u << " st.global.f32 [target],c" << rows.spare + u
         << ";\nadd.s64 target,target,stride;\n";
  }
}

}  // namespace spjit
