#include "plan/formula.hpp"

#include <fmt/format.h>

namespace spjit {

std::string formula_of(const Epilogue& epilogue) {
  std::string sum = epilogue.bias_first ? "scale * (A * B + bias)"
                    : epilogue.scale    ? "scale * (A * B)"
                                        : "A * B";
  if (epilogue.bias && !epilogue.bias_first) sum += " + bias";
  if (epilogue.residual) sum += " + residual";
  switch (epilogue.activation) {
    case Activation::none:
      return sum;
    case Activation::clamp:
      return fmt::format("clamp({}, {}, {})", sum, epilogue.low, epilogue.high);
    case Activation::leaky_relu:
      return fmt::format("leaky-relu({}, {})", sum, epilogue.alpha);
    case Activation::hard_sigmoid:
      return fmt::format("hard-sigmoid({}, {}, {})", sum, epilogue.alpha, epilogue.beta);
    default:
      return fmt::format("{}({})", to_string(epilogue.activation), sum);
  }
}

}  // namespace spjit
