#pragma once

/// @file
/// A CUDA kernel written once and read twice: as PTX and as CUDA C++, statement by statement.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/cuda/code/source_text.hpp"
#include "spjit/epilogue.hpp"

namespace spjit {

/// The type of a variable. Pointers point to global memory, but for `shared`.
enum class CodeType : std::uint8_t {
  pred,
  u32,
  s64,
  f32,
  floats,  ///< const float*
  target,  ///< float*
  words,   ///< const unsigned*
  longs,   ///< const long long*
  shared,  ///< float* into the block's shared memory
};

/// An operand: a variable's name, or a constant.
struct CodeOperand {
  CodeOperand(const char* name) : CodeOperand(std::string(name)) {}  // NOLINT: as it is written
  CodeOperand(std::string_view name) : CodeOperand(std::string(name)) {}  // NOLINT
  CodeOperand(std::string name) : ptx(name), cuda(std::move(name)) {}     // NOLINT
  CodeOperand(std::int64_t value);                                        // NOLINT
  CodeOperand(int value) : CodeOperand(std::int64_t{value}) {}            // NOLINT
  CodeOperand(std::size_t) = delete;
  [[nodiscard]] static CodeOperand of(float value);

  std::string ptx;
  std::string cuda;
};

/// The right side of a statement: instructions in which `$` is the destination, and an expression.
struct CodeExpression {
  CodeType type;
  std::string ptx;
  std::string cuda;
};

/// Floats from one row or token to the next: a constant, or a parameter of the kernel.
struct CodeStride {
  std::int64_t fixed = 0;  ///< unless there is a name
  std::string name = {};
  bool is_bytes = false;  ///< in PTX: the parameter times 4
};

/// A place `offset` elements behind a pointer.
struct CodePlace {
  std::string pointer;
  std::int64_t offset = 0;
};

/// Effect of a load whose guard is false: the variables become 0, or stay as they are.
enum class CodeOtherwise : std::uint8_t { zero, kept };
struct CodeGuard {
  std::string name = {};  ///< empty: there is none
  CodeOtherwise otherwise = CodeOtherwise::zero;
};

/// "sum3": the name of one of several variables.
[[nodiscard]] std::string numbered(std::string_view name, std::int64_t number);

// Integers of 32 bits, unsigned.
[[nodiscard]] CodeExpression copy(CodeType type, const CodeOperand& a);
[[nodiscard]] CodeExpression add(const CodeOperand& a, const CodeOperand& b);
[[nodiscard]] CodeExpression subtract(const CodeOperand& a, const CodeOperand& b);
[[nodiscard]] CodeExpression multiply(const CodeOperand& a, const CodeOperand& b);
/// a * b + c
[[nodiscard]] CodeExpression multiply_add(const CodeOperand& a, const CodeOperand& b,
                                          const CodeOperand& c);
/// Quotient of numbers that are not constants; b is not 0.
[[nodiscard]] CodeExpression divide(const CodeOperand& a, const CodeOperand& b);
[[nodiscard]] CodeExpression smaller(const CodeOperand& a, const CodeOperand& b);
[[nodiscard]] CodeExpression larger(const CodeOperand& a, const CodeOperand& b);
[[nodiscard]] CodeExpression bit_and(const CodeOperand& a, const CodeOperand& b);
[[nodiscard]] CodeExpression bit_or(const CodeOperand& a, const CodeOperand& b);
[[nodiscard]] CodeExpression shift_right(const CodeOperand& a, std::int64_t bits);
[[nodiscard]] CodeExpression shift_left(const CodeOperand& a, std::int64_t bits);
[[nodiscard]] CodeExpression bits_of_float(const CodeOperand& a);
/// "ctaid.x", "tid.x", "nctaid.y" and so on.
[[nodiscard]] CodeExpression special(std::string_view name);
/// a if p, else b.
[[nodiscard]] CodeExpression select(std::string_view p, const CodeOperand& a, const CodeOperand& b);
/// The low 32 bits of a - b, of 64.
[[nodiscard]] CodeExpression distance(const CodeOperand& a, const CodeOperand& b);

/// "lt", "le", "gt", "ge", "eq", "ne" of unsigned integers.
[[nodiscard]] CodeExpression compare(std::string_view how, const CodeOperand& a,
                                     const CodeOperand& b);
[[nodiscard]] CodeExpression both(std::string_view p, std::string_view q);
[[nodiscard]] CodeExpression either(std::string_view p, std::string_view q);

/// 64 bits of 32, and products of such.
[[nodiscard]] CodeExpression widen(const CodeOperand& a);
[[nodiscard]] CodeExpression multiply_far(const CodeOperand& a, const CodeOperand& b);

/// fma(a, b, c), rounded once.
[[nodiscard]] CodeExpression fused(const CodeOperand& a, const CodeOperand& b,
                                   const CodeOperand& c);
[[nodiscard]] CodeExpression product_of(const CodeOperand& a, const CodeOperand& b);
[[nodiscard]] CodeExpression sum_of(const CodeOperand& a, const CodeOperand& b);

/// The statements of kernels with one epilogue. Names are variables of both texts: the first
/// assignment declares one, in the scope where it stands. Sums that activate() takes are called
/// c0, c1, ...
class CudaCode {
 public:
  /// For `sm` 90 in sm_90.
  CudaCode(int sm, const Epilogue& epilogue);

  struct Parameter {
    std::string_view name;
    CodeType type;
  };
  struct Kernel {
    std::string name;
    std::int64_t threads;     ///< a block
    std::int64_t min_blocks;  ///< an SM holds at once
    std::int64_t shared_floats;
  };
  /// The texts between begin_kernel() and end_kernel() are one kernel. `parameters` are all that it
  /// has; those that it uses are read by read(), but for strides.
  void begin_kernel(const Kernel& kernel, std::span<const Parameter> parameters);
  void end_kernel();

  void comment(std::string_view text);

  /// The parameter of that name becomes a variable.
  void read(std::string_view parameter);
  /// The parameter is floats between rows, fewer than 2^30: an address takes one multiplication.
  [[nodiscard]] CodeStride stride(std::string_view parameter);
  /// The parameter is floats between rows, any 32 bits.
  [[nodiscard]] CodeStride far_stride(std::string_view parameter);
  /// One of the two.
  [[nodiscard]] CodeStride stride(std::string_view parameter, bool is_far) {
    return is_far ? far_stride(parameter) : stride(parameter);
  }

  /// With a guard only where it is true; then the variable has been set before.
  void set(std::string_view name, const CodeExpression& expression, std::string_view guard = {});

  /// pointer + index, of 32 bits.
  void move(std::string_view name, std::string_view pointer, const CodeOperand& index);
  /// pointer + index * stride, in 64 bits.
  void move(std::string_view name, std::string_view pointer, const CodeOperand& index,
            const CodeStride& stride);
  /// pointer + index, of 64 bits, signed.
  void move_far(std::string_view name, std::string_view pointer, std::string_view index);
  /// pointer + item * distance, both variables: 32 bits and a parameter of 64.
  void move_to_item(std::string_view name, std::string_view item, std::string_view distance);

  /// A name in shared memory: its first float, and then index floats on.
  void shared_at(std::string_view name, const CodeOperand& index);
  /// pointer + index floats, both of shared memory.
  void shared_move(std::string_view name, std::string_view pointer, const CodeOperand& index);

  /// One, two or four elements side by side, of memory that nobody writes while the kernel runs, or
  /// of the block's shared memory.
  void load(std::span<const std::string> names, const CodePlace& from, const CodeGuard& guard = {});
  void load(const std::string& name, const CodePlace& from, const CodeGuard& guard = {}) {
    load(std::span(&name, 1), from, guard);
  }
  /// Loads floats that the kernel itself writes.
  void load_written(std::span<const std::string> names, const CodePlace& from,
                    const CodeGuard& guard = {});
  void store(std::span<const std::string> names, const CodePlace& to, std::string_view guard = {});
  void store(const std::string& name, const CodePlace& to, std::string_view guard = {}) {
    store(std::span(&name, 1), to, guard);
  }

  void barrier();
  /// Where p is true the thread ends.
  void leave_if(std::string_view p);

  void begin_if(std::string_view p);
  void begin_unless(std::string_view p);
  /// Ends an if, not a loop.
  void end();
  /// Is gone through once at least, and again while p, which is set inside, is true at its end.
  void begin_loop(std::string_view p);
  void end_loop();

  /// c`sum` becomes its activation.
  void activate(std::int64_t sum);

  struct Texts {
    std::string ptx;
    std::string cuda;
  };
  [[nodiscard]] Texts take() &&;

 private:
  struct Scope {
    std::int64_t label = 0;
    std::string again = {};  ///< of a loop
    std::map<std::string, CodeType, std::less<>> names = {};
  };

  [[nodiscard]] CodeType type_of(std::string_view name) const;
  /// Declares it if nothing did: then the C++ text begins with its type.
  void assign(std::string_view name, CodeType type, std::string_view cuda);
  /// Whether nothing had declared it in a scope around.
  bool declare(std::string_view name, CodeType type);
  void begin_condition(std::string_view p, bool is_negated);
  void load_from(std::span<const std::string> names, const CodePlace& from, const CodeGuard& guard,
                 bool is_read_only);
  void load_in_cuda(std::span<const std::string> names, const CodePlace& from, bool is_cached);
  SourceText& line();  ///< of the C++ text, indented

  Epilogue epilogue_;
  SourceText ptx_;
  SourceText cuda_;
  SourceText body_;  ///< of the kernel that is being written, in PTX: its registers come first
  std::map<std::string, CodeType, std::less<>> registers_;
  std::vector<Parameter> parameters_;
  std::vector<Scope> scopes_;
  std::int64_t labels_ = 0;
  std::int64_t vectors_ = 0;
};

}  // namespace spjit
