#include "kernels/cuda/code/ptx_text.hpp"

#include <fmt/format.h>

#include "spjit/error.hpp"

namespace spjit {

std::string_view ptx_version(int sm) {
  switch (sm) {
    case 70:  // 6.0 has it, but not the instructions
    case 75:
      return "6.4";
    case 80:
      return "7.0";
    case 86:
      return "7.1";
    case 89:
    case 90:
      return "7.8";
    case 100:
      return "8.6";
    case 120:
      return "8.7";
    default:
      throw NotSupported(fmt::format(
          "no PTX for sm_{}; expected sm_70, sm_75, sm_80, sm_86, sm_89, sm_90, sm_100 or sm_120",
          sm));
  }
}

}  // namespace spjit
