#include "kernels/host/unrolled/llvm_segment.hpp"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LLVMContext.h>

#include <algorithm>
#include <span>
#include <vector>

#include "kernels/host/unrolled/segment_arguments.hpp"

namespace spjit {
namespace {

constexpr std::int64_t k_sse_lanes = 4;
constexpr std::int64_t k_vector_bytes = k_sse_lanes * 4;
// The fast register allocator looks at up to 7 uses of a value; one with more it takes for a value
// that outlives its basic block, and stores it to the stack.
constexpr std::int64_t k_uses_of_b = 7;
// Blocks of bounded size compile a tenth faster at 10^5 entries and keep any pass that is more than
// linear in a block away. A block's end costs a store and a load of each accumulator.
constexpr std::int64_t k_entries_a_block = 4096;

/// Builds `for v in 0 .. nv - 1: columns of vector v`, with the columns unrolled. Only one vector a
/// row is in registers at a time, and code and compile time do not grow with nv; SSE's multiply
/// destroys a factor and has no unaligned memory operand, so vectors side by side would save no
/// instruction.
class SegmentBuilder {
 public:
  SegmentBuilder(llvm::Function& function, const KernelPlan& plan, const PlanSegment& segment,
                 const SegmentShape& shape)
      : function_(function),
        plan_(plan),
        segment_(segment),
        shape_(shape),
        rows_(plan.tile_rows(segment.tile)),
        first_entry_(plan.entry_ptrs[static_cast<std::size_t>(segment.column_begin)]),
        ir_(block("entry")),
        vector_(llvm::FixedVectorType::get(ir_.getFloatTy(), k_sse_lanes)),
        b_(function.getArg(0)),
        weights_(function.getArg(1)),
        partial_(function.getArg(2)),
        arguments_(function.getArg(3)) {}

  void build() {
    // The fast selector cannot use a vector constant, but it can use the value of another block.
    zero_ = ir_.CreateFreeze(llvm::ConstantAggregateZero::get(vector_));
    if (ends_in_c()) {
      kept_values_ = ir_.CreateAlloca(vector_, constant(std::ssize(rows_)));
      kept_rows_ = ir_.CreateAlloca(ir_.getPtrTy(), constant(std::ssize(rows_)));
    }
    loop(shape_.nv, [&](llvm::Value* v) {
      const Pointers at = pointers_of(v);
      load_accumulators(at);
      multiply_columns(at);
      if (ends_in_c()) {
        store_c(at.bytes);
      } else {
        store_partial(at);
      }
    });
    ir_.CreateRetVoid();
  }

 private:
  /// What a segment is called with, moved to one vector of the panel.
  struct Pointers {
    llvm::Value* b;
    llvm::Value* partial;
    llvm::Value* bytes;  ///< how far they were moved
  };
  /// Where one vector of the panel goes.
  struct Destination {
    llvm::Value* c;
    llvm::Value* ldc_bytes;
    llvm::Value* mask;
  };

  bool ends_in_c() const { return segment_.k_block + 1 == plan_.k_blocks; }

  llvm::BasicBlock* block(const char* name) {
    return llvm::BasicBlock::Create(function_.getContext(), name, &function_);
  }
  void go_on_in(llvm::BasicBlock* next) {
    ir_.CreateBr(next);
    ir_.SetInsertPoint(next);
  }
  llvm::ConstantInt* constant(std::int64_t value) {
    return ir_.getInt64(static_cast<std::uint64_t>(value));
  }
  llvm::Value* moved(llvm::Value* pointer, std::int64_t bytes) {
    return ir_.CreateGEP(ir_.getInt8Ty(), pointer, constant(bytes));
  }
  llvm::Value* moved(llvm::Value* pointer, llvm::Value* bytes) {
    return ir_.CreateGEP(ir_.getInt8Ty(), pointer, bytes);
  }
  llvm::Value* load(llvm::Value* pointer) {
    return ir_.CreateAlignedLoad(vector_, pointer, llvm::Align(4));
  }
  void store(llvm::Value* value, llvm::Value* pointer) {
    ir_.CreateAlignedStore(value, pointer, llvm::Align(4));
  }

  /// A field of SegmentArguments.
  llvm::Value* argument(std::int32_t offset, llvm::Type* type) {
    return ir_.CreateAlignedLoad(type, moved(arguments_, offset), llvm::Align(8));
  }

  Pointers pointers_of(llvm::Value* v) {
    llvm::Value* bytes = ir_.CreateMul(v, constant(k_vector_bytes));
    return {moved(b_, bytes), moved(partial_, bytes), bytes};
  }
  llvm::Value* partial(const Pointers& at, std::size_t row) {
    return moved(at.partial, static_cast<std::int64_t>(row) * shape_.nv * k_vector_bytes);
  }
  llvm::Value* row_of_c(const Destination& to, std::size_t row) {
    return moved(to.c, ir_.CreateMul(to.ldc_bytes, constant(rows_[row])));
  }

  void load_accumulators(const Pointers& at) {
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      sums_.push_back(segment_.k_block == 0 ? zero_ : load(partial(at, row)));
    }
  }

  void multiply_columns(const Pointers& at) {
    std::int64_t block_end = first_entry_;
    for (std::int64_t column = segment_.column_begin; column < segment_.column_end; ++column) {
      const auto index = static_cast<std::size_t>(column);
      const std::int64_t end = plan_.entry_ptrs[index + 1];
      if (end > block_end) {
        go_on_in(block("columns"));
        block_end = plan_.entry_ptrs[index] + k_entries_a_block;
      }
      const std::int64_t row_of_b = plan_.columns[index] - segment_.k_block * plan_.k_block;
      llvm::Value* b = moved(at.b, row_of_b * shape_.b_stride_bytes);
      for (std::int64_t entry = plan_.entry_ptrs[index]; entry < end; entry += k_uses_of_b) {
        multiply(load(b), entry, std::min(entry + k_uses_of_b, end));
      }
    }
  }

  /// Adds the products of one vector of B and the entries [begin, end).
  void multiply(llvm::Value* b, std::int64_t begin, std::int64_t end) {
    for (std::int64_t entry = begin; entry < end; ++entry) {
      const auto row = static_cast<std::size_t>(plan_.entry_rows[static_cast<std::size_t>(entry)]);
      llvm::Value* weight = load(moved(weights_, (entry - first_entry_) * k_vector_bytes));
      llvm::Value* product = ir_.CreateFMul(weight, b);
      // The first sum goes where the product was; no register has to be set to zero for it.
      sums_[row] = sums_[row] == zero_ ? ir_.CreateFAdd(product, zero_)
                                       : ir_.CreateFAdd(sums_[row], product);
    }
  }

  void store_partial(const Pointers& at) {
    for (std::size_t row = 0; row < rows_.size(); ++row) store(sums_[row], partial(at, row));
  }

  /// The one place that stores rows of C, one vector of each. An epilogue changes sums_ here,
  /// before the branch, with what later fields of SegmentArguments give.
  void store_c(llvm::Value* bytes) {
    llvm::BasicBlock* whole = block("whole");
    llvm::BasicBlock* masked = block("masked");
    llvm::BasicBlock* done = block("done");
    llvm::Value* masks = argument(segment_offset::k_masks, ir_.getPtrTy());
    const Destination to{moved(argument(segment_offset::k_c, ir_.getPtrTy()), bytes),
                         argument(segment_offset::k_ldc_bytes, ir_.getInt64Ty()),
                         moved(masks, bytes)};
    ir_.CreateCondBr(ir_.CreateIsNull(masks), whole, masked);

    ir_.SetInsertPoint(whole);
    for (std::size_t row = 0; row < rows_.size(); ++row) store(sums_[row], row_of_c(to, row));
    ir_.CreateBr(done);

    ir_.SetInsertPoint(masked);
    store_masked(to);
    go_on_in(done);
  }

  // SSE2 has no masked store worth using (maskmovdqu goes around the caches), so tails are stored
  // float by float, in a loop over the rows' copies on the stack: little code for a rare case.
  void store_masked(const Destination& to) {
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      llvm::ConstantInt* index = constant(static_cast<std::int64_t>(row));
      ir_.CreateStore(row_of_c(to, row), ir_.CreateGEP(ir_.getPtrTy(), kept_rows_, index));
      ir_.CreateStore(sums_[row], ir_.CreateGEP(vector_, kept_values_, index));
    }
    loop(std::ssize(rows_), [&](llvm::Value* row) {
      llvm::Value* kept_row = ir_.CreateGEP(ir_.getPtrTy(), kept_rows_, row);
      llvm::Value* values = ir_.CreateGEP(vector_, kept_values_, row);
      llvm::Value* row_of_c = ir_.CreateLoad(ir_.getPtrTy(), kept_row);
      loop(k_sse_lanes, [&](llvm::Value* lane) { store_lane(to.mask, row_of_c, values, lane); });
    });
  }

  void store_lane(llvm::Value* mask, llvm::Value* to, llvm::Value* from, llvm::Value* lane) {
    llvm::BasicBlock* chosen = block("lane");
    llvm::BasicBlock* next = block("next");
    llvm::Value* bits =
        ir_.CreateLoad(ir_.getInt32Ty(), ir_.CreateGEP(ir_.getInt32Ty(), mask, lane));
    ir_.CreateCondBr(ir_.CreateICmpSLT(bits, ir_.getInt32(0)), chosen, next);
    ir_.SetInsertPoint(chosen);
    llvm::Type* scalar = ir_.getFloatTy();
    ir_.CreateStore(ir_.CreateLoad(scalar, ir_.CreateGEP(scalar, from, lane)),
                    ir_.CreateGEP(scalar, to, lane));
    go_on_in(next);
  }

  /// `body(i)` for i = 0 .. count - 1, count >= 1.
  template <class Body>
  void loop(std::int64_t count, Body body) {
    llvm::BasicBlock* before = ir_.GetInsertBlock();
    llvm::BasicBlock* head = block("loop");
    go_on_in(head);
    llvm::PHINode* index = ir_.CreatePHI(ir_.getInt64Ty(), 2);
    index->addIncoming(constant(0), before);
    body(index);
    llvm::Value* next = ir_.CreateAdd(index, constant(1));
    index->addIncoming(next, ir_.GetInsertBlock());
    llvm::BasicBlock* after = block("after");
    ir_.CreateCondBr(ir_.CreateICmpULT(next, constant(count)), head, after);
    ir_.SetInsertPoint(after);
  }

  llvm::Function& function_;
  const KernelPlan& plan_;
  PlanSegment segment_;
  SegmentShape shape_;
  std::span<const std::int32_t> rows_;
  std::int64_t first_entry_;
  llvm::IRBuilder<> ir_;
  llvm::FixedVectorType* vector_;
  llvm::Value* b_;
  llvm::Value* weights_;
  llvm::Value* partial_;
  llvm::Value* arguments_;
  llvm::Value* zero_ = nullptr;
  llvm::Value* kept_values_ = nullptr;
  llvm::Value* kept_rows_ = nullptr;
  std::vector<llvm::Value*> sums_;  ///< [rows] the accumulators' current values
};

llvm::Function* declare(llvm::Module& module, const std::string& name) {
  llvm::LLVMContext& context = module.getContext();
  llvm::Type* pointer = llvm::PointerType::getUnqual(context);
  llvm::FunctionType* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                                                     {pointer, pointer, pointer, pointer}, false);
  llvm::Function* function =
      llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, name, module);
  function->setDoesNotThrow();  // no unwind tables
  function->setAlignment(llvm::Align(64));
  return function;
}

}  // namespace

void build_segment(llvm::Module& module, const std::string& name, const KernelPlan& plan,
                   const PlanSegment& segment, const SegmentShape& shape) {
  SegmentBuilder(*declare(module, name), plan, segment, shape).build();
}

}  // namespace spjit
