#pragma once

/// @file
/// Reads emitted CUDA C++ and PTX back, line by line, and executes it on the CPU: a second opinion
/// on what the text says. Anything it does not know is an error.

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/unrolled/cuda_units.hpp"
#include "kernels/host/operands/product.hpp"

namespace spjit::testing_support {

/// One line of a tile function.
struct EmittedOperation {
  enum class Kind : std::uint8_t { load, fma, store, store_zero };

  Kind kind = Kind::load;
  std::int64_t accumulator = 0;  ///< fma, store
  std::string b;                 ///< register or variable that holds an element of B
  float value = 0;               ///< fma
  std::int64_t offset = 0;       ///< load, store: in floats
  std::int64_t row = 0;          ///< load, store: times the run-time leading dimension
};

using EmittedFunction = std::vector<EmittedOperation>;

/// All units of a program together.
struct EmittedProgram {
  std::map<std::string, EmittedFunction> functions;
  std::vector<std::string> targets;   ///< what each row tile of a launch calls
  std::optional<std::int64_t> bound;  ///< of j; none: the parameter n
  std::int64_t threads = 0;           ///< factor of blockIdx.y; 0: the launch's
};

namespace detail {

[[noreturn]] inline void refuse(const std::string& line) {
  throw std::runtime_error("unknown line: " + line);
}

inline float parse_cuda_literal(const std::string& text) {
  unsigned bits = 0;
  int end = 0;
  if (std::sscanf(text.c_str(), "__int_as_float(0x%8X)%n", &bits, &end) == 1) {
    if (end != static_cast<int>(text.size())) refuse(text);
    return std::bit_cast<float>(std::uint32_t{bits});
  }
  char* rest = nullptr;
  const float value = std::strtof(text.c_str(), &rest);
  if (std::string(rest) != "f") refuse(text);
  return value;
}

/// Whether the whole line is what sscanf matched; `end` comes from a final %n.
inline bool whole(const std::string& line, int end) {
  return end > 0 && static_cast<std::size_t>(end) == line.size();
}

/// Block x calls a function; no other line may say what it calls.
inline void set_target(EmittedProgram& program, std::size_t block, const std::string& function) {
  if (program.targets.size() <= block) program.targets.resize(block + 1);
  if (!program.targets[block].empty()) throw std::runtime_error("twice: a block");
  program.targets[block] = function;
}

class CudaReader {
 public:
  explicit CudaReader(EmittedProgram& program) : program_(program) {}

  void line(const std::string& line) {
    if (line.empty() || line.starts_with("//")) return;
    if (line.find(" void spjit_tile_") != std::string::npos) return begin(line);
    if (line == "}") return;
    if (line.starts_with("  c[")) return store(line);
    if (line.starts_with("  const float b")) return load(line);
    if (line.find("__fmaf_rn") != std::string::npos) return fma(line);
    if (in_kernel_) return kernel(line);
    if (line.starts_with("  float c") && line.ends_with(" = 0.0f;")) return;
    if (line.starts_with("static __device__ const unsigned spjit_function_of_tile[")) {
      return functions(line);
    }
    if (line == "  asm volatile(\"exit;\");" || line == "  __builtin_unreachable();") return;
    if (line.starts_with("extern \"C\" __global__ void __launch_bounds__(")) {
      in_kernel_ = true;
      return;
    }
    refuse(line);
  }

 private:
  void begin(const std::string& line) {
    const std::size_t at = line.find("spjit_tile_");
    if (line.ends_with(";")) return;
    name_ = line.substr(at, line.find('(', at) - at);
    if (program_.functions.contains(name_)) throw std::runtime_error("twice: " + name_);
    program_.functions[name_] = {};
  }

  void functions(const std::string& line) {
    std::istringstream list(line.substr(line.find('{') + 1));
    for (std::string number; std::getline(list, number, ',') && number != "};";) {
      functions_.push_back(std::stoll(number));
    }
    if (std::stoul(line.substr(line.find('[') + 1)) != functions_.size()) refuse(line);
  }

  void add(const EmittedOperation& operation) { program_.functions.at(name_).push_back(operation); }

  void load(const std::string& line) {
    long long name = 0;
    long long where = 0;
    int end = 0;
    EmittedOperation op;
    if (std::sscanf(line.c_str(), "  const float b%lld = __ldg(b + %lld);%n", &name, &where,
                    &end) == 2 &&
        whole(line, end)) {
      op.offset = where;
    } else if (std::sscanf(line.c_str(), "  const float b%lld = __ldg(b + %lldull * ldb);%n", &name,
                           &where, &end) == 2 &&
               whole(line, end)) {
      op.row = where;
    } else {
      refuse(line);
    }
    op.b = "b" + std::to_string(name);
    add(op);
  }

  void fma(const std::string& line) {
    long long to = 0;
    long long from = 0;
    long long b = 0;
    char literal[64];
    int end = 0;
    if (std::sscanf(line.c_str(), "  c%lld = __fmaf_rn(%63[^,], b%lld, c%lld);%n", &to, literal, &b,
                    &from, &end) != 4 ||
        !whole(line, end) || to != from) {
      refuse(line);
    }
    EmittedOperation op;
    op.kind = EmittedOperation::Kind::fma;
    op.accumulator = to;
    op.b = "b" + std::to_string(b);
    op.value = parse_cuda_literal(literal);
    add(op);
  }

  void store(const std::string& line) {
    long long where = 0;
    long long from = 0;
    EmittedOperation op;
    op.kind = EmittedOperation::Kind::store;
    const char* text = line.c_str();
    const auto matches = [&](const char* form, int fields) {
      int end = 0;
      const int found = fields == 2 ? std::sscanf(text, form, &where, &from, &end)
                                    : std::sscanf(text, form, &where, &end);
      return found == fields && whole(line, end);
    };
    const bool zero = line.ends_with(" = 0.0f;");
    if (zero) op.kind = EmittedOperation::Kind::store_zero;
    if (matches(zero ? "  c[%lld] = 0.0f;%n" : "  c[%lld] = c%lld;%n", zero ? 1 : 2)) {
      op.offset = where;
    } else if (matches(zero ? "  c[%lldull * ldc] = 0.0f;%n" : "  c[%lldull * ldc] = c%lld;%n",
                       zero ? 1 : 2)) {
      op.row = where;
    } else {
      refuse(line);
    }
    op.accumulator = from;
    add(op);
  }

  void kernel(const std::string& line) {
    long long number = 0;
    if (std::sscanf(line.c_str(), "  const unsigned j = blockIdx.y * %lldu + threadIdx.x;",
                    &number) == 1) {
      program_.threads = number;
    } else if (line == "  const unsigned j = blockIdx.y * blockDim.x + threadIdx.x;") {
      program_.threads = 0;
    } else if (line.starts_with("  const unsigned tile = blockIdx.x * ")) {
      tile_ = "tile";
    } else if (std::sscanf(line.c_str(), "  if (j < %lldu) {", &number) == 1) {
      program_.bound = number;
    } else if (std::sscanf(line.c_str(), "      case %lld:", &number) == 1) {
      case_ = number;
    } else if (line.starts_with("        return spjit_tile_") &&
               (line.ends_with("(b + j, c + j);") || line.ends_with("(b + j, c + j, ldb, ldc);"))) {
      const std::string call = line.substr(15);
      const std::string name = call.substr(0, call.find('('));
      if (functions_.empty()) return set_target(program_, static_cast<std::size_t>(case_), name);
      for (std::size_t block = 0; block < functions_.size(); ++block) {
        if (functions_[block] == case_) set_target(program_, block, name);
      }
    } else if (line != "  if (j < n) {" &&
               line != (functions_.empty()
                            ? "    switch (" + tile_ + ") {"
                            : "    switch (spjit_function_of_tile[" + tile_ + "]) {") &&
               !line.starts_with("  if (tile >= ") && line != "    }" && line != "  }" &&
               line != "  b += blockIdx.z * b_distance;" &&
               line != "  c += blockIdx.z * c_distance;" &&
               !line.starts_with("spjit_spmm(const float* __restrict__ b, ")) {
      refuse(line);
    }
  }

  EmittedProgram& program_;
  std::string name_;
  bool in_kernel_ = false;
  std::vector<std::int64_t> functions_;  ///< of each block, where the text has them
  std::int64_t case_ = -1;               ///< the last label
  std::string tile_ = "blockIdx.x";      ///< of a thread
};

class PtxReader {
 public:
  explicit PtxReader(EmittedProgram& program) : program_(program) {}

  void line(const std::string& line) {
    if (line.starts_with(".extern") || line.starts_with("//")) return;
    if (line.find(".func spjit_tile_") != std::string::npos) {
      const std::size_t at = line.find("spjit_tile_");
      name_ = line.substr(at, line.find('(', at) - at);
      if (program_.functions.contains(name_)) throw std::runtime_error("twice: " + name_);
      program_.functions[name_] = {};
      position_b_ = position_c_ = 0;
    } else if (line.find(".entry spjit_spmm(") != std::string::npos) {
      in_kernel_ = true;
    } else if (in_kernel_) {
      kernel(line);
    } else if (!name_.empty()) {
      body(line);
    }
  }

 private:
  void body(const std::string& line) {
    long long x = 0;
    long long y = 0;
    unsigned bits = 0;
    int end = 0;
    const char* text = line.c_str();
    EmittedOperation op;
    if (std::sscanf(text, "fma.rn.f32 c%lld,b,0f%8X,c%lld;%n", &x, &bits, &y, &end) == 3 &&
        whole(line, end) && x == y) {
      op.kind = EmittedOperation::Kind::fma;
      op.accumulator = x;
      op.b = "b";
      op.value = std::bit_cast<float>(std::uint32_t{bits});
      add(op);
    } else if (std::sscanf(text, "ld.global.nc.f32 b,[pb+%lld];%n", &x, &end) == 1 &&
               whole(line, end)) {
      op.b = "b";
      op.offset = floats(position_b_ + x);
      add(op);
    } else if (line == "ld.global.nc.f32 b,[address];") {
      op.b = "b";
      op.row = take_address('b');
      add(op);
    } else if (std::sscanf(text, "add.s64 pb,pb,%lld;", &x) == 1) {
      position_b_ += x;
    } else if (std::sscanf(text, "add.s64 pc,pc,%lld;", &x) == 1) {
      position_c_ += x;
    } else if (std::sscanf(text, "mul.wide.u32 address,ld%c,%lld;%n", &address_base_, &x, &end) ==
                   2 &&
               whole(line, end)) {
      address_row_ = x;
    } else if (line == std::string("add.s64 address,address,p") + address_base_ + ";") {
      address_complete_ = true;
    } else if (line.starts_with("st.global.f32 ")) {
      store(line);
    } else if (!line.starts_with(".reg ") && !line.starts_with("ld.param.b") &&
               !(line.starts_with("mov.f32 c") && line.ends_with(",0f00000000;")) && line != "{" &&
               line != "}" && line != "exit;" && !line.empty()) {
      refuse(line);
    }
  }

  void store(const std::string& line) {
    long long where = 0;
    long long from = 0;
    int end = 0;
    EmittedOperation op;
    op.kind = line.ends_with(",0f00000000;") ? EmittedOperation::Kind::store_zero
                                             : EmittedOperation::Kind::store;
    const std::string to = line.substr(0, line.find(','));
    if (std::sscanf(to.c_str(), "st.global.f32 [pc+%lld]%n", &where, &end) == 1 && whole(to, end)) {
      op.offset = floats(position_c_ + where);
    } else if (to == "st.global.f32 [address]") {
      op.row = take_address('c');
    } else {
      refuse(line);
    }
    if (op.kind == EmittedOperation::Kind::store) {
      if (std::sscanf(line.c_str() + to.size(), ",c%lld;", &from) != 1) refuse(line);
      op.accumulator = from;
    }
    add(op);
  }

  void kernel(const std::string& line) {
    long long number = 0;
    if (std::sscanf(line.c_str(), "mad.lo.u32 j,j,%lld,thread;", &number) == 1) {
      program_.threads = number;
    } else if (line == "mad.lo.u32 j,j,threads,thread;") {
      program_.threads = 0;
    } else if (std::sscanf(line.c_str(), "setp.ge.u32 outside,j,%lld;", &number) == 1) {
      program_.bound = number;
    } else if (line.starts_with("targets") && line.find(": .branchtargets ") != std::string::npos) {
      const std::size_t begin = line.find(": .branchtargets ") + 17;
      std::istringstream list(line.substr(begin, line.find(';') - begin));
      for (std::string label; std::getline(list, label, ',');) labels_.push_back(label);
    } else if (line.starts_with("to_") && line.ends_with(":")) {
      label_ = line.substr(0, line.size() - 1);
    } else if (line.starts_with("call ")) {
      const std::string name = line.substr(5, line.find(',') - 5);
      for (std::size_t block = 0; block < labels_.size(); ++block) {
        if (labels_[block] == label_) set_target(program_, block, name);
      }
    }
  }

  /// The row whose address was computed for the matrix `base`; good for one access.
  std::int64_t take_address(char base) {
    if (!address_complete_ || address_base_ != base) throw std::runtime_error("no address");
    address_complete_ = false;
    return address_row_;
  }

  static std::int64_t floats(std::int64_t bytes) {
    if (bytes % 4 != 0) throw std::runtime_error("misaligned offset");
    return bytes / 4;
  }

  void add(const EmittedOperation& operation) { program_.functions.at(name_).push_back(operation); }

  EmittedProgram& program_;
  std::string name_;
  bool in_kernel_ = false;
  std::vector<std::string> labels_;  ///< of each block
  std::string label_;                ///< the last one passed
  std::int64_t position_b_ = 0;
  std::int64_t position_c_ = 0;
  std::int64_t address_row_ = 0;
  char address_base_ = '?';
  bool address_complete_ = false;
};

}  // namespace detail

/// Throws std::runtime_error for a line it does not know.
[[nodiscard]] inline EmittedProgram read_emitted(const std::vector<SourceUnit>& units) {
  EmittedProgram program;
  for (const SourceUnit& unit : units) {
    std::istringstream text(unit.text);
    detail::CudaReader cuda(program);
    detail::PtxReader ptx(program);
    for (std::string line; std::getline(text, line);) {
      if (unit.language == SourceLanguage::cuda) {
        cuda.line(line);
      } else {
        ptx.line(line);
      }
    }
  }
  return program;
}

/// Executes every block's column j < n of the program; returns how often each element of C
/// `[rows x n]` was written. Registers that are read before they are written are an error.
[[nodiscard]] inline std::vector<int> execute_emitted(const EmittedProgram& program,
                                                      std::int64_t rows, const Product& operands) {
  std::vector<int> writes(static_cast<std::size_t>(rows * operands.n));
  for (const std::string& target : program.targets) {
    for (std::int64_t j = 0; j < operands.n; ++j) {
      std::map<std::int64_t, float> accumulators;
      std::map<std::string, float> loaded;
      for (const EmittedOperation& op : program.functions.at(target)) {
        if (op.kind == EmittedOperation::Kind::load) {
          loaded[op.b] = operands.b[op.offset + op.row * operands.ldb + j];
        } else if (op.kind == EmittedOperation::Kind::fma) {
          float& sum = accumulators[op.accumulator];
          sum = std::fma(op.value, loaded.at(op.b), sum);
        } else {
          const std::int64_t at = op.offset + op.row * operands.ldc;
          operands.c[at + j] =
              op.kind == EmittedOperation::Kind::store ? accumulators[op.accumulator] : 0.0F;
          ++writes.at(static_cast<std::size_t>(at / operands.ldc * operands.n + j));
        }
      }
    }
  }
  return writes;
}

}  // namespace spjit::testing_support
